// Asking a daemon, from outside or inside its process: typed clients over a local or a socket link.
// Both links copy what they carry and give back the same faults.
import http from 'node:http';
import type { Caller } from '../wire/caller.ts';
import { fault, faultFromBody } from '../wire/errors.ts';
import type { AnswerOf, RequestOf, Route, RouteTable } from '../wire/route.ts';
import { currentTrace, type Dispatch, newTrace, RawAnswer, type Trace } from './dispatch.ts';

export type CallOptions = {
  signal?: AbortSignal | undefined;
  deadlineMs?: number | undefined;
  idempotencyKey?: string | undefined;
  trace?: Trace | undefined;
};

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

function fillPath(path: string, params: Record<string, unknown> | undefined): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(params?.[name])),
  );
}

function queryOf(query: Record<string, unknown> | undefined): Record<string, string> {
  const result: Record<string, string> = {};
  for (const [name, value] of Object.entries(query ?? {}))
    if (value !== undefined) result[name] = String(value);
  return result;
}

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

const copy = (value: unknown): unknown =>
  value === undefined ? undefined : JSON.parse(JSON.stringify(value));

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
        trace: options.trace ?? currentTrace() ?? newTrace(),
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
  const agent = new http.Agent({ keepAlive: true, maxSockets: connectionsMax });
  return {
    call: ({ route, path, query, body, options }) => {
      const search = new URLSearchParams(query).toString();
      const text = body === undefined ? undefined : JSON.stringify(body);
      const deadlineMs = options.deadlineMs ?? 30_000;
      const trace = options.trace ?? currentTrace();
      return requestJson({
        agent,
        socketPath,
        method: route.method,
        path: search === '' ? path : `${path}?${search}`,
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
          'agentd-deadline-ms': String(deadlineMs),
        },
      });
    },
    close: () => agent.destroy(),
  };
}

type JsonRequest = {
  agent: http.Agent;
  socketPath: string;
  method: string;
  path: string;
  text: string | undefined;
  headers: Record<string, string>;
  signal: AbortSignal | undefined;
  deadlineMs: number;
};

function requestJson(r: JsonRequest): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const bodyHeaders =
      r.text === undefined
        ? {}
        : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(r.text) };
    const request = http.request({
      agent: r.agent,
      socketPath: r.socketPath,
      method: r.method,
      path: r.path,
      headers: { host: 'agentd', ...r.headers, ...bodyHeaders },
    });
    // Not node:http's own timeout and signal: those are silent while a request waits for a socket.
    const giveUp = (error: unknown): void => {
      request.destroy();
      fail(error);
    };
    const onAbort = (): void => giveUp(fault('canceled', 'the caller gave up'));
    const timer = setTimeout(
      () => giveUp(fault('deadline', `no answer from ${r.socketPath} in time`)),
      r.deadlineMs + 1_000,
    );
    const settle = (): void => {
      clearTimeout(timer);
      r.signal?.removeEventListener('abort', onAbort);
    };
    const fail = (error: unknown): void => {
      settle();
      reject(error);
    };
    request.on('error', (error) => fail(translate(error, r.socketPath)));
    request.on('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', (error) => fail(translate(error, r.socketPath)));
      response.on('aborted', () =>
        fail(fault('unavailable', `${r.socketPath} closed in the middle of an answer`)),
      );
      response.on('end', () => {
        try {
          const value: unknown = JSON.parse(Buffer.concat(chunks).toString('utf8'));
          if ((response.statusCode ?? 500) >= 400) return fail(faultFromBody(value));
          settle();
          resolve(value);
        } catch (cause) {
          fail(fault('bad_output', `${r.socketPath} did not answer with JSON`, { cause }));
        }
      });
    });
    if (r.signal?.aborted === true) return onAbort();
    r.signal?.addEventListener('abort', onAbort, { once: true });
    request.end(r.text);
  });
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
