// agentd's policy routes and their views: the policy in force, the check of a file, an agent's
// rules, and a replay of recorded decisions against changed rules.
import * as z from 'zod';
import { AgentName, FileProblem, Timestamp } from '../primitives.ts';
import { route, routes } from '../route.ts';

const Effect = z.enum(['allow', 'ask', 'deny']);

export const RuleView = z.object({
  /** `base:…`, `site:<file>:<n>` or `manifest:<agent>:<subject>:<n>`. */
  id: z.string(),
  effect: z.enum(['permit', 'ask', 'forbid']),
  /** The file and line, or the key of the manifest that it comes from. */
  from: z.string(),
  why: z.string().nullable(),
  until: Timestamp.nullable(),
  /** The rule's Cedar text. */
  text: z.string(),
});
export type RuleView = z.infer<typeof RuleView>;

export const PolicyView = z.object({
  /** Grows with every change. */
  version: z.int(),
  hash: z.string(),
  made_at: Timestamp,
  /** The directory of the site's rule files. */
  policies_dir: z.string(),
  site: z.array(z.object({ file: z.string(), rules: z.int() })),
  agents: z.int(),
  people: z.record(z.string(), z.object({ roles: z.array(z.string()) })).nullable(),
  /** Invalid files; their last valid version stays in force. */
  problems: z.array(FileProblem),
});
export type PolicyView = z.infer<typeof PolicyView>;

const PolicyFile = z.strictObject({
  /** Such as 10-prod.cedar, or coder.yaml for a manifest. */
  name: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/, 'must be a file name such as 10-prod.cedar'),
  text: z.string().max(262_144),
});
export type PolicyFile = z.infer<typeof PolicyFile>;

export const PolicyCheckView = z.object({
  files: z.array(
    z.object({ file: z.string(), kind: z.enum(['policy', 'manifest']), rules: z.int() }),
  ),
  problems: z.array(FileProblem),
  warnings: z.array(FileProblem),
});
export type PolicyCheckView = z.infer<typeof PolicyCheckView>;

export const AgentPolicyView = z.object({
  agent: AgentName,
  version: z.int(),
  groups: z.array(z.string()),
  rules: z.array(RuleView),
  /** The paths and hosts that are open to a box of this agent. */
  box: z.object({
    read: z.array(z.string()),
    write: z.array(z.string()),
    deny: z.array(z.string()),
    network: z.object({
      mode: z.enum(['none', 'restricted']),
      allow: z.array(z.object({ host: z.string(), port: z.int() })),
    }),
  }),
});
export type AgentPolicyView = z.infer<typeof AgentPolicyView>;

const Outcome = z.object({ answer: Effect, rules: z.array(z.string()) });

export const SimulationView = z.object({
  /** The version in force, which decided `today`. */
  version: z.int(),
  since: Timestamp.nullable(),
  /** Number of recorded decisions that were replayed. */
  decisions: z.int(),
  /** Decisions whose event does not hold the whole request. */
  unreadable: z.int(),
  /** True when older decisions were left out. */
  truncated: z.boolean(),
  changes: z.array(
    z.object({
      event: z.string(),
      ts: Timestamp,
      agent: z.string(),
      tool: z.string(),
      task_id: z.string(),
      /** The paths and hosts that the call touches. */
      touches: z.array(z.string()),
      recorded: Outcome,
      today: Outcome,
      changed: Outcome.extend({ reason: z.string() }),
    }),
  ),
});
export type SimulationView = z.infer<typeof SimulationView>;

const files = z.array(PolicyFile).min(1).max(64);

export const policyRoutes = routes({
  getPolicy: route({
    method: 'GET',
    path: '/v1/policy',
    callers: ['operator'],
    output: z.object({ policy: PolicyView }),
  }),
  checkPolicy: route({
    method: 'POST',
    role: 'reader',
    path: '/v1/policy/check',
    callers: ['operator'],
    body: z.strictObject({ files }),
    output: z.object({ check: PolicyCheckView }),
    bodySizeBytesMax: 4_000_000,
  }),
  showPolicy: route({
    method: 'GET',
    path: '/v1/policy/agents/{name}',
    callers: ['operator'],
    params: z.strictObject({ name: AgentName }),
    output: AgentPolicyView,
  }),
  /** A file replaces the file in force that has the same name. */
  simulatePolicy: route({
    method: 'POST',
    role: 'reader',
    path: '/v1/policy/simulate',
    callers: ['operator'],
    body: z.strictObject({ files, since: Timestamp.optional() }),
    output: z.object({ simulation: SimulationView }),
    bodySizeBytesMax: 4_000_000,
  }),
});
