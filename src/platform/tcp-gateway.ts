// The one TCP port: checks Host, Origin and the operator's key, then hands each request to the
// daemon that owns its path: in this process as it is, else over that daemon's operator socket.
import http from 'node:http';
import { DAEMONS, type DaemonName, PATH_OWNERS } from '../wire/daemons.ts';
import { Fault, fault } from '../wire/errors.ts';
import { bearer, operatorOverTcp } from './authenticate.ts';
import { type RunningDaemon, socketPathOf } from './daemon.ts';
import type { Exchange } from './http1/exchange.ts';
import type { Headers } from './http1/head.ts';
import { makeServer } from './http1/server.ts';
import type { Log } from './log.ts';
import type { PersonKeys } from './person-keys.ts';

const CONNECTIONS_MAX = 1_024;

export type Front = { port: number; close(): Promise<void> };

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

/** The daemon a path belongs to, and the path as that daemon knows it. */
function ownerOf(path: string): { daemon: DaemonName; path: string } {
  // /daemons/<name>/metrics and /daemons/<name>/healthz reach the routes every daemon has.
  const [, name, rest] = /^\/daemons\/([a-z-]+)(\/(?:metrics|healthz))$/.exec(path) ?? [];
  if (name === undefined) {
    const owner = PATH_OWNERS.find(({ prefix }) => path.startsWith(prefix));
    return { daemon: owner?.daemon ?? 'agentd', path };
  }
  const daemon = DAEMONS.find((one) => one === name);
  if (daemon === undefined) throw fault('no_such_route', `there is no daemon ${name}`);
  return { daemon, path: rest! };
}

export async function openFront(options: {
  port: number;
  runtimeDir: string;
  operatorKey: string;
  people?: PersonKeys;
  log: Log;
  /** Daemons of this process. */
  here?: ReadonlyMap<DaemonName, RunningDaemon> | undefined;
}): Promise<Front> {
  let port = options.port;
  const authenticate = operatorOverTcp(options.operatorKey, () => port, options.people);
  const agent = new http.Agent({ keepAlive: true, maxSockets: 256 });

  const passOn = (exchange: Exchange): void => {
    const caller = authenticate(exchange);
    const { daemon, path } = ownerOf(exchange.target);
    const answer = options.here?.get(daemon)?.answer;
    if (answer !== undefined) return void answer(exchange, path, caller);
    const socketPath = socketPathOf(options.runtimeDir, daemon, 'operator');
    const headers = {
      ...onwardHeaders(exchange.headers),
      host: 'agentd',
      // The key that came, so that whose it is stays known.
      authorization: `Bearer ${bearer(exchange)}`,
      'agentd-person': caller.principal.replace(/^person:/, ''),
    };
    const onward = openOnward({ agent, socketPath, method: exchange.method, path, headers });
    onward.on('error', (cause) => {
      options.log.debug('a daemon did not answer', { daemon, error: cause });
      refuse(exchange, fault('unavailable', `${daemon} does not answer`, { cause }));
    });
    join(exchange, onward);
  };

  const server = makeServer({
    connectionsMax: CONNECTIONS_MAX,
    onRequest(exchange) {
      try {
        passOn(exchange);
      } catch (error) {
        const internal = () => fault('internal', 'something went wrong here', { cause: error });
        refuse(exchange, error instanceof Fault ? error : internal());
      }
    },
  });
  await server.listen({ host: '127.0.0.1', port }).catch((error: unknown) => {
    if (!(error instanceof Fault)) throw error;
    throw fault('conflict', `port ${port} is in use`, { hint: 'Choose another --port.' });
  });
  port = server.port();
  return {
    port,
    async close() {
      agent.destroy();
      await server.close(0);
    },
  };
}

/** Body and answer go through as they come; who reads slowly slows who writes. */
function join(exchange: Exchange, onward: http.ClientRequest): void {
  exchange.onGone(() => onward.destroy());
  onward.on('response', (answer) => {
    const { connection: _, 'keep-alive': __, 'transfer-encoding': ___, ...rest } = answer.headers;
    exchange.begin(answer.statusCode ?? 502, oneEach(rest));
    exchange.onDrain(() => answer.resume());
    answer.on('data', (chunk: Buffer) => {
      if (!exchange.write(chunk)) answer.pause();
    });
    answer.on('end', () => exchange.end());
    answer.on('error', () => exchange.destroy());
  });
  onward.on('drain', () => exchange.resumeBody());
  exchange.askForBody();
  exchange.readBody({
    data(chunk) {
      if (!onward.write(chunk)) exchange.pauseBody();
    },
    end: () => void onward.end(),
    cut: () => void onward.destroy(),
  });
}

function oneEach(headers: http.IncomingHttpHeaders): Record<string, string | undefined> {
  const each: Record<string, string | undefined> = {};
  for (const [name, value] of Object.entries(headers))
    each[name] = Array.isArray(value) ? value.join(', ') : value;
  return each;
}

function onwardHeaders(given: Headers): http.OutgoingHttpHeaders {
  const headers: http.OutgoingHttpHeaders = {};
  for (const [name, value] of Object.entries(given))
    if (!HOP_HEADERS.has(name) && value !== undefined) headers[name] = value;
  // Without it Node would send the body of a GET or DELETE bare, to be read as the next request.
  if (given['transfer-encoding'] !== undefined) headers['transfer-encoding'] = 'chunked';
  return headers;
}

function openOnward(options: http.RequestOptions): http.ClientRequest {
  try {
    return http.request(options);
  } catch (cause) {
    throw fault('bad_request', 'the path or a header has characters that cannot be sent', {
      cause,
    });
  }
}

function refuse(exchange: Exchange, error: Fault): void {
  if (exchange.isBegun) return void exchange.destroy();
  const body = JSON.stringify({ error: error.toBody() });
  exchange.send(error.http, { 'content-type': 'application/json' }, body);
}
