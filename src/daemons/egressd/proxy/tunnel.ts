// CONNECT: a tunnel to one host and port. Unless a rule says `plain`, it carries TLS to that host,
// or, off port 443, HTTP that is then read request by request.
import type http from 'node:http';
import type net from 'node:net';
import type { Log } from '../../../platform/log.ts';
import { parseAuthority, type Target } from '../../../policy/hosts.ts';
import type { Connector, Reached } from '../connector.ts';
import { refuse } from '../rules/refusal.ts';
import { type EgressRun, isMarked } from '../run.ts';
import { endWith, knownFault } from './answer.ts';
import { pipeMetered } from './pipe-metered.ts';
import { readFirst } from './sniff.ts';

export type TunnelOptions = {
  run: EgressRun;
  gate: Connector;
  request: http.IncomingMessage;
  client: net.Socket;
  head: Buffer;
  headTimeoutMs: number;
  idleTimeoutMs: number;
  log: Log;
  /** Takes a client that turned out to speak plain HTTP, and the connection made for it, if any. */
  handOver(client: net.Socket, target: Target, reached: Reached | undefined): void;
};

type Unlink = () => void;

const PORT_TLS = 443;
const ESTABLISHED = 'HTTP/1.1 200 Connection Established\r\n\r\n';
/** TLS: fatal, unrecognized_name. Better than a closed connection: clients say what it means. */
const UNRECOGNIZED_NAME = Buffer.from([0x15, 3, 1, 0, 2, 2, 112]);

function readTarget({ run, gate, request }: TunnelOptions): Target {
  const { url = '', headers, rawHeaders } = request;
  const problem = (text: string) => {
    const what = { host: url.slice(0, 253), port: 0, method: 'CONNECT' };
    return gate.refused(run, refuse('request', what, `CONNECT ${what.host}: ${text}`));
  };
  // Node takes a line without a version too.
  if (!/^1\.[01]$/.test(request.httpVersion)) throw problem('it is not HTTP/1.1');
  const read = parseAuthority(url);
  if ('problem' in read) throw problem(read.problem);
  const target = read.value;
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
  const { run, gate, client } = options;
  let reached: Reached | undefined;
  client.on('error', () => client.destroy());
  try {
    const target = readTarget(options);
    const wanted = { ...target, how: 'tunnel' as const };
    if (target.port !== PORT_TLS && gate.mustBeRead(run, wanted))
      return await carryRequests(options, target);
    reached = await gate.reach(run, wanted, { kind: 'tunnel' });
    const untie = linkSockets(options, reached);
    if (client.destroyed) return void reached.connection.ending.abort();
    client.write(ESTABLISHED);
    if (reached.isPlain) return carry(options, reached, options.head);
    await carryRead(options, reached, { target, untie });
  } catch (error) {
    reached?.connection.ending.abort();
    endWith(client, knownFault(error, options.log));
  }
}

/** From here on, whatever ends one side ends the other, and is written down. */
function linkSockets(
  { run, gate, client, idleTimeoutMs }: TunnelOptions,
  reached: Reached,
): Unlink {
  const { connection, socket } = reached;
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
    gate.finish(run, connection);
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

async function carryRead(
  options: TunnelOptions,
  reached: Reached,
  { target, untie }: { target: Target; untie: Unlink },
): Promise<void> {
  const { run, gate, client, head, headTimeoutMs } = options;
  const { signal } = reached.connection.ending;
  const first = await readFirst(client, { head, target, timeoutMs: headTimeoutMs, signal });
  switch (first.is) {
    case 'tls':
      return carry(options, reached, first.bytes);
    case 'http':
      untie();
      client.unshift(first.bytes);
      return options.handOver(client, target, reached);
    case 'gone':
      return reached.connection.ending.abort();
    case 'not_tls':
    case 'server_name': {
      const what = { host: target.host.name, port: target.port };
      const refused = gate.refused(run, refuse(first.is, what));
      reached.connection.status = 'refused';
      reached.socket.destroy();
      if (first.is === 'server_name') return void client.end(UNRECOGNIZED_NAME);
      return endWith(client, refused);
    }
  }
}

/** Nothing is dialled yet: whether it may be, only the requests inside can tell. */
async function carryRequests(options: TunnelOptions, target: Target): Promise<void> {
  const { run, gate, client, head, headTimeoutMs } = options;
  client.write(ESTABLISHED);
  const { signal } = new AbortController();
  const first = await readFirst(client, { head, target, timeoutMs: headTimeoutMs, signal });
  if (first.is === 'gone') return void client.destroy();
  if (first.is !== 'http') {
    const what = { host: target.host.name, port: target.port, isMarked: isMarked(run) };
    throw gate.refused(run, refuse('unreadable', what));
  }
  client.unshift(first.bytes);
  options.handOver(client, target, undefined);
}

function carry({ run, gate, client }: TunnelOptions, reached: Reached, first: Buffer): void {
  const { connection, socket } = reached;
  client.on('close', () => socket.destroy());
  if (first.length > 0) {
    if (!gate.spend(run, connection, { sent: first.length })) return;
    socket.write(first);
  }
  pipeMetered(client, socket, (sent) => gate.spend(run, connection, { sent }));
  pipeMetered(socket, client, (received) => gate.spend(run, connection, { received }));
  client.resume();
}
