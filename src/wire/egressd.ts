// egressd's contract: what a run may reach, what it did reach, and one request made for a tool. The
// proxy that boxes speak to is plain HTTP/1.1 (CONNECT and absolute-form), not one of these routes.
import * as z from 'zod';
import { AgentName, CallId, Label, RunId, TaskId, Timestamp } from './primitives.ts';
import { route, routes } from './route.ts';

const port = z.int().min(1).max(65_535);
const method = z.string().regex(/^[A-Z]{3,16}$/, 'must be a method such as GET');

export const EgressRule = z.strictObject({
  /** A name, `*.` and a suffix (any depth below it, not the suffix itself), or an exact address. */
  host: z.string().min(1).max(260),
  /** Absent: 80 and 443. */
  port: port.optional(),
  /** With methods or paths, only requests egressd can read are allowed: no tunnel. */
  methods: z.array(method).min(1).max(16).optional(),
  /** Exact, or ending in `*` for all that begins so. */
  paths: z
    .array(z.string().regex(/^\/[\x21-\x7e]*$/, 'must be a path such as /api/*'))
    .min(1)
    .max(64)
    .optional(),
  /** Lets a tunnel carry what is not TLS, and TLS to another name. */
  plain: z.boolean().optional(),
});
export type EgressRule = z.infer<typeof EgressRule>;

/** A rule that a person added for this run. */
export const GrantedRule = EgressRule.extend({ expires_at: Timestamp.optional() });
export type GrantedRule = z.infer<typeof GrantedRule>;

export const PutEgressBody = z.strictObject({
  fence: z.int().positive(),
  agent: AgentName,
  task_id: TaskId,
  root_task_id: TaskId,
  /** Nothing listed: nothing allowed. */
  allow: z.array(EgressRule).max(512),
  granted: z.array(GrantedRule).max(128).default([]),
  /** Both directions of all activations of the run together. */
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
  /** Whether a person could allow it: a rule is missing, nothing else stands against it. */
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
  /** The most recent, newest first; equal ones are one with a count. */
  denials: z.array(EgressDenial),
});
export type EgressView = z.infer<typeof EgressView>;

export const FetchBody = z.strictObject({
  fence: z.int().positive(),
  /** The same call is never sent twice, unless its method only reads. */
  call_id: CallId,
  method,
  url: z.string().min(1).max(8_192),
  headers: z.record(z.string().min(1).max(128), z.string().max(8_192)).default({}),
  body_base64: z.base64().max(5_600_000).optional(),
  response_bytes_max: z.int().min(0).max(4_000_000).default(1_000_000),
  time_ms_max: z.int().min(1).max(300_000).default(30_000),
  /**
   * What the caller has decided of this very request: it counts beside the rules of the run, for
   * this request only and not for where it is redirected to.
   */
  decided: EgressRule.optional(),
  /** Each place that a redirect names is decided on like the first. */
  redirects_max: z.int().min(0).max(10).default(5),
});
export type FetchBody = z.infer<typeof FetchBody>;

export const FetchAnswer = z.object({
  /** Where the answer came from, after redirects. */
  url: z.string(),
  status: z.int(),
  headers: z.record(z.string(), z.string()),
  body_base64: z.string(),
  size_bytes: z.int(),
  /** The body was longer than asked for; this is its beginning. */
  truncated: z.boolean(),
  recorded: z.boolean(),
});
export type FetchAnswer = z.infer<typeof FetchAnswer>;

const runInPath = z.strictObject({ id: RunId });
const callInPath = z.strictObject({ id: RunId, call_id: CallId });

export const egressdRoutes = routes({
  /** Opens the way out of a run, or changes it: what is no longer allowed is cut at once. */
  putEgress: route({
    method: 'PUT',
    path: '/v1/egress/{id}',
    callers: ['toold'],
    params: runInPath,
    body: PutEgressBody,
    output: z.object({ socket: z.string(), cut: z.int() }),
  }),
  dropEgress: route({
    method: 'DELETE',
    path: '/v1/egress/{id}',
    callers: ['toold'],
    params: runInPath,
    query: z.strictObject({ fence: z.coerce.number().int().nonnegative() }),
    output: z.object({ dropped: z.boolean() }),
  }),
  getEgress: route({
    method: 'GET',
    path: '/v1/egress/{id}',
    callers: ['toold', 'operator'],
    params: runInPath,
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
    params: runInPath,
    body: FetchBody,
    output: FetchAnswer,
    streams: true,
    bodySizeBytesMax: 6_000_000,
  }),
  /** What became of a request that may change something; one that is under way is waited for. */
  getFetch: route({
    method: 'GET',
    path: '/v1/egress/{id}/fetches/{call_id}',
    callers: ['toold'],
    params: callInPath,
    output: z.object({
      /** `none`: nothing was sent. `unknown`: it may have been. */
      outcome: z.enum(['none', 'unknown', 'answered']),
      answer: FetchAnswer.nullable(),
    }),
    streams: true,
  }),
  /** A person said that it did not happen: it may be sent once more. What was answered stays. */
  forgetFetch: route({
    method: 'DELETE',
    path: '/v1/egress/{id}/fetches/{call_id}',
    callers: ['toold'],
    params: callInPath,
    output: z.object({ forgotten: z.boolean() }),
    streams: true,
  }),
});
