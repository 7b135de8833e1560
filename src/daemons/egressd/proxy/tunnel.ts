// Serves CONNECT: a tunnel to one host and port. Unless a rule has `plain`, it must carry TLS to
// that host or, on ports other than 443, HTTP, which is then parsed request by request.
import type http from 'node:http';
import type net from 'node:net';
import type { Log } from '../../../platform/log.ts';
import { parseAuthority, type Target } from '../../../policy/hosts.ts';
import type { Connector, EgressLink } from '../connector.ts';
import { makeRefusal } from '../rules/refusal.ts';
import type { EgressRun } from '../run.ts';
import { endWithFault, toFault } from './fault-response.ts';
import { pipeMetered } from './pipe-metered.ts';
import { sniffClient } from './sniff.ts';

export type TunnelOptions = {
  run: EgressRun;
  connector: Connector;
  request: http.IncomingMessage;
  client: net.Socket;
  head: Buffer;
  headTimeoutMs: number;
  idleTimeoutMs: number;
  log: Log;
  /** Serves a client that turned out to speak plain HTTP, with its connection, if any. */
  serveHttp(client: net.Socket, target: Target, dialed: EgressLink | undefined): void;
};

type Unlink = () => void;

const PORT_TLS = 443;
const ESTABLISHED = 'HTTP/1.1 200 Connection Established\r\n\r\n';
/** TLS alert: fatal, unrecognized_name. Clients report it, unlike a closed connection. */
const UNRECOGNIZED_NAME = Buffer.from([0x15, 3, 1, 0, 2, 2, 112]);

function readTarget({ run, connector, request }: TunnelOptions): Target {
  const { url = '', headers, rawHeaders } = request;
  const problem = (text: string) => {
    const what = { host: url.slice(0, 253), port: 0, method: 'CONNECT' };
    return connector.denialFault(
      run,
      makeRefusal('request', what, `CONNECT ${what.host}: ${text}`),
    );
  };
  // Node also accepts a request line without a version.
  if (!/^1\.[01]$/.test(request.httpVersion)) throw problem('it is not HTTP/1.1');
  const parsed = parseAuthority(url);
  if ('problem' in parsed) throw problem(parsed.problem);
  const target = parsed.value;
  if (headers['transfer-encoding'] !== undefined || headers['content-length'] !== undefined)
    throw problem('a CONNECT has no body');
  const hosts = rawHeaders.filter((name, i) => i % 2 === 0 && name.toLowerCase() === 'host');
  if (hosts.length > 1) throw problem('it has more than one Host header');
  if (headers.host !== undefined) {
    const host = parseAuthority(headers.host, target.port);
    if ('problem' in host || host.value.host.name !== target.host.name)
      throw problem('its Host header names another host');
    if (host.value.port !== target.port) throw problem('its Host header names another port');
  }
  return target;
}

export async function serveTunnel(options: TunnelOptions): Promise<void> {
  const { run, connector, client } = options;
  let dialed: EgressLink | undefined;
  client.on('error', () => client.destroy());
  try {
    const target = readTarget(options);
    const dest = { ...target, how: 'tunnel' as const };
    if (target.port !== PORT_TLS && connector.requiresHttp(run, dest))
      return await serveRequestsOnly(options, target);
    dialed = await connector.connect(run, dest, { kind: 'tunnel' });
    const unlink = linkSockets(options, dialed);
    if (client.destroyed) return void dialed.connection.ending.abort();
    client.write(ESTABLISHED);
    if (dialed.isPlain) return pipeTunnel(options, dialed, options.head);
    await serveSniffed(options, dialed, { target, unlink });
  } catch (error) {
    dialed?.connection.ending.abort();
    endWithFault(client, toFault(error, options.log));
  }
}

/** From here on, the end of one side ends the other, and is recorded. */
function linkSockets(
  { run, connector, client, idleTimeoutMs }: TunnelOptions,
  dialed: EgressLink,
): Unlink {
  const { connection, socket } = dialed;
  const { signal } = connection.ending;
  const onAbort = (): void => {
    socket.destroy();
    client.destroy();
  };
  const onIdle = (): void => {
    connection.status = 'idle';
    connection.ending.abort();
  };
  const onClose = (): void => {
    connector.finish(run, connection);
    if (client.destroyed) return;
    client.on('finish', () => client.destroy());
    client.end();
  };
  socket.on('error', () => socket.destroy());
  socket.setTimeout(idleTimeoutMs, onIdle);
  socket.on('close', onClose);
  signal.addEventListener('abort', onAbort);
  if (signal.aborted) onAbort();
  return () => {
    socket.setTimeout(0, onIdle);
    socket.off('close', onClose);
    signal.removeEventListener('abort', onAbort);
  };
}

async function serveSniffed(
  options: TunnelOptions,
  dialed: EgressLink,
  { target, unlink }: { target: Target; unlink: Unlink },
): Promise<void> {
  const { run, connector, client, head, headTimeoutMs } = options;
  const { signal } = dialed.connection.ending;
  const first = await sniffClient(client, { head, target, timeoutMs: headTimeoutMs, signal });
  switch (first.is) {
    case 'tls':
      return pipeTunnel(options, dialed, first.bytes);
    case 'http':
      unlink();
      client.unshift(first.bytes);
      return options.serveHttp(client, target, dialed);
    case 'gone':
      return dialed.connection.ending.abort();
    case 'not_tls':
    case 'server_name': {
      const what = { host: target.host.name, port: target.port };
      const denialFault = connector.denialFault(run, makeRefusal(first.is, what));
      dialed.connection.status = 'refused';
      dialed.socket.destroy();
      if (first.is === 'server_name') return void client.end(UNRECOGNIZED_NAME);
      return endWithFault(client, denialFault);
    }
  }
}

/** Dials nothing yet: only the requests inside show if that is allowed. */
async function serveRequestsOnly(options: TunnelOptions, target: Target): Promise<void> {
  const { run, connector, client, head, headTimeoutMs } = options;
  client.write(ESTABLISHED);
  const { signal } = new AbortController();
  const first = await sniffClient(client, { head, target, timeoutMs: headTimeoutMs, signal });
  if (first.is === 'gone') return void client.destroy();
  if (first.is !== 'http') {
    connector.assertAllowed(run, { ...target, how: 'tunnel' }, { kind: 'tunnel' });
    // The rules became wider meanwhile, but nothing was dialled: the client has to try again.
    return void client.destroy();
  }
  client.unshift(first.bytes);
  options.serveHttp(client, target, undefined);
}

function pipeTunnel(
  { run, connector, client }: TunnelOptions,
  dialed: EgressLink,
  first: Buffer,
): void {
  const { connection, socket } = dialed;
  client.on('close', () => socket.destroy());
  if (first.length > 0) {
    if (!connector.spend(run, connection, { sent: first.length })) return;
    socket.write(first);
  }
  pipeMetered(client, socket, (sent) => connector.spend(run, connection, { sent }));
  pipeMetered(socket, client, (received) => connector.spend(run, connection, { received }));
  client.resume();
}
