// Asking a daemon, from outside or inside its process: typed clients over a local or a socket link.
// Both links copy what they carry and give back the same faults.
import net from 'node:net';
import type { Caller } from '../wire/caller.ts';
import { fault, faultFromBody } from '../wire/errors.ts';
import type { AnswerOf, RequestOf, Route, RouteTable } from '../wire/route.ts';
import {
  currentTrace,
  DEADLINE_MS,
  type Dispatch,
  deadlineOf,
  newTrace,
  RawAnswer,
  type Trace,
} from './dispatch.ts';
import { type Answering, type Call, makePool, type Pool } from './http1/client.ts';
import { type AnswerHead, assertTarget, type SentHeaders, writeHeaders } from './http1/head.ts';
import { LineCalls } from './line-calls.ts';
import { fillPath, queryOf, withQuery } from './request-path.ts';

export type CallOptions = {
  signal?: AbortSignal | undefined;
  deadlineMs?: number | undefined;
  idempotencyKey?: string | undefined;
  /** Of the request that is being answered, unless another is given. */
  trace?: Trace | 'none' | undefined;
};

/** A body that is JSON text already: the socket link sends it as it is. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type LinkRequest = {
  route: Route;
  path: string;
  query: Record<string, string>;
  body: unknown;
  options: CallOptions;
};
export type Link = { call(request: LinkRequest): Promise<unknown>; close(): void };

export type Client<T extends RouteTable> = {
  [K in keyof T]: (request: RequestOf<T[K]>, options?: CallOptions) => Promise<AnswerOf<T[K]>>;
};

type AnyRequest = {
  params?: Record<string, unknown>;
  query?: Record<string, unknown>;
  body?: unknown;
};

export function makeClient<T extends RouteTable>(table: T, link: Link): Client<T> {
  const client: Record<string, unknown> = {};
  for (const [name, route] of Object.entries(table)) {
    client[name] = (request: AnyRequest, options: CallOptions = {}) =>
      link.call({
        route,
        path: fillPath(route.path, request.params),
        query: queryOf(request.query),
        body: request.body,
        options,
      });
  }
  return client as Client<T>;
}

const traceOf = ({ trace }: CallOptions): Trace | undefined =>
  trace === 'none' ? undefined : (trace ?? currentTrace());

/** A little longer than the other side has, so that its own word comes first. */
const LATE_MS = 1_000;

const textOf = (value: unknown): string =>
  value instanceof JsonText ? value.text : JSON.stringify(value);

const copy = (value: unknown): unknown =>
  value === undefined ? undefined : JSON.parse(textOf(value));

/** In the same process. `dispatch` is asked for late, because daemons start one after another. */
export function localLink(dispatch: () => Dispatch, caller: Caller): Link {
  return {
    async call({ route, path, query, body, options }) {
      const answer = await dispatch().run({
        method: route.method,
        path,
        query,
        body: copy(body),
        caller,
        signal: options.signal,
        deadlineMs: options.deadlineMs,
        idempotencyKey: options.idempotencyKey,
        trace: traceOf(options) ?? newTrace(),
      });
      return answer instanceof RawAnswer ? answer : copy(answer);
    },
    close() {},
  };
}

export type SocketLinkOptions = {
  socketPath: string;
  headers?: Record<string, string>;
  connectionsMax?: number;
};

/** Over a Unix socket. */
export function socketLink({
  socketPath,
  headers = {},
  connectionsMax = 64,
}: SocketLinkOptions): Link {
  const connect = (onread: net.OnReadOpts): net.Socket => net.connect({ path: socketPath, onread });
  const pool = makePool({ connect, connectionsMax });
  const linePool = makePool({ connect });
  const lines = new Map<string, LineCalls>();
  const linesOf = (path: string): LineCalls => {
    let found = lines.get(path);
    if (found === undefined) {
      assertTarget(path);
      const translated = (cause: NodeJS.ErrnoException): unknown => translate(cause, socketPath);
      const headersText = writeHeaders(headers);
      found = new LineCalls({
        ...{ pool: linePool, socketPath, path, headers: headersText, translate: translated },
      });
      lines.set(path, found);
    }
    return found;
  };
  return {
    call: ({ route, path, query, body, options }) => {
      const text = body === undefined ? undefined : textOf(body);
      const deadlineMs = options.deadlineMs ?? DEADLINE_MS;
      if (route.lines === true && text !== undefined && isBare(options, query))
        return linesOf(path).ask(text, DEADLINE_MS + LATE_MS);
      const trace = traceOf(options);
      return requestJson({
        pool,
        socketPath,
        method: route.method,
        path: withQuery(path, query),
        text,
        signal: options.signal,
        deadlineMs,
        headers: {
          ...headers,
          ...(trace === undefined
            ? {}
            : { traceparent: trace.traceparent, 'x-request-id': trace.requestId }),
          ...(options.idempotencyKey === undefined
            ? {}
            : { 'idempotency-key': options.idempotencyKey }),
          ...(deadlineMs === deadlineOf(route) ? {} : { 'agentd-deadline-ms': deadlineMs }),
        },
      });
    },
    close() {
      pool.close();
      linePool.close();
    },
  };
}

/** Nothing that only a request of its own could carry. */
function isBare(options: CallOptions, query: Record<string, string>): boolean {
  for (const _ in query) return false;
  const { signal, deadlineMs, idempotencyKey, trace } = options;
  const isPlain = signal === undefined && deadlineMs === undefined && idempotencyKey === undefined;
  return isPlain && trace === 'none';
}

type JsonRequest = {
  pool: Pool;
  socketPath: string;
  method: string;
  path: string;
  text: string | undefined;
  headers: SentHeaders;
  signal: AbortSignal | undefined;
  deadlineMs: number;
};

function requestJson(r: JsonRequest): Promise<unknown> {
  return new Promise((resolve, reject) => {
    if (r.signal?.aborted === true) return reject(fault('canceled', 'the caller gave up'));
    const asking = new JsonAsking(r, { resolve, reject });
    asking.start();
  });
}

class JsonAsking implements Answering {
  readonly #r: JsonRequest;
  readonly #done: { resolve(value: unknown): void; reject(reason: unknown): void };
  readonly #onAbort = (): void => this.#giveUp(fault('canceled', 'the caller gave up'));
  #call: Call | undefined;
  #timer: NodeJS.Timeout | undefined;
  #status = 0;
  #chunks: Buffer[] = [];

  constructor(
    r: JsonRequest,
    done: { resolve(value: unknown): void; reject(reason: unknown): void },
  ) {
    this.#r = r;
    this.#done = done;
  }

  start(): void {
    const { pool, method, text, signal, deadlineMs, socketPath } = this.#r;
    const bodyBytes = text === undefined ? undefined : Buffer.byteLength(text);
    const head = headOf(this.#r, bodyBytes);
    this.#timer = setTimeout(
      () => this.#giveUp(fault('deadline', `no answer from ${socketPath} in time`)),
      deadlineMs + LATE_MS,
    );
    signal?.addEventListener('abort', this.#onAbort, { once: true });
    this.#call = pool.ask({ method, head, body: text, bodyBytes }, this);
  }

  connected(): void {}

  head(head: AnswerHead): void {
    this.#status = head.status;
  }

  data(chunk: Buffer): void {
    this.#chunks.push(chunk);
  }

  more(): void {}

  end(): void {
    this.#settle();
    const { socketPath } = this.#r;
    const bytes = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks);
    let value: unknown;
    try {
      value = JSON.parse(bytes.toString('utf8'));
    } catch (cause) {
      const words = `${socketPath} did not answer with JSON`;
      return void this.#done.reject(fault('bad_output', words, { cause }));
    }
    if (this.#status >= 400) this.#done.reject(faultFromBody(value));
    else this.#done.resolve(value);
  }

  fail(cause: NodeJS.ErrnoException): void {
    this.#settle();
    const { socketPath } = this.#r;
    const words = `${socketPath} closed in the middle of an answer`;
    const reason =
      this.#status === 0 ? translate(cause, socketPath) : fault('unavailable', words, { cause });
    this.#done.reject(reason);
  }

  #giveUp(reason: unknown): void {
    this.#call?.destroy();
    this.#settle();
    this.#done.reject(reason);
  }

  #settle(): void {
    clearTimeout(this.#timer);
    this.#r.signal?.removeEventListener('abort', this.#onAbort);
  }
}

function headOf({ method, path, headers }: JsonRequest, bodyBytes: number | undefined): string {
  const length =
    bodyBytes === undefined
      ? ''
      : `content-type: application/json\r\ncontent-length: ${bodyBytes}\r\n`;
  assertTarget(path);
  return `${method} ${path} HTTP/1.1\r\nhost: agentd\r\n${writeHeaders(headers)}${length}\r\n`;
}

function translate(error: unknown, socketPath: string): unknown {
  const code = (error as NodeJS.ErrnoException).code;
  if (code === 'ENOENT' || code === 'ECONNREFUSED' || code === 'ECONNRESET' || code === 'EPIPE') {
    return fault('unavailable', `nobody answers at ${socketPath}`, { cause: error });
  }
  if (code?.startsWith('HPE_') === true)
    return fault('bad_output', `${socketPath} does not speak HTTP`, { cause: error });
  if ((error as NodeJS.ErrnoException).syscall !== undefined)
    return fault('unavailable', `${socketPath} cannot be reached: ${code}`, { cause: error });
  return error;
}
