// Defines a route: method, path, allowed callers, input and output schemas. Dispatch, typed
// clients, OpenAPI and the docs are derived from these values.
import type { z } from 'zod';
import type { KeyScope, PersonRole } from './caller.ts';
import type { DaemonName } from './daemons.ts';

/**
 * `run`: a runner through its own socket. `operator`: a person with a key. `key:…`: an API key with
 * this scope. Else a peer daemon.
 */
export type CallerKind = 'run' | 'operator' | `key:${KeyScope}` | DaemonName;

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
  /** Names of the request headers that the handler gets. */
  headers?: readonly string[];
  body?: B;
  /**
   * Returns true only for a body that the schema would accept unchanged; then parsing is skipped.
   */
  isPlainBody?: (body: unknown) => boolean;
  output: O;
  /** True when the handler may respond with a stream instead of one document. */
  streams?: boolean;
  /** The role that a person needs; by default reader for a GET, else operator. */
  role?: PersonRole;
  /** The protocol that the connection continues in; the request must ask for it. */
  upgrades?: string;
  /** True when a POST creates something: repeats with one Idempotency-Key get one response. */
  creates?: boolean;
  bodySizeBytesMax?: number;
  /** The route is one of this vendor's API. */
  dialect?: 'openai' | 'anthropic';
};

export type RouteTable = Record<string, Route>;

/** Returns the least role of a person that may call it. */
export function readRole({ role, method }: Pick<Route, 'role' | 'method'>): PersonRole {
  return role ?? (method === 'GET' ? 'reader' : 'operator');
}

export type Vendor = NonNullable<Route['dialect']>;

/** Returns the vendor whose dialect is spoken below a path, also where no route is. */
export function findVendor(path: string): Vendor | undefined {
  return /^\/(openai|anthropic)(?=[/?]|$)/.exec(path)?.[1] as Vendor | undefined;
}

export function route<
  P extends z.ZodType = z.ZodUndefined,
  Q extends z.ZodType = z.ZodUndefined,
  B extends z.ZodType = z.ZodUndefined,
  O extends z.ZodType = z.ZodType,
>(value: Route<P, Q, B, O>): Route<P, Q, B, O> {
  return value;
}

/** The loose type bound is deliberate: a tighter one would widen each route's own types. */
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

/** The request of a client. */
export type RouteRequest<R> =
  R extends Route<infer P, infer Q, infer B, z.ZodType>
    ? Pick3<Input<P>, Input<Q>, Input<B>>
    : never;
/** The validated request that a handler gets. */
export type CheckedRequest<R> =
  R extends Route<infer P, infer Q, infer B, z.ZodType>
    ? { params: Output<P>; query: Output<Q>; body: Output<B> }
    : never;
/** The response that a handler returns and a client gets. */
export type RouteResponse<R> =
  R extends Route<z.ZodType, z.ZodType, z.ZodType, infer O> ? z.output<O> : never;
export type RouteResponseInput<R> =
  R extends Route<z.ZodType, z.ZodType, z.ZodType, infer O> ? z.input<O> : never;
