// The socket link's server side: HTTP requests become dispatch requests. Every socket has one
// authenticator, which alone decides who the caller is. Limits of size, time and number are set
// here.

import { chmodSync, mkdirSync, rmSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname } from 'node:path';
import type { Caller } from '../wire/caller.ts';
import { Fault, fault } from '../wire/errors.ts';
import type { Route } from '../wire/route.ts';
import { assertCaller, type Dispatch, newTrace, RawAnswer, type Trace } from './dispatch.ts';
import { type ByteBudget, PROCESS_BODIES, readBody } from './http-body.ts';
import { answerUnreadable, HEADER_BYTES_MAX, sendJson } from './http-unreadable.ts';
import { parseJson } from './json.ts';
import type { Log } from './log.ts';

/** Says who calls, or throws a fault. Sees headers only. */
export type Authenticate = (request: http.IncomingMessage) => Caller;
/** Writes a fault in the form a foreign client expects. */
export type DialectErrors = (
  dialect: 'openai' | 'anthropic',
  fault: Fault,
) => { status: number; headers: Record<string, string>; body: string };

export type HttpFace = {
  /** Listens on a Unix socket in a directory of its own; removed again by close. */
  listenUnix(
    socketPath: string,
    authenticate: Authenticate,
    limits?: SocketLimits,
  ): Promise<{ close(): Promise<void> }>;
  listenTcp(
    host: string,
    port: number,
    authenticate: Authenticate,
  ): Promise<{ port: number; close(): Promise<void> }>;
  closeAll(): Promise<void>;
};

export type HttpLimits = {
  headersTimeoutMs: number;
  requestTimeoutMs: number;
  /** How often connections are looked at for the two above. */
  checkEveryMs: number;
};
const LIMITS: HttpLimits = {
  headersTimeoutMs: 15_000,
  requestTimeoutMs: 120_000,
  checkEveryMs: 5_000,
};

/** What one socket may take of the process: all callers of it together. */
export type SocketLimits = { connectionsMax: number; bodiesBytesMax: number };
const SOCKET_LIMITS: SocketLimits = {
  connectionsMax: 2_048,
  bodiesBytesMax: PROCESS_BODIES.bytesMax,
};
/** A run is one process that nobody vouches for: it cannot take from others what they need. */
export const RUN_SOCKET_LIMITS: SocketLimits = { connectionsMax: 64, bodiesBytesMax: 64_000_000 };

const BODY_BYTES_MAX = 1_000_000;
export const SOCKET_PATH_BYTES_MAX = 100;
const TRACEPARENT = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

export function makeHttpFace(options: {
  dispatch: Dispatch;
  log: Log;
  dialectErrors?: DialectErrors;
  limits?: HttpLimits;
}): HttpFace {
  const { dispatch, log, limits = LIMITS } = options;
  const open = new Set<{ close(): Promise<void> }>();

  const listen = (authenticate: Authenticate, allowed: SocketLimits): http.Server => {
    const server = http.createServer({
      keepAliveTimeout: 60_000,
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: limits.requestTimeoutMs,
      connectionsCheckingInterval: limits.checkEveryMs,
      maxHeaderSize: HEADER_BYTES_MAX,
      // Where Host matters the authenticator looks at it, and says what is wrong.
      requireHostHeader: false,
    });
    server.maxConnections = allowed.connectionsMax;
    const budgets = [PROCESS_BODIES, { bytesMax: allowed.bodiesBytesMax, bytes: 0 }];
    server.on(
      'request',
      (request, response) => void answer(request, response, authenticate, budgets),
    );
    answerUnreadable(server);
    return server;
  };

  const answer = async (
    request: http.IncomingMessage,
    response: http.ServerResponse,
    authenticate: Authenticate,
    budgets: readonly ByteBudget[],
  ) => {
    const trace = traceOf(request);
    response.setHeader('x-request-id', trace.requestId);
    let route: Route | undefined;
    try {
      const url = parseUrl(request.url ?? '/');
      const caller = authenticate(request);
      route = dispatch.match(request.method ?? 'GET', url.path).route;
      // Also asked by dispatch; here so that nobody's body is read who may not send one.
      assertCaller(route, caller);
      const sizeBytesMax = route.bodySizeBytesMax ?? BODY_BYTES_MAX;
      const rawBody = await readBody(request, response, sizeBytesMax, budgets);
      const gone = new AbortController();
      response.on('close', () => response.writableFinished || gone.abort());
      const value = await dispatch.run({
        method: request.method ?? 'GET',
        path: url.path,
        query: url.query,
        body: rawBody === undefined ? undefined : parseJson(rawBody),
        rawBody,
        caller,
        trace,
        signal: gone.signal,
        deadlineMs: deadlineOf(request),
        idempotencyKey: keyOf(request),
      });
      if (value instanceof RawAnswer) await sendRaw(response, value);
      else sendJson(response, 200, value);
    } catch (error) {
      sendFault(response, error, route);
    }
  };

  const sendFault = (
    response: http.ServerResponse,
    error: unknown,
    route: Route | undefined,
  ): void => {
    const known = error instanceof Fault ? error : fault('internal', 'something went wrong here');
    if (!(error instanceof Fault)) log.error('an answer failed', { error });
    if (response.headersSent || response.destroyed) return void response.destroy();
    if (known.retryAfterMs !== undefined)
      response.setHeader('retry-after', String(Math.ceil(known.retryAfterMs / 1000)));
    if (known.code === 'method_not_allowed')
      response.setHeader('allow', String(known.details?.allow ?? ''));
    if (route?.dialect !== undefined && options.dialectErrors !== undefined) {
      const { status, headers, body } = options.dialectErrors(route.dialect, known);
      response.writeHead(status, headers).end(body);
      return;
    }
    sendJson(response, known.http, { error: known.toBody() });
  };

  const closeServer = (server: http.Server): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeIdleConnections();
      setTimeout(() => server.closeAllConnections(), 2_000).unref();
    });

  return {
    async listenUnix(socketPath, authenticate, allowed = SOCKET_LIMITS) {
      assertSocketPath(socketPath);
      mkdirSync(dirname(socketPath), { recursive: true, mode: 0o700 });
      rmSync(socketPath, { force: true });
      const server = listen(authenticate, allowed);
      await listening(server, { path: socketPath });
      chmodSync(socketPath, 0o600);
      const handle = {
        async close() {
          open.delete(handle);
          await closeServer(server);
          rmSync(socketPath, { force: true });
        },
      };
      open.add(handle);
      return handle;
    },
    async listenTcp(host, port, authenticate) {
      const server = listen(authenticate, SOCKET_LIMITS);
      await listening(server, { host, port });
      const handle = {
        port: (server.address() as AddressInfo).port,
        async close() {
          open.delete(handle);
          await closeServer(server);
        },
      };
      open.add(handle);
      return handle;
    },
    async closeAll() {
      await Promise.all([...open].map((handle) => handle.close()));
    },
  };
}

/** Longer paths fail in the kernel, on some Node versions silently. */
export function assertSocketPath(socketPath: string): void {
  if (Buffer.byteLength(socketPath) > SOCKET_PATH_BYTES_MAX) {
    throw fault(
      'path_too_long',
      `the socket path ${socketPath} is longer than ${SOCKET_PATH_BYTES_MAX} bytes`,
    );
  }
}

function listening(
  server: http.Server,
  where: { path: string } | { host: string; port: number },
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      reject(
        error.code === 'EADDRINUSE'
          ? fault('conflict', `${'path' in where ? where.path : `port ${where.port}`} is in use`, {
              cause: error,
            })
          : error,
      ),
    );
    server.listen(where, () => resolve());
  });
}

function parseUrl(url: string): { path: string; query: Record<string, string> } {
  const mark = url.indexOf('?');
  if (mark < 0) return { path: url, query: {} };
  const query: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const pair of url.slice(mark + 1).split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const name = decodeWord(equals < 0 ? pair : pair.slice(0, equals));
    if (name in query) throw fault('bad_request', `the query names ${name.slice(0, 100)} twice`);
    query[name] = equals < 0 ? '' : decodeWord(pair.slice(equals + 1));
  }
  return { path: url.slice(0, mark), query };
}

function decodeWord(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch (cause) {
    throw fault('bad_request', 'the query has a broken % escape', { cause });
  }
}

async function sendRaw(response: http.ServerResponse, answer: RawAnswer): Promise<void> {
  response.writeHead(answer.status, answer.headers);
  if (typeof answer.body === 'string' || answer.body instanceof Uint8Array)
    return void response.end(answer.body);
  response.flushHeaders();
  let goOn = (): void => {};
  response.on('drain', () => goOn());
  response.on('close', () => goOn());
  for await (const chunk of answer.body) {
    if (response.destroyed) break;
    if (!response.write(chunk) && !response.destroyed)
      await new Promise<void>((resolve) => {
        goOn = resolve;
      });
  }
  response.end();
}

function deadlineOf(request: http.IncomingMessage): number | undefined {
  const value = Number(request.headers['agentd-deadline-ms']);
  return Number.isFinite(value) && value > 0 ? value : undefined;
}

function keyOf(request: http.IncomingMessage): string | undefined {
  const key = request.headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key !== 'string' || !/^[\x21-\x7e]{1,128}$/.test(key))
    throw fault('bad_request', 'Idempotency-Key must be 1 to 128 visible ASCII characters');
  return key;
}

function traceOf(request: http.IncomingMessage): Trace {
  const own = newTrace();
  const parent = request.headers.traceparent;
  const id = request.headers['x-request-id'];
  return {
    traceparent: typeof parent === 'string' && TRACEPARENT.test(parent) ? parent : own.traceparent,
    requestId: typeof id === 'string' && /^[\w.-]{1,64}$/.test(id) ? id : own.requestId,
  };
}
