// Typed clients of a daemon, over a link inside its process or over a Unix socket. Both links copy
// requests and responses, and reject with the same faults.
import type { Caller } from '../wire/caller.ts';
import { fault } from '../wire/errors.ts';
import type { Route, RouteRequest, RouteResponse, RouteTable } from '../wire/route.ts';
import {
  currentTrace,
  DEADLINE_MS,
  type Dispatch,
  deadlineFor,
  newTrace,
  RawReply,
  type Trace,
} from './dispatch.ts';
import { readDocument, sendRequest, unixPool } from './http1/request.ts';
import { fillPath, withQuery, writeQuery } from './request-path.ts';

export type CallOptions = {
  signal?: AbortSignal | undefined;
  deadlineMs?: number | undefined;
  idempotencyKey?: string | undefined;
  /** Defaults to the trace of the request being handled. */
  trace?: Trace | 'none' | undefined;
};

/** A body that is already JSON text. */
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
  [K in keyof T]: (
    request: RouteRequest<T[K]>,
    options?: CallOptions,
  ) => Promise<RouteResponse<T[K]>>;
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
        query: writeQuery(request.query),
        body: request.body,
        options,
      });
  }
  return client as Client<T>;
}

const traceFor = ({ trace }: CallOptions): Trace | undefined =>
  trace === 'none' ? undefined : (trace ?? currentTrace());

/** Added to the server's deadline, so that the server's own fault arrives first. */
const GRACE_MS = 1_000;

const toText = (value: unknown): string =>
  value instanceof JsonText ? value.text : JSON.stringify(value);

const copy = (value: unknown): unknown =>
  value === undefined ? undefined : JSON.parse(toText(value));

/** A link inside this process. `dispatch` is called late, because daemons start one by one. */
export function localLink(dispatch: () => Dispatch, caller: Caller): Link {
  return {
    async call({ route, path, query, body, options }) {
      const response = await dispatch().run({
        method: route.method,
        path,
        query,
        body: copy(body),
        caller,
        signal: options.signal,
        deadlineMs: options.deadlineMs,
        idempotencyKey: options.idempotencyKey,
        trace: traceFor(options) ?? newTrace(),
      });
      return response instanceof RawReply ? response : copy(response);
    },
    close() {},
  };
}

export type SocketLinkOptions = {
  socketPath: string;
  headers?: Record<string, string>;
  connectionsMax?: number;
};

export function socketLink({
  socketPath,
  headers = {},
  connectionsMax = 64,
}: SocketLinkOptions): Link {
  const pool = unixPool(socketPath, connectionsMax);
  return {
    call: ({ route, path, query, body, options }) => {
      const text = body === undefined ? undefined : toText(body);
      const deadlineMs = options.deadlineMs ?? DEADLINE_MS;
      const trace = traceFor(options);
      const sent = sendRequest(pool, {
        method: route.method,
        path: withQuery(path, query),
        body: text,
        signal: options.signal,
        timeoutMs: deadlineMs + GRACE_MS,
        headers: {
          ...headers,
          ...(trace === undefined
            ? {}
            : { traceparent: trace.traceparent, 'x-request-id': trace.requestId }),
          ...(options.idempotencyKey === undefined
            ? {}
            : { 'idempotency-key': options.idempotencyKey }),
          ...(deadlineMs === deadlineFor(route) ? {} : { 'agentd-deadline-ms': deadlineMs }),
        },
      });
      return sent.then(
        (response) => readDocument(response, socketPath),
        (error: unknown) => {
          throw linkFault(error as NodeJS.ErrnoException, socketPath);
        },
      );
    },
    close() {
      pool.close();
    },
  };
}

function linkFault(error: NodeJS.ErrnoException, socketPath: string): unknown {
  const { code, syscall } = error;
  if (code === 'ETIMEDOUT')
    return fault('deadline', `no response from ${socketPath} in time`, { cause: error });
  if (code === 'ABORT_ERR')
    return fault('canceled', 'the caller canceled the request', { cause: error });
  if (code === 'ENOENT' || code === 'ECONNREFUSED' || code === 'ECONNRESET' || code === 'EPIPE')
    return fault('unavailable', `no server at ${socketPath}`, { cause: error });
  if (code === 'HPE_INVALID_EOF_STATE')
    return fault('unavailable', `${socketPath} closed the connection in the middle of a response`, {
      cause: error,
    });
  if (code === 'HPE_INVALID' || code === 'EMSGSIZE')
    return fault('bad_output', `${socketPath}: ${error.message}`, { cause: error });
  if (syscall !== undefined)
    return fault('unavailable', `${socketPath} cannot be reached: ${code}`, { cause: error });
  return error;
}
