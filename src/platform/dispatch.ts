// Dispatches every request to a daemon, local or from a socket:
// route known → caller allowed → input valid → handler → output valid.
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomBytes, randomUUID } from 'node:crypto';
import type { Duplex } from 'node:stream';
import type { Caller } from '../wire/caller.ts';
import { Fault, fault } from '../wire/errors.ts';
import type { CheckedRequest, Route, RouteResponseInput, RouteTable } from '../wire/route.ts';
import { checkPart } from './check-part.ts';
import type { Log } from './log.ts';
import { makeMatcher, type RouteMatch } from './match.ts';
import type { Metrics } from './metrics.ts';
import { makeLoopDelaySampler } from './process-metrics.ts';
import { assertCaller } from './route-callers.ts';

/** A response that is not one JSON document. Its bytes are passed on unchecked. */
export class RawReply {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: AsyncIterable<Uint8Array | string> | string | Uint8Array;

  constructor(response: {
    status: number;
    headers: Record<string, string>;
    body: AsyncIterable<Uint8Array | string> | string | Uint8Array;
  }) {
    this.status = response.status;
    this.headers = response.headers;
    this.body = response.body;
  }
}

/** Continues the connection in another protocol, for routes with `upgrades`. */
export class UpgradeReply {
  /** Owns the socket, which is paused. */
  readonly accept: (socket: Duplex) => void;
  /** The caller has disconnected meanwhile. */
  readonly abandon: () => void;

  constructor(reply: { accept(socket: Duplex): void; abandon(): void }) {
    this.accept = reply.accept;
    this.abandon = reply.abandon;
  }
}

export type Trace = { requestId: string; traceparent: string };

export type HandlerContext<R = Route> = CheckedRequest<R> & {
  caller: Caller;
  /** Aborts when the caller disconnects or the deadline passes. */
  signal: AbortSignal;
  /** Owns `signal`, for a handler that must stop its own work for another reason. */
  controller: AbortController;
  deadlineMs: number;
  trace: Trace;
  idempotencyKey: string | undefined;
  /** The text of the body as received, for a handler that passes it on unchanged. */
  rawBody: string | undefined;
  /** Those that the route names. */
  headers: Readonly<Record<string, string>>;
  log: Log;
};

export type Handlers<T extends RouteTable> = {
  [K in keyof T]: (
    context: HandlerContext<T[K]>,
  ) => Promise<RouteResponseInput<T[K]> | RawReply | UpgradeReply>;
};

export type DispatchRequest = {
  method: string;
  /** Path without the query. */
  path: string;
  query: Record<string, string>;
  body: unknown;
  rawBody?: string | undefined;
  headers?: Readonly<Record<string, string | undefined>> | undefined;
  caller: Caller;
  signal?: AbortSignal | undefined;
  /** Registers a listener for the caller's disconnect; for a link that has no signal. */
  onClose?: ((listener: () => void) => void) | undefined;
  /** The result of `match`, from a link that has called it already. */
  matched?: RouteMatch | undefined;
  deadlineMs?: number | undefined;
  idempotencyKey?: string | undefined;
  trace?: Trace | undefined;
};

export type Dispatch = {
  match(method: string, path: string): RouteMatch;
  run(request: DispatchRequest): Promise<unknown>;
  inFlight(): number;
};

export const DEADLINE_MS = 30_000;
const STREAM_DEADLINE_MS = 900_000;
const IN_FLIGHT_MAX = 4_096;

/** Returns the default, and the maximum, time for a response. */
export function deadlineFor(route: Route): number {
  return route.streams === true ? STREAM_DEADLINE_MS : DEADLINE_MS;
}

const traces = new AsyncLocalStorage<Trace>();

/** Returns the trace of the request being handled, for the requests made on its behalf. */
export function currentTrace(): Trace | undefined {
  return traces.getStore();
}

const TRACE_DIGITS = 48;
let digits = '';
let digitsUsed = 0;

/** Draws random digits for many traces at once: one call costs as much for a few as for many. */
function takeTraceDigits(): string {
  if (digitsUsed + TRACE_DIGITS > digits.length) {
    digits = randomBytes(TRACE_DIGITS * 64).toString('hex');
    digitsUsed = 0;
  }
  digitsUsed += TRACE_DIGITS;
  return digits.slice(digitsUsed - TRACE_DIGITS, digitsUsed);
}

export function newTrace(): Trace {
  const hex = takeTraceDigits();
  const traceId = hex.slice(0, 32);
  return { requestId: traceId, traceparent: `00-${traceId}-${hex.slice(32)}-01` };
}

const NO_HEADERS: Readonly<Record<string, string>> = {};

function pickHeaders(
  { headers: names }: Route,
  received: DispatchRequest['headers'],
): Readonly<Record<string, string>> {
  if (names === undefined || received === undefined) return NO_HEADERS;
  const picked: Record<string, string> = {};
  for (const name of names) {
    const value = received[name];
    if (value !== undefined) picked[name] = value;
  }
  return picked;
}

type CheckedInput = { params: unknown; query: unknown; body: unknown };

class RequestContext {
  readonly params: unknown;
  readonly query: unknown;
  readonly body: unknown;
  readonly caller: Caller;
  readonly deadlineMs: number;
  readonly trace: Trace;
  readonly idempotencyKey: string | undefined;
  readonly rawBody: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly #watch: Watch;
  readonly #makeLog: () => Log;
  #log: Log | undefined;

  constructor(
    { caller, idempotencyKey, rawBody }: DispatchRequest,
    known: CheckedInput & {
      headers: Readonly<Record<string, string>>;
      watch: Watch;
      deadlineMs: number;
      trace: Trace;
      makeLog: () => Log;
    },
  ) {
    this.params = known.params;
    this.query = known.query;
    this.body = known.body;
    this.caller = caller;
    this.#watch = known.watch;
    this.deadlineMs = known.deadlineMs;
    this.trace = known.trace;
    this.idempotencyKey = idempotencyKey;
    this.rawBody = rawBody;
    this.headers = known.headers;
    this.#makeLog = known.makeLog;
  }

  /** Created on first use: most handlers do not need it. */
  get signal(): AbortSignal {
    return this.#watch.controller.signal;
  }

  get controller(): AbortController {
    return this.#watch.controller;
  }

  /** Created on first use: most requests log nothing. */
  get log(): Log {
    this.#log ??= this.#makeLog();
    return this.#log;
  }
}

export function makeDispatch<T extends RouteTable>(options: {
  routes: T;
  handlers: Handlers<T>;
  log: Log;
  metrics: Metrics;
}): Dispatch {
  const { handlers, log, metrics } = options;
  const match = makeMatcher(options.routes);
  let inFlight = 0;
  const sampleLoopDelay = makeLoopDelaySampler((ms) => metrics.observeMs('event_loop_delay', ms));

  const begin = (
    request: DispatchRequest,
    matched: RouteMatch,
  ): { watch: Watch; context: RequestContext } => {
    const { name, route, params } = matched;
    assertCaller(route, request.caller);
    const checked = {
      params: checkPart(route.params, params, 'path'),
      query: checkPart(route.query, request.query, 'query'),
      body:
        route.isPlainBody?.(request.body) === true
          ? request.body
          : checkPart(route.body, request.body, 'body'),
    };
    const deadlineMs = Math.min(request.deadlineMs ?? Number.POSITIVE_INFINITY, deadlineFor(route));
    const watch = new Watch(request, deadlineMs, name);
    const trace = request.trace ?? newTrace();
    const context = new RequestContext(request, {
      ...checked,
      headers: pickHeaders(route, request.headers),
      watch,
      deadlineMs,
      trace,
      makeLog: () => log.with({ route: name, request_id: trace.requestId }),
    });
    return { watch, context };
  };

  const finish = (response: unknown, { name, route }: RouteMatch, watch: Watch): unknown => {
    if (response instanceof RawReply && isStream(response.body)) {
      // The handler must still learn that the reader of the stream has disconnected.
      return new RawReply({ ...response, body: withEnd(response.body, watch.end) });
    }
    watch.end();
    if (response instanceof RawReply || response instanceof UpgradeReply) return response;
    const output = route.output.safeParse(response);
    if (output.success) return output.data;
    log.error('a handler returned an invalid response', {
      route: name,
      issues: output.error.issues.slice(0, 5),
    });
    throw fault('bad_output', `${route.method} ${route.path} returned an invalid response`);
  };

  return {
    match,
    inFlight: () => inFlight,
    async run(request) {
      if (inFlight >= IN_FLIGHT_MAX)
        throw fault('overloaded', 'too many requests in progress', { retryAfterMs: 250 });
      inFlight++;
      sampleLoopDelay();
      const startMs = performance.now();
      let outcome = 'ok';
      let watch: Watch | undefined;
      try {
        const matched = request.matched ?? match(request.method, request.path);
        const started = begin(request, matched);
        watch = started.watch;
        const handler = handlers[matched.name] as (context: unknown) => Promise<unknown>;
        const { context } = started;
        const response = await watch.first(traces.run(context.trace, handler, context));
        return finish(response, matched, watch);
      } catch (error) {
        watch?.end();
        const known = error instanceof Fault ? error : internalFault(error, log, request);
        outcome = known.code;
        throw known;
      } finally {
        inFlight--;
        metrics.count('requests', { outcome, caller: request.caller.kind });
        metrics.observeMs('request', performance.now() - startMs);
      }
    },
  };
}

type Pieces = AsyncIterable<Uint8Array | string>;

function isStream(body: RawReply['body']): body is Pieces {
  return typeof body !== 'string' && !(body instanceof Uint8Array);
}

async function* withEnd(pieces: Pieces, end: () => void): AsyncGenerator<Uint8Array | string> {
  try {
    yield* pieces;
  } finally {
    end();
  }
}

/** Logs an unexpected error, which is a bug, and returns a fault with a reference to the log. */
function internalFault(error: unknown, log: Log, request: DispatchRequest): Fault {
  const reference = request.trace?.requestId ?? randomUUID();
  log.error('a handler failed', { reference, method: request.method, path: request.path, error });
  return fault('internal', `internal error (reference ${reference})`, { cause: error });
}

/** Watches a request's deadline and its caller's connection until the response is complete. */
class Watch {
  readonly #name: string;
  readonly #gone: AbortSignal | undefined;
  readonly #timer: NodeJS.Timeout;
  readonly #leave = (): void => {
    if (!this.#isOver) this.#abort(fault('canceled', 'the caller disconnected'));
  };
  #controller: AbortController | undefined;
  #reason: Fault | undefined;
  #isOver = false;
  #fail: (error: Fault) => void = () => {};

  constructor({ signal, onClose }: DispatchRequest, deadlineMs: number, name: string) {
    this.#name = name;
    this.#gone = signal;
    this.#timer = setTimeout(() => this.#late(), deadlineMs);
    this.#timer.unref();
    if (signal?.aborted === true) this.#leave();
    else signal?.addEventListener('abort', this.#leave, { once: true });
    onClose?.(this.#leave);
  }

  get controller(): AbortController {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    }
    return this.#controller;
  }

  /** Settles with the response, or rejects when the deadline passes first. */
  first<T>(response: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#fail = reject;
      response.then(resolve, reject);
    });
  }

  readonly end = (): void => {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#gone?.removeEventListener('abort', this.#leave);
  };

  #late(): void {
    const error = fault('deadline', `${this.#name} did not end before its deadline`);
    this.#fail(error);
    this.#abort(error);
  }

  #abort(reason: Fault): void {
    this.#reason ??= reason;
    this.#controller?.abort(reason);
  }
}
