// The shape of a route: one value says the method, the path, who may call it and what goes in and
// out. Dispatch, typed clients, OpenAPI and the docs are all made from these values.
import type { z } from 'zod';
import type { DaemonName } from './daemons.ts';

/**
 * `run` is a runner through its own socket, `operator` a person with the key file, else a peer
 * daemon.
 */
export type CallerKind = 'run' | 'operator' | DaemonName;

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

export type Route<
  P extends z.ZodType = z.ZodType,
  Q extends z.ZodType = z.ZodType,
  B extends z.ZodType = z.ZodType,
  O extends z.ZodType = z.ZodType,
> = {
  method: Method;
  path: string;
  callers: readonly CallerKind[];
  params?: P;
  query?: Q;
  body?: B;
  /** True only for what `body` takes and gives back as it is: spares the schema the work. */
  isPlainBody?: (body: unknown) => boolean;
  output: O;
  /** True when the handler may answer with a stream instead of one document. */
  streams?: boolean;
  /**
   * True when a POST makes something: it takes an Idempotency-Key, and the same key answers the
   * same.
   */
  creates?: boolean;
  bodySizeBytesMax?: number;
  /** True when one exchange may carry many requests: a body a line, and an answer a line. */
  lines?: boolean;
  /** Errors on this route are written as this vendor writes them. */
  dialect?: 'openai' | 'anthropic';
};

export type RouteTable = Record<string, Route>;

export function route<
  P extends z.ZodType = z.ZodUndefined,
  Q extends z.ZodType = z.ZodUndefined,
  B extends z.ZodType = z.ZodUndefined,
  O extends z.ZodType = z.ZodType,
>(value: Route<P, Q, B, O>): Route<P, Q, B, O> {
  return value;
}

/** Loosely bound on purpose: a tighter bound would widen what each route's own types say. */
export function routes<T extends Record<string, unknown>>(table: T): T {
  return table;
}

type Input<S> = S extends z.ZodType ? z.input<S> : undefined;
type Output<S> = S extends z.ZodType ? z.output<S> : undefined;
type Empty = undefined;
type Pick3<P, Q, B> = (P extends Empty ? { params?: undefined } : { params: P }) &
  (Q extends Empty
    ? { query?: undefined }
    : Partial<Record<keyof Q, unknown>> extends Q
      ? { query?: Q }
      : { query: Q }) &
  (B extends Empty ? { body?: undefined } : { body: B });

/** What a client sends for a route. */
export type RequestOf<R> =
  R extends Route<infer P, infer Q, infer B, z.ZodType>
    ? Pick3<Input<P>, Input<Q>, Input<B>>
    : never;
/** What a handler receives, checked. */
export type CheckedOf<R> =
  R extends Route<infer P, infer Q, infer B, z.ZodType>
    ? { params: Output<P>; query: Output<Q>; body: Output<B> }
    : never;
/** What a handler gives back and a client gets. */
export type AnswerOf<R> =
  R extends Route<z.ZodType, z.ZodType, z.ZodType, infer O> ? z.output<O> : never;
export type AnswerInputOf<R> =
  R extends Route<z.ZodType, z.ZodType, z.ZodType, infer O> ? z.input<O> : never;
