// The proxy of one run: a Unix socket that speaks HTTP/1.1, one request at a time per connection.
// Every client is the run; the connector decides what it may reach.
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import http from 'node:http';
import type net from 'node:net';
import { dirname, join } from 'node:path';
import { assertSocketPath } from '../../../platform/http-server.ts';
import type { Log } from '../../../platform/log.ts';
import type { Target } from '../../../policy/hosts.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import type { Connector } from '../connector.ts';
import type { EgressRun } from '../run.ts';
import { endWithFault } from './fault-response.ts';
import { serveRequest } from './forward.ts';
import { makePool } from './pool.ts';
import { serveTunnel } from './tunnel.ts';

const HEAD_BYTES_MAX = 32_768;
const REQUEST_MS_MAX = 3_600_000;

export type ProxyLimits = {
  headTimeoutMs: number;
  idleTimeoutMs: number;
  clientsMax: number;
};
export type Proxy = { close(): Promise<void> };

export async function openProxy(options: {
  socketPath: string;
  run: EgressRun;
  connector: Connector;
  limits: ProxyLimits;
  log: Log;
}): Promise<Proxy> {
  const { socketPath, run, connector, limits, log } = options;
  const pool = makePool({ run, connector, connectOptions: { kind: 'http' } });
  const clients = new Set<net.Socket>();
  const busy = new WeakSet<net.Socket>();
  const tunnels = new WeakMap<net.Socket, Target>();

  const server = http.createServer({
    headersTimeout: limits.headTimeoutMs,
    requestTimeout: REQUEST_MS_MAX,
    keepAliveTimeout: 30_000,
    connectionsCheckingInterval: Math.min(1_000, limits.headTimeoutMs),
    maxHeaderSize: HEAD_BYTES_MAX,
    requireHostHeader: false,
    noDelay: true,
  });
  // With a limit, Node silently drops the headers beyond it.
  server.maxHeadersCount = 0;
  server.timeout = limits.idleTimeoutMs;

  // Wraps Node's listener, so that excess connections are refused before they are read.
  const [accept] = server.listeners('connection') as ((socket: net.Socket) => void)[];
  if (accept === undefined) throw new Error('an HTTP server has no listener for connections');
  server.removeAllListeners('connection');

  const onRequest = (request: http.IncomingMessage, response: http.ServerResponse): void => {
    const { socket } = request;
    // A second request before the first is answered is only useful for request smuggling.
    if (busy.has(socket)) return void socket.destroy();
    busy.add(socket);
    response.on('close', () => busy.delete(socket));
    const bound = tunnels.get(socket);
    const { idleTimeoutMs } = limits;
    void serveRequest({ run, connector, pool, request, response, bound, idleTimeoutMs, log });
  };

  server.on('request', onRequest);
  server.on('checkContinue', onRequest);
  server.on('checkExpectation', (request: http.IncomingMessage) =>
    endWithFault(request.socket, fault('bad_request', 'unsupported Expect header')),
  );
  server.on('connect', (request, duplex, head: Buffer) => {
    const client = duplex as net.Socket;
    if (tunnels.has(client) || busy.has(client))
      return endWithFault(client, fault('denied', 'a tunnel inside a tunnel is not allowed'));
    client.setTimeout(0);
    void serveTunnel({
      run,
      connector,
      request,
      client,
      head,
      log,
      ...limits,
      serveHttp(socket, target, dialed) {
        tunnels.set(socket, target);
        if (dialed !== undefined) pool.offer(dialed);
        accept.call(server, socket);
        socket.resume();
      },
    });
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    if (!socket.writable || error.code === 'ECONNRESET' || busy.has(socket as net.Socket))
      return void socket.destroy();
    endWithFault(socket, parserFault(error));
  });

  server.on('connection', (socket: net.Socket) => {
    if (run.isEnded) return void socket.destroy();
    clients.add(socket);
    socket.on('close', () => clients.delete(socket));
    if (clients.size <= limits.clientsMax) return accept.call(server, socket);
    endWithFault(
      socket,
      fault('overloaded', 'this run has too many connections to the proxy open', {
        retryAfterMs: 1_000,
      }),
    );
  });

  await listen(server, socketPath);
  return {
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of clients) socket.destroy();
      pool.close();
      await closed;
      rmSync(dirname(socketPath), { recursive: true, force: true });
    },
  };
}

export function removeStaleDirs(dir: string, isLive: (name: string) => boolean): void {
  for (const name of existsSync(dir) ? readdirSync(dir) : [])
    if (name.startsWith('run_') && !isLive(name))
      rmSync(join(dir, name), { recursive: true, force: true });
}

async function listen(server: http.Server, socketPath: string): Promise<void> {
  assertSocketPath(socketPath);
  mkdirSync(dirname(socketPath), { recursive: true, mode: 0o700 });
  rmSync(socketPath, { force: true });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ path: socketPath }, resolve);
  });
  // The box's relay may run as another user; the directory above is 0700.
  chmodSync(dirname(socketPath), 0o755);
  chmodSync(socketPath, 0o666);
}

function parserFault(error: NodeJS.ErrnoException): Fault {
  if (error.code === 'HPE_HEADER_OVERFLOW')
    return fault('too_large', `the headers are larger than ${HEAD_BYTES_MAX} bytes`);
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return fault('deadline', 'the request did not arrive in time');
  return fault('bad_request', 'not a valid HTTP request');
}
