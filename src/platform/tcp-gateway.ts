// Serves the TCP port: checks Host, Origin and the key, then passes each request to the daemon that
// owns its path, in this process or over that daemon's operator socket.
import http from 'node:http';
import { DAEMONS, type DaemonName, PATH_OWNERS } from '../wire/daemons.ts';
import { Fault, fault } from '../wire/errors.ts';
import { findVendor } from '../wire/route.ts';
import { isApiKey } from './api-key.ts';
import { assertHostNames, authenticateByKey, listHostNames, readBearer } from './authenticate.ts';
import { type RunningDaemon, socketPathFor } from './daemon.ts';
import type { DialectErrors } from './http-server.ts';
import type { Exchange } from './http1/exchange.ts';
import type { Headers } from './http1/head.ts';
import { makeServer } from './http1/server.ts';
import type { Log } from './log.ts';
import type { PersonKeys } from './person-keys.ts';

const CONNECTIONS_MAX = 1_024;
const JSON_HEADERS = { 'content-type': 'application/json' };

export type TcpGateway = { port: number; close(): Promise<void> };

const HOP_HEADERS = new Set([
  'connection',
  'keep-alive',
  'transfer-encoding',
  'upgrade',
  'te',
  'trailer',
  'proxy-authorization',
  'host',
  'authorization',
  'x-api-key',
  'expect',
  'agentd-person',
]);

/** Returns the daemon that owns a path, and the path as that daemon knows it. */
function findOwner(path: string): { daemon: DaemonName; path: string } {
  // /daemons/<name>/metrics and /daemons/<name>/healthz reach the routes every daemon has.
  const [, name, rest] = /^\/daemons\/([a-z-]+)(\/(?:metrics|healthz))$/.exec(path) ?? [];
  if (name === undefined) {
    const owner = PATH_OWNERS.find(({ prefix }) => path.startsWith(prefix));
    return { daemon: owner?.daemon ?? 'agentd', path };
  }
  const daemon = DAEMONS.find((known) => known === name);
  if (daemon === undefined) throw fault('no_such_route', `daemon ${name} not found`);
  return { daemon, path: rest! };
}

export async function openTcpGateway(options: {
  port: number;
  runtimeDir: string;
  operatorKey: string;
  /** Further names that requests may be sent to. */
  hostNames?: readonly string[];
  people?: PersonKeys;
  log: Log;
  /** For what is refused here, below the paths of a vendor. */
  dialectErrors?: DialectErrors;
  /** The daemons of this process. */
  here?: ReadonlyMap<DaemonName, RunningDaemon> | undefined;
}): Promise<TcpGateway> {
  let names: ReadonlySet<string> = new Set();
  const { operatorKey, people } = options;
  const agent = new http.Agent({ keepAlive: true, maxSockets: 256 });

  const refuse = (exchange: Exchange, error: Fault): void => {
    if (exchange.isBegun) return void exchange.destroy();
    const vendor = findVendor(exchange.target);
    const { status, headers, body } =
      vendor === undefined || options.dialectErrors === undefined
        ? { status: error.http, headers: JSON_HEADERS, body: { error: error.toBody() } }
        : options.dialectErrors(vendor, error);
    exchange.send(status, headers, typeof body === 'string' ? body : JSON.stringify(body));
  };

  const forward = (exchange: Exchange): void => {
    // Web pages must not be able to call.
    assertHostNames(exchange, names);
    const { daemon, path } = findOwner(exchange.target);
    const local = options.here?.get(daemon);
    const authenticate = authenticateByKey(operatorKey, people, local?.verifyKey);
    if (local?.handle !== undefined) return void local.handle(exchange, path, authenticate);
    const sent = readBearer(exchange);
    // Only the daemon itself can verify an API key.
    const person =
      sent !== undefined && isApiKey(sent) && sent !== operatorKey
        ? undefined
        : authenticate(exchange).principal.replace(/^person:/, '');
    const socketPath = socketPathFor(options.runtimeDir, daemon, 'operator');
    const headers = {
      ...forwardHeaders(exchange.headers),
      host: 'agentd',
      // The caller's own key, so that the daemon knows whose it is.
      authorization: `Bearer ${sent}`,
      ...(person === undefined ? {} : { 'agentd-person': person }),
    };
    const upstream = openUpstream({ agent, socketPath, method: exchange.method, path, headers });
    upstream.on('error', (cause) => {
      options.log.debug('a daemon did not respond', { daemon, error: cause });
      refuse(exchange, fault('unavailable', `${daemon} does not respond`, { cause }));
    });
    pipe(exchange, upstream);
  };

  const server = makeServer({
    connectionsMax: CONNECTIONS_MAX,
    onRequest(exchange) {
      try {
        forward(exchange);
      } catch (error) {
        const internal = () => fault('internal', 'internal error', { cause: error });
        refuse(exchange, error instanceof Fault ? error : internal());
      }
    },
  });
  await server.listen({ host: '127.0.0.1', port: options.port }).catch((error: unknown) => {
    if (!(error instanceof Fault)) throw error;
    throw fault('conflict', `port ${options.port} is in use`, { hint: 'Choose another --port.' });
  });
  const port = server.port();
  names = listHostNames(port, options.hostNames);
  return {
    port,
    async close() {
      agent.destroy();
      await server.close(0);
    },
  };
}

/** Streams the body and the response through, with backpressure. */
function pipe(exchange: Exchange, upstream: http.ClientRequest): void {
  exchange.onGone(() => upstream.destroy());
  upstream.on('response', (response) => {
    const { connection: _, 'keep-alive': __, 'transfer-encoding': ___, ...rest } = response.headers;
    exchange.begin(response.statusCode ?? 502, joinRepeated(rest));
    exchange.onDrain(() => response.resume());
    response.on('data', (chunk: Buffer) => {
      if (!exchange.write(chunk)) response.pause();
    });
    response.on('end', () => exchange.end());
    response.on('error', () => exchange.destroy());
  });
  upstream.on('drain', () => exchange.resumeBody());
  exchange.sendContinue();
  exchange.readBody({
    data(chunk) {
      if (!upstream.write(chunk)) exchange.pauseBody();
    },
    end: () => void upstream.end(),
    abort: () => void upstream.destroy(),
  });
}

function joinRepeated(headers: http.IncomingHttpHeaders): Record<string, string | undefined> {
  const joined: Record<string, string | undefined> = {};
  for (const [name, value] of Object.entries(headers))
    joined[name] = Array.isArray(value) ? value.join(', ') : value;
  return joined;
}

function forwardHeaders(received: Headers): http.OutgoingHttpHeaders {
  const headers: http.OutgoingHttpHeaders = {};
  for (const [name, value] of Object.entries(received))
    if (!HOP_HEADERS.has(name) && value !== undefined) headers[name] = value;
  // Without it Node sends the body of a GET or DELETE unframed: it would be the next request.
  if (received['transfer-encoding'] !== undefined) headers['transfer-encoding'] = 'chunked';
  return headers;
}

function openUpstream(options: http.RequestOptions): http.ClientRequest {
  try {
    return http.request(options);
  } catch (cause) {
    throw fault('bad_request', 'the path or a header has characters that cannot be sent', {
      cause,
    });
  }
}
