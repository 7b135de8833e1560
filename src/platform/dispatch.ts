// The one way into a daemon, whichever link a request came by:
// route known → caller allowed → input valid → handler → output valid.
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomBytes, randomUUID } from 'node:crypto';
import type { z } from 'zod';
import type { Caller } from '../wire/caller.ts';
import { Fault, fault } from '../wire/errors.ts';
import type { AnswerInputOf, CheckedOf, Route, RouteTable } from '../wire/route.ts';
import { checkValue } from './check.ts';
import { nearest } from './did-you-mean.ts';
import type { Log } from './log.ts';
import { type Matched, makeMatch } from './match.ts';
import type { Metrics } from './metrics.ts';
import { knownKeys } from './schema-messages.ts';

/** An answer that is not one JSON document: bytes as they come, passed through unchecked. */
export class RawAnswer {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: AsyncIterable<Uint8Array | string> | string | Uint8Array;

  constructor(answer: {
    status: number;
    headers: Record<string, string>;
    body: AsyncIterable<Uint8Array | string> | string | Uint8Array;
  }) {
    this.status = answer.status;
    this.headers = answer.headers;
    this.body = answer.body;
  }
}

export type Trace = { requestId: string; traceparent: string };

export type HandlerContext<R = Route> = CheckedOf<R> & {
  caller: Caller;
  /** Aborts when the caller went away or the deadline passed. */
  signal: AbortSignal;
  /** Whose signal that is, for a handler that has reasons of its own to stop what it began. */
  controller: AbortController;
  deadlineMs: number;
  trace: Trace;
  idempotencyKey: string | undefined;
  /** The text of the body as it came, where a handler passes it on unchanged. */
  rawBody: string | undefined;
  log: Log;
};

export type Handlers<T extends RouteTable> = {
  [K in keyof T]: (context: HandlerContext<T[K]>) => Promise<AnswerInputOf<T[K]> | RawAnswer>;
};

export type DispatchRequest = {
  method: string;
  /** Path without the query. */
  path: string;
  query: Record<string, string>;
  body: unknown;
  rawBody?: string | undefined;
  caller: Caller;
  signal?: AbortSignal | undefined;
  /** The same for a link that has no signal: takes what is to be called when the caller goes. */
  onGone?: ((listener: () => void) => void) | undefined;
  /** What `match` said, from a link that has asked already. */
  matched?: Matched | undefined;
  deadlineMs?: number | undefined;
  idempotencyKey?: string | undefined;
  trace?: Trace | undefined;
};

export type Dispatch = {
  match(method: string, path: string): Matched;
  run(request: DispatchRequest): Promise<unknown>;
  inFlight(): number;
};

export const DEADLINE_MS = 30_000;
const STREAM_DEADLINE_MS = 900_000;
const IN_FLIGHT_MAX = 4_096;

/** How long an answer may take when the caller says nothing, and at most. */
export function deadlineOf(route: Route): number {
  return route.streams === true ? STREAM_DEADLINE_MS : DEADLINE_MS;
}

/** Callers that are no daemon, in words. */
const CALLERS: Readonly<Record<string, string>> = {
  operator: 'a person with the operator key',
  run: 'a run on its own socket',
};

export function assertCaller(route: Route, caller: Caller): void {
  const kind = caller.kind === 'daemon' ? caller.daemon : caller.kind;
  if (!route.callers.includes(kind)) {
    throw fault(
      'forbidden_caller',
      `${caller.principal} may not call ${route.method} ${route.path}`,
      { hint: `Only these may: ${route.callers.map((one) => CALLERS[one] ?? one).join(', ')}.` },
    );
  }
}

function describeIssue(issue: z.core.$ZodIssue, where: string, schema: z.ZodType): string {
  const path = issue.path.map(String).join('.');
  const name = path === '' ? where : where === 'body' ? path : `${where} ${path}`;
  if (issue.code !== 'unrecognized_keys') return `${name}: ${issue.message}`;
  const { keys } = issue;
  const known = knownKeys(schema, issue.path);
  const near = keys.length === 1 ? nearest(keys[0]!, known) : undefined;
  const meant = near === undefined ? '' : ` (did you mean ${near}?)`;
  return `${name} has unknown ${keys.length > 1 ? 'keys' : 'key'} ${keys.join(', ')}${meant}`;
}

function check<S extends z.ZodType>(
  schema: S | undefined,
  value: unknown,
  where: string,
): z.output<S> | undefined {
  if (schema === undefined) {
    const empty =
      value === undefined ||
      (typeof value === 'object' && value !== null && Object.keys(value).length === 0);
    if (!empty) throw fault('bad_request', `this route takes no ${where}`);
    return undefined;
  }
  const checked = checkValue(schema, value ?? (where === 'query' ? {} : value));
  if (checked.success) return checked.data;
  const issues = checked.issues.slice(0, 5).map((issue) => describeIssue(issue, where, schema));
  throw fault('bad_request', issues.join('; '), {
    details: { fields: checked.issues.slice(0, 20).map((i) => i.path.map(String).join('.')) },
  });
}

const traces = new AsyncLocalStorage<Trace>();

/** The trace of the request that is being answered, so that what is asked for it carries it on. */
export function currentTrace(): Trace | undefined {
  return traces.getStore();
}

const TRACE_DIGITS = 48;
let digits = '';
let digitsUsed = 0;

/** Random digits of many at once: asking for a few costs as much. */
function traceDigits(): string {
  if (digitsUsed + TRACE_DIGITS > digits.length) {
    digits = randomBytes(TRACE_DIGITS * 64).toString('hex');
    digitsUsed = 0;
  }
  digitsUsed += TRACE_DIGITS;
  return digits.slice(digitsUsed - TRACE_DIGITS, digitsUsed);
}

export function newTrace(): Trace {
  const made = traceDigits();
  const hex = made.slice(0, 32);
  return { requestId: hex, traceparent: `00-${hex}-${made.slice(32)}-01` };
}

type Checked = { params: unknown; query: unknown; body: unknown };

class RequestContext {
  readonly params: unknown;
  readonly query: unknown;
  readonly body: unknown;
  readonly caller: Caller;
  readonly deadlineMs: number;
  readonly trace: Trace;
  readonly idempotencyKey: string | undefined;
  readonly rawBody: string | undefined;
  readonly #watch: Watch;
  readonly #makeLog: () => Log;
  #log: Log | undefined;

  constructor(
    { caller, idempotencyKey, rawBody }: DispatchRequest,
    known: Checked & {
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
    this.#makeLog = known.makeLog;
  }

  /** Most handlers are done before anybody could want them to stop. */
  get signal(): AbortSignal {
    return this.#watch.controller.signal;
  }

  get controller(): AbortController {
    return this.#watch.controller;
  }

  /** Most requests say nothing. */
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
  const match = makeMatch(options.routes);
  let inFlight = 0;

  const begin = (
    request: DispatchRequest,
    matched: Matched,
  ): { watch: Watch; context: RequestContext } => {
    const { name, route, params } = matched;
    assertCaller(route, request.caller);
    const checked = {
      params: check(route.params, params, 'path'),
      query: check(route.query, request.query, 'query'),
      body:
        route.isPlainBody?.(request.body) === true
          ? request.body
          : check(route.body, request.body, 'body'),
    };
    const deadlineMs = Math.min(request.deadlineMs ?? Number.POSITIVE_INFINITY, deadlineOf(route));
    const watch = new Watch(request, deadlineMs, name);
    const trace = request.trace ?? newTrace();
    const context = new RequestContext(request, {
      ...checked,
      watch,
      deadlineMs,
      trace,
      makeLog: () => log.with({ route: name, request_id: trace.requestId }),
    });
    return { watch, context };
  };

  const finish = (answer: unknown, { name, route }: Matched, watch: Watch): unknown => {
    if (answer instanceof RawAnswer && isStream(answer.body)) {
      // A stream goes on after this; its reader going away must still reach the handler.
      return new RawAnswer({ ...answer, body: endingWith(answer.body, watch.end) });
    }
    watch.end();
    if (answer instanceof RawAnswer) return answer;
    const output = route.output.safeParse(answer);
    if (output.success) return output.data;
    log.error('a handler answered out of contract', {
      route: name,
      issues: output.error.issues.slice(0, 5),
    });
    throw fault('bad_output', `${route.method} ${route.path} gave an answer outside its contract`);
  };

  return {
    match,
    inFlight: () => inFlight,
    async run(request) {
      if (inFlight >= IN_FLIGHT_MAX)
        throw fault('overloaded', 'too many requests are being answered', { retryAfterMs: 250 });
      inFlight++;
      const started = performance.now();
      let outcome = 'ok';
      let watch: Watch | undefined;
      try {
        const matched = request.matched ?? match(request.method, request.path);
        const begun = begin(request, matched);
        watch = begun.watch;
        const handler = handlers[matched.name] as (context: unknown) => Promise<unknown>;
        const { trace } = begun.context;
        const answer = await watch.first(traces.run(trace, handler, begun.context));
        return finish(answer, matched, watch);
      } catch (error) {
        watch?.end();
        const known = error instanceof Fault ? error : asInternal(error, log, request);
        outcome = known.code;
        throw known;
      } finally {
        inFlight--;
        metrics.count('requests', { outcome, caller: request.caller.kind });
        metrics.observeMs('request', performance.now() - started);
      }
    },
  };
}

type Pieces = AsyncIterable<Uint8Array | string>;

function isStream(body: RawAnswer['body']): body is Pieces {
  return typeof body !== 'string' && !(body instanceof Uint8Array);
}

async function* endingWith(pieces: Pieces, end: () => void): AsyncGenerator<Uint8Array | string> {
  try {
    yield* pieces;
  } finally {
    end();
  }
}

/** A bug: the caller gets a reference, the stack goes to the log. */
function asInternal(error: unknown, log: Log, request: DispatchRequest): Fault {
  const reference = request.trace?.requestId ?? randomUUID();
  log.error('a handler failed', { reference, method: request.method, path: request.path, error });
  return fault('internal', `something went wrong here (reference ${reference})`, { cause: error });
}

/** Until an answer is there: the deadline, and whether the caller is. Made for every request. */
class Watch {
  readonly #name: string;
  readonly #gone: AbortSignal | undefined;
  readonly #timer: NodeJS.Timeout;
  readonly #leave = (): void => {
    if (!this.#isOver) this.#abort(fault('canceled', 'the caller went away'));
  };
  #controller: AbortController | undefined;
  #reason: Fault | undefined;
  #isOver = false;
  #fail: (error: Fault) => void = () => {};

  constructor({ signal, onGone }: DispatchRequest, deadlineMs: number, name: string) {
    this.#name = name;
    this.#gone = signal;
    this.#timer = setTimeout(() => this.#late(), deadlineMs);
    this.#timer.unref();
    if (signal?.aborted === true) this.#leave();
    else signal?.addEventListener('abort', this.#leave, { once: true });
    onGone?.(this.#leave);
  }

  get controller(): AbortController {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    }
    return this.#controller;
  }

  first<T>(answer: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#fail = reject;
      answer.then(resolve, reject);
    });
  }

  readonly end = (): void => {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#gone?.removeEventListener('abort', this.#leave);
  };

  #late(): void {
    const error = fault('deadline', `${this.#name} was not done in time`);
    this.#fail(error);
    this.#abort(error);
  }

  #abort(reason: Fault): void {
    this.#reason ??= reason;
    this.#controller?.abort(reason);
  }
}
