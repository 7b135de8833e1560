// modeld's contract: the neutral form of a model call that runners and operators speak, and its
// routes. The vendors' own dialects (/openai, /anthropic) are passed through as those vendors
// define them.
import * as z from 'zod';
import { route, routes } from './route.ts';
import { AgentName, CallId, Label, RunId, TaskId, Timestamp } from './words.ts';

const sizeCharsMax = 4_000_000;

export const TextPart = z.strictObject({ type: z.literal('text'), text: z.string() });
/** Thinking is kept opaque so that it can go back to the provider that signed it, unchanged. */
export const ThinkingPart = z.strictObject({
  type: z.literal('thinking'),
  text: z.string(),
  signature: z.string().optional(),
});
export const ToolCallPart = z.strictObject({
  type: z.literal('tool_call'),
  id: z.string().min(1).max(128),
  name: z.string().min(1).max(128),
  /**
   * Parsed arguments; when the model wrote broken JSON, `arguments_error` says so and `arguments`
   * is {}.
   */
  arguments: z.record(z.string(), z.unknown()),
  arguments_error: z.string().optional(),
});
export const ToolResultPart = z.strictObject({
  type: z.literal('tool_result'),
  tool_call_id: z.string().min(1).max(128),
  name: z.string().max(128).optional(),
  content: z.string(),
  is_error: z.boolean().optional(),
});
export const Part = z.discriminatedUnion('type', [
  TextPart,
  ThinkingPart,
  ToolCallPart,
  ToolResultPart,
]);
export type Part = z.infer<typeof Part>;

export const Message = z.strictObject({
  role: z.enum(['system', 'user', 'assistant']),
  parts: z.array(Part).min(1).max(2_000),
  /** Where the text came from; decides which providers may see it. */
  labels: z.array(Label).max(16).optional(),
});
export type Message = z.infer<typeof Message>;

export const ToolSpec = z.strictObject({
  name: z.string().min(1).max(128),
  description: z.string().max(10_000),
  input_schema: z.record(z.string(), z.unknown()),
});
export type ToolSpec = z.infer<typeof ToolSpec>;

/**
 * Counts as the provider reports them. `input_tokens` includes neither cache reads nor cache
 * writes.
 */
export const Usage = z.strictObject({
  input_tokens: z.int().nonnegative(),
  output_tokens: z.int().nonnegative(),
  cache_read_tokens: z.int().nonnegative(),
  cache_write_tokens: z.int().nonnegative(),
  reasoning_tokens: z.int().nonnegative(),
});
export type Usage = z.infer<typeof Usage>;

export const StopReason = z.enum([
  'end',
  'tool_calls',
  'max_tokens',
  'stop_sequence',
  'refusal',
  'other',
]);
export type StopReason = z.infer<typeof StopReason>;

export const GenerateRequest = z.strictObject({
  model: z.string().min(1).max(128),
  messages: z.array(Message).min(1).max(10_000).optional(),
  /** Instead of, or after, `messages`: an artifact whose text becomes the last user message. */
  input_ref: z
    .string()
    .regex(/^artifact:\/\/[a-z0-9_]+$/)
    .optional(),
  tools: z.array(ToolSpec).max(256).optional(),
  tool_choice: z.enum(['auto', 'none', 'required']).optional(),
  temperature: z.number().min(0).max(2).optional(),
  stop: z.array(z.string().max(256)).max(8).optional(),
  limits: z
    .strictObject({
      max_input_tokens: z.int().positive().optional(),
      max_output_tokens: z.int().positive().optional(),
    })
    .optional(),
  purpose: z.string().max(1_000).optional(),
  /** Said for the record by callers that are not runs; a run's own identity always wins. */
  agent: z.string().max(128).optional(),
  task_id: TaskId.optional(),
  /** A run names its calls; the same call_id is answered from the record. */
  call_id: CallId.optional(),
  stream: z.boolean().optional(),
});
export type GenerateRequest = z.infer<typeof GenerateRequest>;

export const GenerateResponse = z.object({
  call_id: CallId,
  model: z.string(),
  provider: z.string(),
  /** True when no real model answered but the rehearsal. */
  rehearsal: z.boolean(),
  message: Message,
  stop_reason: StopReason,
  usage: Usage,
  cost_microusd: z.int().nonnegative(),
  /** True when the answer came from the record. */
  recorded: z.boolean(),
});
export type GenerateResponse = z.infer<typeof GenerateResponse>;

/**
 * One line of a streamed neutral answer (SSE `data:`): deltas, then `done` with the whole response.
 */
export const GenerateEvent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), text: z.string() }),
  z.object({ type: z.literal('thinking'), text: z.string() }),
  z.object({ type: z.literal('tool_call'), id: z.string(), name: z.string() }),
  z.object({ type: z.literal('done'), response: GenerateResponse }),
  z.object({ type: z.literal('error'), error: z.record(z.string(), z.unknown()) }),
]);
export type GenerateEvent = z.infer<typeof GenerateEvent>;

export const EmbedRequest = z.strictObject({
  model: z.string().min(1).max(128),
  input: z.array(z.string().min(1).max(100_000)).min(1).max(256),
  purpose: z.string().max(1_000).optional(),
  agent: z.string().max(128).optional(),
  task_id: TaskId.optional(),
  call_id: CallId.optional(),
});
export type EmbedRequest = z.infer<typeof EmbedRequest>;
export const EmbedResponse = z.object({
  call_id: CallId,
  model: z.string(),
  provider: z.string(),
  rehearsal: z.boolean(),
  embeddings: z.array(z.array(z.number())),
  usage: Usage,
  cost_microusd: z.int().nonnegative(),
  recorded: z.boolean(),
});
export type EmbedResponse = z.infer<typeof EmbedResponse>;

/** USD per million tokens, as price lists say it. */
const usdPerMillion = z.number().nonnegative().max(1_000_000);
export const ProviderPrice = z.strictObject({ input: usdPerMillion, output: usdPerMillion });
export type ProviderPrice = z.infer<typeof ProviderPrice>;

export const ModelView = z.object({
  name: z.string(),
  kind: z.enum(['chat', 'embedding']),
  /** provider/model pairs in the order they are tried. */
  routes: z.array(z.object({ provider: z.string(), model: z.string() })),
  context_tokens: z.int(),
  max_output_tokens: z.int(),
  rehearsal: z.boolean(),
  /** It answers for `default` and for names that nobody offers. */
  is_default: z.boolean(),
  /** Of the first route. A guess is high on purpose, so that budgets hold. */
  price: ProviderPrice.extend({ is_guess: z.boolean() }),
  available: z.boolean(),
  reason: z.string().optional(),
});
export type ModelView = z.infer<typeof ModelView>;

export const ProviderView = z.object({
  name: z.string(),
  dialect: z.enum(['anthropic', 'openai']),
  base_url: z.string(),
  has_key: z.boolean(),
  labels_allowed: z.array(Label),
  in_flight: z.int(),
  available: z.boolean(),
  reason: z.string().optional(),
});
export type ProviderView = z.infer<typeof ProviderView>;

export const UsageRow = z.object({
  agent: z.string(),
  model: z.string(),
  provider: z.string(),
  calls: z.int(),
  usage: Usage,
  cost_microusd: z.int(),
  /** Nobody named a price of this model: the cost is a guess, and a high one. */
  cost_is_guess: z.boolean(),
});
export type UsageRow = z.infer<typeof UsageRow>;

/** A budget limits tokens, money or both for one subject. `day` renews at midnight UTC. */
export const BudgetSubject = z.enum(['site', 'day', 'agent', 'task']);
export const BudgetView = z.object({
  subject: BudgetSubject,
  /** '' for site and day, the agent's name, or the root task's id. */
  name: z.string(),
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
  /** Counts from 1; a call that was cut off and asked again has one row per attempt. */
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
  /** Content hashes of the messages, in order; bodies are kept once each. */
  context: z.array(z.string()),
  stop_reason: StopReason.nullable(),
  usage: Usage.nullable(),
  cost_microusd: z.int(),
  error: z.record(z.string(), z.unknown()).nullable(),
  created_at: Timestamp,
  ended_at: Timestamp.nullable(),
});
export type ModelCallView = z.infer<typeof ModelCallView>;

const bodySizeBytesMax = sizeCharsMax;

/** Of a vendor's body nothing is asked but that it is an object. */
function isObject(body: unknown): boolean {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return false;
  return !Object.hasOwn(body, '__proto__');
}

export const modeldRoutes = routes({
  generate: route({
    method: 'POST',
    path: '/v1/models/generate',
    callers: ['run', 'operator'],
    body: GenerateRequest,
    output: GenerateResponse,
    streams: true,
    bodySizeBytesMax,
  }),
  embed: route({
    method: 'POST',
    path: '/v1/models/embed',
    callers: ['run', 'operator'],
    body: EmbedRequest,
    output: EmbedResponse,
    bodySizeBytesMax,
  }),
  listModels: route({
    method: 'GET',
    path: '/v1/models',
    callers: ['run', 'operator', 'agentd'],
    output: z.object({ models: z.array(ModelView), providers: z.array(ProviderView) }),
  }),
  usage: route({
    method: 'GET',
    path: '/v1/models/usage',
    callers: ['operator', 'agentd'],
    query: z.strictObject({
      agent: z.string().optional(),
      task_id: TaskId.optional(),
      since: Timestamp.optional(),
    }),
    output: z.object({
      rows: z.array(UsageRow),
      total: z.object({ calls: z.int(), usage: Usage, cost_microusd: z.int() }),
    }),
  }),
  listBudgets: route({
    method: 'GET',
    path: '/v1/models/budgets',
    callers: ['operator', 'agentd'],
    output: z.object({ budgets: z.array(BudgetView) }),
  }),
  setBudget: route({
    method: 'PUT',
    path: '/v1/models/budgets',
    callers: ['operator', 'agentd'],
    body: z.strictObject({
      subject: BudgetSubject,
      name: z.string().max(128).optional(),
      tokens_limit: z.int().nonnegative().nullable().optional(),
      cost_limit_microusd: z.int().nonnegative().nullable().optional(),
    }),
    output: z.object({ budget: BudgetView }),
  }),
  testModel: route({
    method: 'POST',
    path: '/v1/models/test',
    callers: ['operator'],
    body: z.strictObject({ name: z.string().min(1).max(128) }),
    output: z.object({
      ok: z.boolean(),
      provider: z.string(),
      model: z.string(),
      latency_ms: z.int(),
      rehearsal: z.boolean(),
      message: z.string(),
    }),
  }),
  listCalls: route({
    method: 'GET',
    path: '/v1/models/calls',
    callers: ['operator', 'agentd'],
    query: z.strictObject({
      run_id: RunId.optional(),
      task_id: TaskId.optional(),
      limit: z.coerce.number().int().min(1).max(1000).optional(),
      cursor: z.string().max(200).optional(),
    }),
    output: z.object({ calls: z.array(ModelCallView), cursor: z.string().nullable() }),
  }),
  getCall: route({
    method: 'GET',
    path: '/v1/models/calls/{id}',
    callers: ['operator', 'agentd'],
    params: z.strictObject({ id: CallId }),
    output: z.object({
      call: ModelCallView,
      messages: z.array(z.unknown()),
      /** What was asked for beside the messages: tools, limits. */
      params: z.unknown(),
      response: z.unknown(),
    }),
  }),
  /** Removes the body of one context part everywhere; it shows as [forgotten] from then on. */
  forgetPart: route({
    method: 'DELETE',
    path: '/v1/models/parts/{hash}',
    callers: ['operator'],
    params: z.strictObject({ hash: z.string().regex(/^[0-9a-f]{64}$/) }),
    output: z.object({ forgotten: z.boolean() }),
  }),
  addProvider: route({
    method: 'PUT',
    path: '/v1/models/providers/{name}',
    callers: ['operator'],
    params: z.strictObject({ name: z.string().regex(/^[a-z][a-z0-9-]{0,31}$/) }),
    body: z.strictObject({
      dialect: z.enum(['anthropic', 'openai']),
      base_url: z.url().max(500),
      key: z.string().max(10_000).optional(),
      models: z.array(z.string().max(128)).max(64).optional(),
      /** Of all its models; zero for one that costs nothing. Kept when it is left out. */
      price: ProviderPrice.optional(),
    }),
    output: z.object({ provider: ProviderView }),
  }),
  // The vendors' dialects, for SDKs used unchanged. Bodies are the vendors' own and checked by the
  // adapter.
  openaiChat: route({
    method: 'POST',
    path: '/openai/v1/chat/completions',
    callers: ['run', 'operator'],
    body: z.looseObject({}),
    isPlainBody: isObject,
    output: z.unknown(),
    streams: true,
    bodySizeBytesMax,
    dialect: 'openai',
  }),
  openaiModels: route({
    method: 'GET',
    path: '/openai/v1/models',
    callers: ['run', 'operator'],
    output: z.unknown(),
    dialect: 'openai',
  }),
  anthropicMessages: route({
    method: 'POST',
    path: '/anthropic/v1/messages',
    callers: ['run', 'operator'],
    body: z.looseObject({}),
    isPlainBody: isObject,
    output: z.unknown(),
    streams: true,
    bodySizeBytesMax,
    dialect: 'anthropic',
  }),
  anthropicModels: route({
    method: 'GET',
    path: '/anthropic/v1/models',
    callers: ['run', 'operator'],
    query: z.looseObject({}),
    output: z.unknown(),
    dialect: 'anthropic',
  }),
  // Peers: agentd admits and dismisses runs.
  admitRun: route({
    method: 'PUT',
    path: '/v1/runs/{id}',
    callers: ['agentd'],
    params: z.strictObject({ id: RunId }),
    body: z.lazy(() => AdmitRunBody),
    output: z.object({ socket: z.string() }),
  }),
  dismissRun: route({
    method: 'DELETE',
    path: '/v1/runs/{id}',
    callers: ['agentd'],
    params: z.strictObject({ id: RunId }),
    query: z.strictObject({ fence: z.coerce.number().int().nonnegative() }),
    output: z.object({ dismissed: z.boolean() }),
  }),
  /**
   * What the run has seen since it was admitted. Labels only grow, and stay with the run for all
   * its activations.
   */
  markRun: route({
    method: 'PUT',
    path: '/v1/runs/{id}/labels',
    callers: ['agentd'],
    params: z.strictObject({ id: RunId }),
    body: z.strictObject({ labels: z.array(Label).min(1).max(16) }),
    output: z.object({ labels: z.array(Label) }),
  }),
});

/** What agentd tells modeld of a run when it starts an activation. */
export const AdmitRunBody = z.strictObject({
  fence: z.int().positive(),
  mode: z.enum(['live', 'replay']),
  agent: AgentName,
  task_id: TaskId,
  root_task_id: TaskId,
  model: z.string().max(128),
  labels: z.array(Label).max(16),
  max_steps: z.int().positive(),
  max_tokens: z.int().positive().nullable(),
  max_cost_microusd: z.int().nonnegative().nullable(),
});
export type AdmitRunBody = z.infer<typeof AdmitRunBody>;
