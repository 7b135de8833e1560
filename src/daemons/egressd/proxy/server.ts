// The proxy of one run: a Unix socket that speaks HTTP/1.1, one request at a time on each
// connection. Whoever connects is the run; what it may do is the gate's.
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
import { endWith } from './answer.ts';
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
  gate: Connector;
  limits: ProxyLimits;
  log: Log;
}): Promise<Proxy> {
  const { socketPath, run, gate, limits, log } = options;
  const pool = makePool({ run, gate, asked: { kind: 'http' } });
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
  // With a limit Node would leave out what is beyond it, and read on.
  server.maxHeadersCount = 0;
  server.timeout = limits.idleTimeoutMs;

  // Taken from Node, so that what is too much is refused before anything of it is read.
  const [accept] = server.listeners('connection') as ((socket: net.Socket) => void)[];
  if (accept === undefined) throw new Error('an HTTP server has no listener for connections');
  server.removeAllListeners('connection');

  const onRequest = (request: http.IncomingMessage, response: http.ServerResponse): void => {
    const { socket } = request;
    // A second one before the first is answered: nobody but a smuggler needs that.
    if (busy.has(socket)) return void socket.destroy();
    busy.add(socket);
    response.on('close', () => busy.delete(socket));
    const bound = tunnels.get(socket);
    const { idleTimeoutMs } = limits;
    void serveRequest({ run, gate, pool, request, response, bound, idleTimeoutMs, log });
  };

  server.on('request', onRequest);
  server.on('checkContinue', onRequest);
  server.on('checkExpectation', (request: http.IncomingMessage) =>
    endWith(request.socket, fault('bad_request', 'nobody can meet what the request expects')),
  );
  server.on('connect', (request, duplex, head: Buffer) => {
    const client = duplex as net.Socket;
    if (tunnels.has(client) || busy.has(client))
      return endWith(client, fault('denied', 'there is no tunnel inside a tunnel'));
    client.setTimeout(0);
    void serveTunnel({
      run,
      gate,
      request,
      client,
      head,
      log,
      ...limits,
      handOver(socket, target, reached) {
        tunnels.set(socket, target);
        if (reached !== undefined) pool.offer(reached);
        accept.call(server, socket);
        socket.resume();
      },
    });
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    if (!socket.writable || error.code === 'ECONNRESET' || busy.has(socket as net.Socket))
      return void socket.destroy();
    endWith(socket, faultOfParser(error));
  });

  server.on('connection', (socket: net.Socket) => {
    if (run.isOver) return void socket.destroy();
    clients.add(socket);
    socket.on('close', () => clients.delete(socket));
    if (clients.size <= limits.clientsMax) return accept.call(server, socket);
    endWith(
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

/** Directories of runs that a process before this one left. */
export function sweepSockets(dir: string, isLive: (name: string) => boolean): void {
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
  // Whoever relays for the box may be another user; the directory above is 0700.
  chmodSync(dirname(socketPath), 0o755);
  chmodSync(socketPath, 0o666);
}

function faultOfParser(error: NodeJS.ErrnoException): Fault {
  if (error.code === 'HPE_HEADER_OVERFLOW')
    return fault('too_large', `the headers are larger than ${HEAD_BYTES_MAX} bytes`);
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return fault('deadline', 'the request did not arrive in time');
  return fault('bad_request', 'this is not an HTTP request that can be read');
}
