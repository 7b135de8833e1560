// Asking a daemon, from outside or inside its process: typed clients over a local or a socket link.
// Both links copy what they carry and give back the same faults.
import type { Caller } from '../wire/caller.ts';
import { fault } from '../wire/errors.ts';
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
import { assertTarget, writeHeaders } from './http1/head.ts';
import { readDocument, sendRequest, unixPool } from './http1/request.ts';
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
  const pool = unixPool(socketPath, connectionsMax);
  const linePool = unixPool(socketPath);
  const lines = new Map<string, LineCalls>();
  const linesOf = (path: string): LineCalls => {
    let found = lines.get(path);
    if (found === undefined) {
      assertTarget(path);
      found = new LineCalls({
        pool: linePool,
        socketPath,
        path,
        headers: writeHeaders(headers),
        translate: (cause) => translate(cause, socketPath),
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
      const sent = sendRequest(pool, {
        method: route.method,
        path: withQuery(path, query),
        body: text,
        signal: options.signal,
        timeoutMs: deadlineMs + LATE_MS,
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
      return sent.then(
        (response) => readDocument(response, socketPath),
        (error: unknown) => {
          throw translate(error as NodeJS.ErrnoException, socketPath);
        },
      );
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

function translate(error: NodeJS.ErrnoException, socketPath: string): unknown {
  const { code, syscall } = error;
  if (code === 'ETIMEDOUT')
    return fault('deadline', `no answer from ${socketPath} in time`, { cause: error });
  if (code === 'ABORT_ERR') return fault('canceled', 'the caller gave up', { cause: error });
  if (code === 'ENOENT' || code === 'ECONNREFUSED' || code === 'ECONNRESET' || code === 'EPIPE')
    return fault('unavailable', `nobody answers at ${socketPath}`, { cause: error });
  if (code === 'HPE_INVALID_EOF_STATE')
    return fault('unavailable', `${socketPath} closed in the middle of an answer`, {
      cause: error,
    });
  if (code === 'HPE_INVALID' || code === 'EMSGSIZE')
    return fault('bad_output', `${socketPath}: ${error.message}`, { cause: error });
  if (syscall !== undefined)
    return fault('unavailable', `${socketPath} cannot be reached: ${code}`, { cause: error });
  return error;
}
