// Views of modeld's models, providers, budgets, usage and recorded calls.
import * as z from 'zod';
import { CallId, Label, RunId, TaskId, Timestamp } from '../primitives.ts';
import { StopReason, Usage } from './generate.ts';

/** USD per million tokens, as in price lists. */
const usdPerMillion = z.number().nonnegative().max(1_000_000);
export const ProviderPrice = z.strictObject({ input: usdPerMillion, output: usdPerMillion });
export type ProviderPrice = z.infer<typeof ProviderPrice>;

export const ModelView = z.object({
  name: z.string(),
  kind: z.enum(['chat', 'embedding']),
  /** Provider and model pairs, in the order in which they are tried. */
  routes: z.array(z.object({ provider: z.string(), model: z.string() })),
  context_tokens: z.int(),
  max_output_tokens: z.int(),
  rehearsal: z.boolean(),
  /** True for the model that `default` and unknown names are routed to. */
  is_default: z.boolean(),
  /** The first route's price. A guess is deliberately high, so that budgets hold. */
  price: ProviderPrice.extend({ is_guess: z.boolean() }),
  available: z.boolean(),
  reason: z.string().optional(),
});
export type ModelView = z.infer<typeof ModelView>;

/** A model name, in which * stands for any characters. */
export const ModelPattern = z
  .string()
  .regex(/^[\x21-\x7e]{1,128}$/, 'must be a name of visible ASCII characters; * stands for any');

/** The name `default` already has a meaning. */
export const AliasPattern = ModelPattern.refine((pattern) => pattern !== 'default', {
  message: 'default stands for the default model; set modeld.default_model',
});

/** Names that stand for a model of another name, unless a provider offers them. */
export const AliasView = z.object({
  pattern: z.string(),
  /** `default`: for a run its own model, else the default one. */
  model: z.string(),
  set_by: z.enum(['operator', 'config', 'built-in']),
});
export type AliasView = z.infer<typeof AliasView>;

/** `openai` is Chat Completions; `responses` is OpenAI's newer API of that name. */
export const DialectName = z.enum(['anthropic', 'openai', 'responses']);
export type DialectName = z.infer<typeof DialectName>;

export const ProviderView = z.object({
  name: z.string(),
  dialect: DialectName,
  base_url: z.string(),
  has_key: z.boolean(),
  labels_allowed: z.array(Label),
  in_flight: z.int(),
  available: z.boolean(),
  reason: z.string().optional(),
});
export type ProviderView = z.infer<typeof ProviderView>;

export const AbilityName = z.enum([
  'chat',
  'streaming',
  'tools',
  'images',
  'responses',
  'count_tokens',
  'embeddings',
]);
export type AbilityName = z.infer<typeof AbilityName>;

export const AbilityView = z.object({
  ability: AbilityName,
  /** `translated` and `estimated`: clients can use it, because modeld does it for the provider. */
  result: z.enum(['yes', 'translated', 'estimated', 'no', 'untried']),
  message: z.string(),
});
export type AbilityView = z.infer<typeof AbilityView>;

const RouteTest = z.object({
  provider: z.string(),
  model: z.string(),
  kind: z.enum(['chat', 'embedding']),
  ok: z.boolean(),
  message: z.string(),
  abilities: z.array(AbilityView),
});
export type RouteTest = z.infer<typeof RouteTest>;

/** Found out by trying, with one small call for each ability. */
export const ModelTest = z.object({
  ok: z.boolean(),
  /** The provider of the first route that responded. */
  provider: z.string(),
  model: z.string(),
  latency_ms: z.int(),
  rehearsal: z.boolean(),
  message: z.string(),
  routes: z.array(RouteTest),
});
export type ModelTest = z.infer<typeof ModelTest>;

export const UsageRow = z.object({
  agent: z.string(),
  model: z.string(),
  provider: z.string(),
  calls: z.int(),
  usage: Usage,
  cost_microusd: z.int(),
  /** True when the model has no known price, so that the cost is a high guess. */
  cost_is_guess: z.boolean(),
});
export type UsageRow = z.infer<typeof UsageRow>;

/** A person's usage has that of the keys they own. */
export const UsageBy = z.enum(['key', 'agent', 'person', 'model', 'task']);
export type UsageBy = z.infer<typeof UsageBy>;

export const UsageGroup = UsageRow.omit({ agent: true, model: true, provider: true }).extend({
  /** The key, agent, person, PROVIDER/MODEL or top task; null for calls without. */
  name: z.string().nullable(),
  /** True for calls from before an upgrade, of which the key or person is not known. */
  is_unknown: z.boolean(),
});
export type UsageGroup = z.infer<typeof UsageGroup>;

/** The calendar month or day (UTC) after which a budget renews; `total` never does. */
export const BudgetPeriod = z.enum(['day', 'month', 'total']);
export type BudgetPeriod = z.infer<typeof BudgetPeriod>;

/** A budget limits tokens, money or both for one subject. */
export const BudgetSubject = z.enum(['site', 'day', 'agent', 'task', 'key', 'person']);
export const BudgetView = z.object({
  subject: BudgetSubject,
  /** '' for site and day; else the name of the agent, key or person, or the root task's id. */
  name: z.string(),
  period: BudgetPeriod,
  tokens_limit: z.int().nullable(),
  tokens_spent: z.int(),
  tokens_reserved: z.int(),
  cost_limit_microusd: z.int().nullable(),
  cost_spent_microusd: z.int(),
  cost_reserved_microusd: z.int(),
  renews_at: Timestamp.nullable(),
});
export type BudgetView = z.infer<typeof BudgetView>;

export const ModelCallView = z.object({
  call_id: CallId,
  /** Counts from 1: a call that was interrupted and repeated has one row per attempt. */
  attempt: z.int().positive(),
  run_id: RunId.nullable(),
  fence: z.int().nullable(),
  agent: z.string(),
  task_id: TaskId.nullable(),
  model: z.string(),
  provider: z.string(),
  status: z.enum(['running', 'completed', 'failed', 'canceled', 'unknown']),
  purpose: z.string(),
  request_hash: z.string(),
  /** Content hashes of the messages, in order; each body is stored once. */
  context: z.array(z.string()),
  stop_reason: StopReason.nullable(),
  usage: Usage.nullable(),
  cost_microusd: z.int(),
  error: z.record(z.string(), z.unknown()).nullable(),
  created_at: Timestamp,
  ended_at: Timestamp.nullable(),
});
export type ModelCallView = z.infer<typeof ModelCallView>;
