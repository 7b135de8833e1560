// The form of a preset file: agents, tasks, messages and variables.
import * as z from 'zod';
import { FailurePolicy } from '../../../wire/agentd.ts';
import { AgentName } from '../../../wire/primitives.ts';

const VARIABLE = /^[A-Z][A-Z0-9_]{0,63}$/;
const key = z.string().regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, 'must look like write-tests');
const text = (charsMax: number) => z.string().min(1).max(charsMax);

const Variable = z.strictObject({
  description: z.string().max(500).optional(),
  /** Without a default it is required. */
  default: z.string().max(4_000).optional(),
  /** A regular expression that the whole value must match. */
  pattern: z.string().min(1).max(200).optional(),
  choice: z.array(text(200)).min(1).max(50).optional(),
});
export type Variable = z.output<typeof Variable>;

const PresetAgent = z.strictObject({
  name: AgentName,
  description: text(500).optional(),
  persona: z.union([text(64), z.array(text(64)).min(1).max(16)]).optional(),
  instructions: text(32_000).optional(),
  /** Capabilities; without them, those that its personas expect. */
  allow: z.array(text(64)).max(64).optional(),
  replicas: z.int().min(1).max(100).optional(),
});

const PresetTask = z.strictObject({
  id: key,
  goal: text(60_000),
  agent: AgentName.optional(),
  needs: z.array(text(64)).max(64).optional(),
  after: z.array(key).max(64).optional(),
  priority: z.int().min(-100).max(100).optional(),
  on_failure: FailurePolicy.optional(),
  attempts_max: z.int().min(1).max(10).optional(),
  max_cost_usd: z.number().nonnegative().max(1_000_000).optional(),
});

const PresetMail = z.strictObject({
  to: AgentName,
  subject: text(500),
  body: text(32_000),
});

export const PresetShape = z.strictObject({
  apiVersion: z.literal('agentd/v1'),
  kind: z.literal('Preset'),
  metadata: z.strictObject({
    name: z.string().regex(/^[a-z0-9][a-z0-9-]{0,63}$/, 'must look like incident-response'),
    description: text(1_000),
  }),
  variables: z
    .record(z.string().regex(VARIABLE, 'must look like SERVICE_NAME'), Variable)
    .optional(),
  /** Those without a persona, instructions and allow must exist. */
  agents: z.array(PresetAgent).min(1).max(50),
  tasks: z.array(PresetTask).min(1).max(200),
  mail: z.array(PresetMail).max(100).optional(),
});
export type Preset = z.output<typeof PresetShape>;
