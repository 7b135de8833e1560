// Policy as the wire shows it: what is in force, what a file would mean, what rules an agent has,
// and what a changed policy would have answered.
import * as z from 'zod';
import { AgentName, FileProblem, Timestamp } from '../primitives.ts';
import { route, routes } from '../route.ts';

const Answer = z.enum(['allow', 'ask', 'deny']);

export const RuleView = z.object({
  /** `base:…`, `site:<file>:<n>` or `manifest:<agent>:<subject>:<n>`. */
  id: z.string(),
  effect: z.enum(['permit', 'ask', 'forbid']),
  /** The file and line, or the part of the manifest that it stands for. */
  from: z.string(),
  why: z.string().nullable(),
  until: Timestamp.nullable(),
  /** As Cedar. */
  text: z.string(),
});
export type RuleView = z.infer<typeof RuleView>;

export const PolicyView = z.object({
  /** Grows with every change. */
  version: z.int(),
  hash: z.string(),
  made_at: Timestamp,
  /** Where rules of the site are read from. */
  policies_dir: z.string(),
  site: z.array(z.object({ file: z.string(), rules: z.int() })),
  agents: z.int(),
  people: z.record(z.string(), z.object({ roles: z.array(z.string()) })).nullable(),
  /** Files that are not taken as they are; what they said before stays in force. */
  problems: z.array(FileProblem),
});
export type PolicyView = z.infer<typeof PolicyView>;

const PolicyFile = z.strictObject({
  /** 10-prod.cedar, or coder.yaml for a manifest. */
  name: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/, 'must be the name of a file'),
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
  /** What a box of this agent shows and reaches. */
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

const Told = z.object({ answer: Answer, rules: z.array(z.string()) });

export const SimulationView = z.object({
  /** The version in force that `today` is of. */
  version: z.int(),
  since: Timestamp.nullable(),
  /** Decisions of the past that were decided again. */
  decisions: z.int(),
  /** Decisions whose record does not tell all that was asked. */
  unreadable: z.int(),
  /** True: older ones were left out. */
  truncated: z.boolean(),
  changes: z.array(
    z.object({
      event: z.string(),
      ts: Timestamp,
      agent: z.string(),
      tool: z.string(),
      task_id: z.string(),
      /** What is asked about: paths and hosts. */
      touches: z.array(z.string()),
      recorded: Told,
      today: Told,
      changed: Told.extend({ reason: z.string() }),
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
  /** A file of the same name as one in force takes its place. */
  simulatePolicy: route({
    method: 'POST',
    path: '/v1/policy/simulate',
    callers: ['operator'],
    body: z.strictObject({ files, since: Timestamp.optional() }),
    output: z.object({ simulation: SimulationView }),
    bodySizeBytesMax: 4_000_000,
  }),
});
