// egressd's contract: the hosts a run may reach, its connections, and HTTP requests made for tools.
// The proxy that boxes use is plain HTTP/1.1 (CONNECT and absolute-form), not one of these routes.
import * as z from 'zod';
import { eraseCopiesRoute } from './copies.ts';
import { AgentName, CallId, Label, RunId, TaskId, Timestamp } from './primitives.ts';
import { pruneRoute } from './prune.ts';
import { route, routes } from './route.ts';

const port = z.int().min(1).max(65_535);
const method = z.string().regex(/^[A-Z]{3,16}$/, 'must be a method such as GET');

export const EgressRule = z.strictObject({
  /** A name, `*.` and a suffix (any depth below it, not the suffix itself), or an exact address. */
  host: z.string().min(1).max(260),
  /** If absent, 80 and 443. */
  port: port.optional(),
  /** With methods or paths, only requests that egressd can read are allowed: no tunnels. */
  methods: z.array(method).min(1).max(16).optional(),
  /** Exact, or a prefix followed by `*`. */
  paths: z
    .array(z.string().regex(/^\/[\x21-\x7e]*$/, 'must be a path such as /api/*'))
    .min(1)
    .max(64)
    .optional(),
  /** Allows a tunnel to carry other protocols than TLS, and TLS for another name. */
  plain: z.boolean().optional(),
});
export type EgressRule = z.infer<typeof EgressRule>;

/** A rule that a person added for this run. */
export const GrantedRule = EgressRule.extend({
  expires_at: Timestamp.optional(),
  /** A person opened it for a program, to read and to send whatever else the program has read. */
  chosen: z.literal(true).optional(),
});
export type GrantedRule = z.infer<typeof GrantedRule>;

export const PutEgressBody = z.strictObject({
  fence: z.int().positive(),
  agent: AgentName,
  task_id: TaskId,
  root_task_id: TaskId,
  /** An empty list allows nothing. */
  allow: z.array(EgressRule).max(512),
  granted: z.array(GrantedRule).max(128).default([]),
  /** Total for both directions and all activations of the run. */
  bytes_max: z.int().nonnegative(),
  labels: z.array(Label).max(16),
});
export type PutEgressBody = z.infer<typeof PutEgressBody>;

export const EgressConnection = z.object({
  id: z.string(),
  kind: z.enum(['tunnel', 'http', 'fetch']),
  host: z.string(),
  port: z.int(),
  address: z.string().nullable(),
  bytes_sent: z.int(),
  bytes_received: z.int(),
  opened_at: Timestamp,
});
export type EgressConnection = z.infer<typeof EgressConnection>;

export const DENIAL_REASONS = [
  'host',
  'port',
  'method',
  'path',
  'unreadable',
  'address',
  'name',
  'request',
  'not_tls',
  'server_name',
  'budget',
  'outside',
] as const;
export type DenialReason = (typeof DENIAL_REASONS)[number];

export const EgressDenial = z.object({
  host: z.string(),
  port: z.int(),
  method: z.string().nullable(),
  path: z.string().nullable(),
  reason: z.enum(DENIAL_REASONS),
  message: z.string(),
  hint: z.string(),
  count: z.int(),
  /** True when a person could allow it, because only a rule is missing. */
  askable: z.boolean(),
  last_at: Timestamp,
});
export type EgressDenial = z.infer<typeof EgressDenial>;

export const EgressSummary = z.object({
  run_id: RunId,
  fence: z.int(),
  agent: z.string(),
  task_id: TaskId,
  socket: z.string(),
  bytes_max: z.int(),
  bytes_sent: z.int(),
  bytes_received: z.int(),
  open: z.int(),
  denied: z.int(),
});
export type EgressSummary = z.infer<typeof EgressSummary>;

export const EgressView = EgressSummary.extend({
  allow: z.array(EgressRule),
  granted: z.array(GrantedRule),
  connections: z.array(EgressConnection),
  /** Recent denials, newest first; repeats are counted. */
  denials: z.array(EgressDenial),
});
export type EgressView = z.infer<typeof EgressView>;

export const FetchBody = z.strictObject({
  fence: z.int().positive(),
  /** A call is sent at most once, unless its method is read-only. */
  call_id: CallId,
  method,
  url: z.string().min(1).max(8_192),
  headers: z.record(z.string().min(1).max(128), z.string().max(8_192)).default({}),
  body_base64: z.base64().max(5_600_000).optional(),
  response_bytes_max: z.int().min(0).max(4_000_000).default(1_000_000),
  time_ms_max: z.int().min(1).max(300_000).default(30_000),
  /**
   * A rule that the caller has decided for this request. It applies beside the run's rules, but not
   * to redirects.
   */
  decided: EgressRule.optional(),
  /** Each redirect target is checked like the first URL. */
  redirects_max: z.int().min(0).max(10).default(5),
});
export type FetchBody = z.infer<typeof FetchBody>;

export const FetchAnswer = z.object({
  /** The final URL, after redirects. */
  url: z.string(),
  status: z.int(),
  headers: z.record(z.string(), z.string()),
  body_base64: z.string(),
  size_bytes: z.int(),
  /** True when the body exceeded `response_bytes_max` and was cut. */
  truncated: z.boolean(),
  recorded: z.boolean(),
});
export type FetchAnswer = z.infer<typeof FetchAnswer>;

const runParam = z.strictObject({ id: RunId });
const callParam = z.strictObject({ id: RunId, call_id: CallId });

export const egressdRoutes = routes({
  /** Opens or changes a run's egress. Connections that are no longer allowed are cut at once. */
  putEgress: route({
    method: 'PUT',
    path: '/v1/egress/{id}',
    callers: ['toold'],
    params: runParam,
    body: PutEgressBody,
    output: z.object({ socket: z.string(), cut: z.int() }),
  }),
  dropEgress: route({
    method: 'DELETE',
    path: '/v1/egress/{id}',
    callers: ['toold'],
    params: runParam,
    query: z.strictObject({ fence: z.coerce.number().int().nonnegative() }),
    output: z.object({ dropped: z.boolean() }),
  }),
  getEgress: route({
    method: 'GET',
    path: '/v1/egress/{id}',
    callers: ['toold', 'operator'],
    params: runParam,
    output: z.object({ egress: EgressView }),
  }),
  listEgress: route({
    method: 'GET',
    path: '/v1/egress',
    callers: ['toold', 'operator'],
    output: z.object({ egress: z.array(EgressSummary) }),
  }),
  fetch: route({
    method: 'POST',
    path: '/v1/egress/{id}/fetch',
    callers: ['toold'],
    params: runParam,
    body: FetchBody,
    output: FetchAnswer,
    streams: true,
    bodySizeBytesMax: 6_000_000,
  }),
  /** Returns the outcome of a request that may have changed something; waits for an open one. */
  getFetch: route({
    method: 'GET',
    path: '/v1/egress/{id}/fetches/{call_id}',
    callers: ['toold'],
    params: callParam,
    output: z.object({
      /** `none`: not sent. `unknown`: possibly sent. */
      outcome: z.enum(['none', 'unknown', 'answered']),
      answer: FetchAnswer.nullable(),
    }),
    streams: true,
  }),
  /** Allows one more send after a person confirmed that it did not happen. Responses are kept. */
  forgetFetch: route({
    method: 'DELETE',
    path: '/v1/egress/{id}/fetches/{call_id}',
    callers: ['toold'],
    params: callParam,
    output: z.object({ forgotten: z.boolean() }),
    streams: true,
  }),
  prune: pruneRoute('/v1/egress/prune', ['toold']),
  eraseCopies: eraseCopiesRoute('/v1/egress/copies/erase', ['toold']),
});
