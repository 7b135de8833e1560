// The one TCP port: checks Host, Origin and the operator's key, then passes each request on to the
// daemon that owns its path, over that daemon's own operator socket.
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { Fault, fault } from '../wire/errors.ts';
import { DAEMONS, type DaemonName, PATH_OWNERS } from '../wire/peers.ts';
import { bearer, operatorOverTcp } from './authenticate.ts';
import { socketPathOf } from './daemon.ts';
import { answerUnreadable, askForBody, HEADER_BYTES_MAX } from './http-unreadable.ts';
import type { Log } from './log.ts';
import type { People } from './people.ts';

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
  people?: People;
  log: Log;
}): Promise<Front> {
  let port = options.port;
  const authenticate = operatorOverTcp(options.operatorKey, () => port, options.people);
  const agent = new http.Agent({ keepAlive: true, maxSockets: 256 });
  const server = http.createServer(
    {
      headersTimeout: 15_000,
      requestTimeout: 120_000,
      connectionsCheckingInterval: 5_000,
      maxHeaderSize: HEADER_BYTES_MAX,
      requireHostHeader: false,
    },
    (request, response) => {
      try {
        const caller = authenticate(request);
        passOn(request, response, caller.principal.replace(/^person:/, ''));
      } catch (error) {
        refuse(
          response,
          error instanceof Fault
            ? error
            : fault('internal', 'something went wrong here', { cause: error }),
        );
      }
    },
  );
  server.maxConnections = 1_024;
  answerUnreadable(server);

  const passOn = (
    request: http.IncomingMessage,
    response: http.ServerResponse,
    person: string,
  ): void => {
    const { daemon, path } = ownerOf(request.url ?? '/');
    const onward = openOnward({
      agent,
      socketPath: socketPathOf(options.runtimeDir, daemon, 'operator'),
      method: request.method,
      path,
      headers: {
        ...onwardHeaders(request),
        host: 'agentd',
        // The key that came, so that whose it is stays known.
        authorization: `Bearer ${bearer(request)}`,
        'agentd-person': person,
      },
    });
    onward.on('response', (answer) => {
      const { connection: _, 'keep-alive': __, ...rest } = answer.headers;
      response.writeHead(answer.statusCode ?? 502, rest);
      answer.pipe(response);
      answer.on('error', () => response.destroy());
    });
    onward.on('error', (cause) => {
      options.log.debug('a daemon did not answer', { daemon, error: cause });
      if (response.headersSent) response.destroy();
      else refuse(response, fault('unavailable', `${daemon} does not answer`, { cause }));
    });
    response.on('close', () => onward.destroy());
    askForBody(request, response);
    request.pipe(onward);
  };

  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      reject(
        error.code === 'EADDRINUSE'
          ? fault('conflict', `port ${options.port} is in use`, { hint: 'Choose another --port.' })
          : error,
      ),
    );
    server.listen(options.port, '127.0.0.1', resolve);
  });
  port = (server.address() as AddressInfo).port;
  return {
    port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
        agent.destroy();
      }),
  };
}

function onwardHeaders(request: http.IncomingMessage): http.OutgoingHttpHeaders {
  const headers: http.OutgoingHttpHeaders = {};
  for (const [name, value] of Object.entries(request.headers))
    if (!HOP_HEADERS.has(name) && value !== undefined) headers[name] = value;
  // Without it Node would send the body of a GET or DELETE bare, to be read as the next request.
  if (request.headers['transfer-encoding'] !== undefined) headers['transfer-encoding'] = 'chunked';
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

function refuse(response: http.ServerResponse, error: Fault): void {
  const body = JSON.stringify({ error: error.toBody() });
  response.writeHead(error.http, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    connection: 'close',
  });
  response.end(body);
}
