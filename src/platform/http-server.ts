// Turns HTTP requests into dispatch requests and sets their limits. Every socket has one
// authenticator, which alone decides who the caller is. http1/ reads and writes HTTP.
import { chmodSync, mkdirSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Caller } from '../wire/caller.ts';
import { Fault, fault } from '../wire/errors.ts';
import { findVendor, type Route, type Vendor } from '../wire/route.ts';
import { type Dispatch, newTrace, RawReply, type Trace, UpgradeReply } from './dispatch.ts';
import { type ByteBudget, PROCESS_BODIES, type ReceivedBody, readBody } from './http-body.ts';
import type { Exchange } from './http1/exchange.ts';
import type { Headers } from './http1/head.ts';
import { type HttpServer, makeServer, type ServerLimits } from './http1/server.ts';
import { parseJson } from './json.ts';
import type { Log } from './log.ts';
import { assertCaller } from './route-callers.ts';

/** Returns the caller, or throws a fault. */
export type Authenticate = (request: {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}) => Caller;
/** Writes a fault in the form that clients of this API expect. */
export type DialectErrors = (
  dialect: Vendor,
  fault: Fault,
) => { status: number; headers: Record<string, string>; body: string };

export type HttpListener = {
  /** Listens on a Unix socket in a directory of its own. Closing removes the socket. */
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
  /** Handles a request that another listener of this process has received. */
  handle(exchange: Exchange, path: string, authenticate: Authenticate): void;
  closeAll(): Promise<void>;
};

/** Limits for all callers of one socket together. */
export type SocketLimits = { connectionsMax: number; bodiesBytesMax: number };
const SOCKET_LIMITS: SocketLimits = {
  connectionsMax: 2_048,
  bodiesBytesMax: PROCESS_BODIES.bytesMax,
};
/** A run is one untrusted process: it must not use up what other callers need. Two large bodies. */
export const RUN_SOCKET_LIMITS: SocketLimits = {
  connectionsMax: 64,
  bodiesBytesMax: 64 * 1024 * 1024,
};

const BODY_BYTES_MAX = 1_000_000;
export const SOCKET_PATH_BYTES_MAX = 100;
const TRACEPARENT = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;
const JSON_HEADERS = { 'content-type': 'application/json' };

export function makeHttpListener(options: {
  dispatch: Dispatch;
  log: Log;
  dialectErrors?: DialectErrors;
  limits?: ServerLimits;
}): HttpListener {
  const { dispatch, log, limits } = options;
  const open = new Set<{ close(): Promise<void> }>();

  const serve = (authenticate: Authenticate, allowed: SocketLimits): HttpServer => {
    const budgets = [PROCESS_BODIES, { bytesMax: allowed.bodiesBytesMax, bytes: 0 }];
    return makeServer({
      connectionsMax: allowed.connectionsMax,
      limits,
      onRequest: (exchange) => void handle(exchange, exchange.target, authenticate, budgets),
    });
  };

  const handle = async (
    exchange: Exchange,
    target: string,
    authenticate: Authenticate,
    budgets: readonly ByteBudget[],
  ) => {
    const { headers } = exchange;
    // The response to a HEAD is that to a GET; the exchange leaves its body out.
    const method = exchange.method === 'HEAD' ? 'GET' : exchange.method;
    const trace = readTrace(headers);
    exchange.addHeader('x-request-id', trace.requestId);
    let received: ReceivedBody | undefined;
    try {
      const url = parseUrl(target);
      const caller = authenticate(exchange);
      const matched = dispatch.match(method, url.path);
      const route: Route = matched.route;
      if (exchange.method === 'HEAD' && route.streams === true) throw streamHeadFault(url.path);
      // Dispatch checks this too; here, so that a forbidden caller's body is not read.
      assertCaller(route, caller);
      const sizeBytesMax = route.bodySizeBytesMax ?? BODY_BYTES_MAX;
      received = await readBody(exchange, sizeBytesMax, budgets);
      const rawBody = received.text;
      assertUpgrade(route, headers);
      const value = await dispatch.run({
        method,
        path: url.path,
        query: url.query,
        body: rawBody === undefined ? undefined : parseJson(rawBody),
        rawBody,
        headers,
        caller,
        trace,
        onClose: (listener) => exchange.onGone(listener),
        matched,
        deadlineMs: readDeadline(headers),
        idempotencyKey: readIdempotencyKey(headers),
      });
      if (value instanceof RawReply) await sendRaw(exchange, value);
      else if (value instanceof UpgradeReply) {
        const socket = exchange.upgrade(route.upgrades ?? '');
        if (socket === undefined) value.abandon();
        else value.accept(socket);
      } else exchange.send(200, JSON_HEADERS, JSON.stringify(value));
    } catch (error) {
      sendFault(exchange, error, findVendor(target));
    } finally {
      received?.release();
    }
  };

  const logFailed = (error: unknown): void => log.error('sending a response failed', { error });

  const sendFault = (exchange: Exchange, error: unknown, vendor: Vendor | undefined): void => {
    const known = error instanceof Fault ? error : fault('internal', 'internal error');
    if (!(error instanceof Fault)) logFailed(error);
    if (exchange.isBegun || exchange.isGone) return void exchange.destroy();
    const { status, headers, body } = writeFault(known, vendor);
    exchange.send(
      status,
      {
        'retry-after':
          known.retryAfterMs === undefined ? undefined : Math.ceil(known.retryAfterMs / 1000),
        allow: known.code === 'method_not_allowed' ? String(known.details?.allow ?? '') : undefined,
        ...headers,
      },
      body,
    );
  };

  const writeFault = (known: Fault, vendor: Vendor | undefined) =>
    vendor !== undefined && options.dialectErrors !== undefined
      ? options.dialectErrors(vendor, known)
      : {
          status: known.http,
          headers: JSON_HEADERS,
          body: JSON.stringify({ error: known.toBody() }),
        };

  const track = (server: HttpServer, after: () => void) => {
    const handle = {
      async close() {
        open.delete(handle);
        await server.close();
        after();
      },
    };
    open.add(handle);
    return handle;
  };

  return {
    async listenUnix(socketPath, authenticate, allowed = SOCKET_LIMITS) {
      assertSocketPath(socketPath);
      mkdirSync(dirname(socketPath), { recursive: true, mode: 0o700 });
      rmSync(socketPath, { force: true });
      const server = serve(authenticate, allowed);
      await server.listen({ path: socketPath });
      chmodSync(socketPath, 0o600);
      return track(server, () => rmSync(socketPath, { force: true }));
    },
    async listenTcp(host, port, authenticate) {
      const server = serve(authenticate, SOCKET_LIMITS);
      await server.listen({ host, port });
      return { port: server.port(), ...track(server, () => undefined) };
    },
    handle: (exchange, target, authenticate) =>
      void handle(exchange, target, authenticate, [PROCESS_BODIES]),
    async closeAll() {
      await Promise.all([...open].map((handle) => handle.close()));
    },
  };
}

/** The response may have no end, so that it is not made for its head alone. */
function streamHeadFault(path: string): Fault {
  const allow = 'GET';
  return fault('method_not_allowed', `${path.slice(0, 200)} is a stream: ${allow} it, not HEAD`, {
    details: { allow },
  });
}

/** Checked before the handler, which would start what could then not be used. */
function assertUpgrade(route: Route, headers: Headers): void {
  const { upgrades } = route;
  if (upgrades === undefined || headers.upgrade === upgrades) return;
  throw fault('bad_request', `${route.path} needs the header upgrade: ${upgrades}`, {
    hint: 'Use agentctl, over the Unix socket of the daemon.',
  });
}

/** The kernel rejects longer paths, and some Node versions ignore the error. */
export function assertSocketPath(socketPath: string): void {
  if (Buffer.byteLength(socketPath) > SOCKET_PATH_BYTES_MAX) {
    throw fault(
      'path_too_long',
      `the socket path ${socketPath} is longer than ${SOCKET_PATH_BYTES_MAX} bytes`,
    );
  }
}

function parseUrl(url: string): { path: string; query: Record<string, string> } {
  const mark = url.indexOf('?');
  if (mark < 0) return { path: url, query: {} };
  const query: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const pair of url.slice(mark + 1).split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const name = decodeQueryPart(equals < 0 ? pair : pair.slice(0, equals));
    if (name in query) throw fault('bad_request', `the query has ${name.slice(0, 100)} twice`);
    query[name] = equals < 0 ? '' : decodeQueryPart(pair.slice(equals + 1));
  }
  return { path: url.slice(0, mark), query };
}

function decodeQueryPart(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch (cause) {
    throw fault('bad_request', 'the query has an invalid % escape', { cause });
  }
}

async function sendRaw(exchange: Exchange, response: RawReply): Promise<void> {
  const { status, headers, body } = response;
  if (typeof body === 'string' || body instanceof Uint8Array)
    return exchange.send(status, headers, body);
  exchange.begin(status, headers);
  let resume = (): void => {};
  exchange.onDrain(() => resume());
  for await (const piece of body) {
    if (exchange.isGone) break;
    if (!exchange.write(piece) && !exchange.isGone)
      await new Promise<void>((resolve) => {
        resume = resolve;
      });
  }
  exchange.end();
}

function readDeadline(headers: Headers): number | undefined {
  const value = Number(headers['agentd-deadline-ms']);
  return Number.isFinite(value) && value > 0 ? value : undefined;
}

function readIdempotencyKey(headers: Headers): string | undefined {
  const key = headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (!/^[\x21-\x7e]{1,128}$/.test(key))
    throw fault('bad_request', 'Idempotency-Key must be 1 to 128 visible ASCII characters');
  return key;
}

function readTrace(headers: Headers): Trace {
  const parent = headers.traceparent;
  const id = headers['x-request-id'];
  const hasParent = parent !== undefined && TRACEPARENT.test(parent);
  const hasId = id !== undefined && /^[\w.-]{1,64}$/.test(id);
  if (hasParent && hasId) return { traceparent: parent, requestId: id };
  const own = newTrace();
  return {
    traceparent: hasParent ? parent : own.traceparent,
    requestId: hasId ? id : own.requestId,
  };
}
