// modeld's contract: its routes. Their schemas are in the folder of the same name; the vendors' own
// dialects (/openai, /anthropic) are passed through as those vendors define them.
import * as z from 'zod';
import { admissionFields, admissionRoutes } from './admission.ts';
import { eraseCopiesRoute } from './copies.ts';
import { liveRoute } from './live.ts';
import {
  EmbedMemories,
  EmbedRequest,
  EmbedResponse,
  GenerateRequest,
  GenerateResponse,
  sizeCharsMax,
  Usage,
} from './modeld/generate.ts';
import { keyRoutes } from './modeld/keys.ts';
import {
  AliasPattern,
  AliasView,
  BudgetPeriod,
  BudgetSubject,
  BudgetView,
  DialectName,
  ModelCallView,
  ModelTest,
  ModelView,
  ProviderPrice,
  ProviderView,
  UsageBy,
  UsageGroup,
  UsageRow,
} from './modeld/views.ts';
import { CallId, pageQuery, RunId, TaskId, Timestamp } from './primitives.ts';
import { expireRoute, PruneAnswer, PruneBody, pruneRoute } from './prune.ts';
import { route, routes } from './route.ts';

export * from './modeld/generate.ts';
export * from './modeld/keys.ts';
export * from './modeld/views.ts';

const bodySizeBytesMax = sizeCharsMax;
/** As the vendors accept it: images and documents are in the body. */
const VENDOR_BODY_BYTES_MAX = 32 * 1024 * 1024;

/** The caller's choice of version and betas reaches a provider of the same dialect. */
const ANTHROPIC_HEADERS = ['anthropic-version', 'anthropic-beta'];

/** A vendor's body only has to be an object; the adapter checks the rest. */
function isObject(body: unknown): boolean {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return false;
  return !Object.hasOwn(body, '__proto__');
}

/** Sent by agentd when it starts an activation. */
export const AdmitModelRunBody = z.strictObject({
  ...admissionFields,
  /** That of its agent. */
  model: z.string().max(128),
  /** A person's choice for a program, instead of any model it asks for. */
  chosen_model: z.string().max(128).optional(),
  max_steps: z.int().positive(),
  max_tokens: z.int().positive().nullable(),
  max_cost_microusd: z.int().nonnegative().nullable(),
});
export type AdmitModelRunBody = z.infer<typeof AdmitModelRunBody>;

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
  /** Neither the texts nor the vectors are kept: memoryd has both. */
  embedMemories: route({
    method: 'POST',
    path: '/v1/models/embed-memories',
    callers: ['memoryd'],
    body: EmbedMemories,
    output: EmbedResponse,
    bodySizeBytesMax,
  }),
  listModels: route({
    method: 'GET',
    path: '/v1/models',
    callers: ['run', 'operator', 'agentd'],
    output: z.object({
      models: z.array(ModelView),
      providers: z.array(ProviderView),
      aliases: z.array(AliasView),
    }),
  }),
  /** Lets a name, or those that a pattern fits, stand for a model; null removes it. */
  setAlias: route({
    method: 'PUT',
    path: '/v1/models/aliases',
    callers: ['operator'],
    body: z.strictObject({ pattern: AliasPattern, model: z.string().min(1).max(128).nullable() }),
    output: z.object({ aliases: z.array(AliasView) }),
  }),
  watchLive: liveRoute('/v1/models/live'),
  usage: route({
    method: 'GET',
    path: '/v1/models/usage',
    callers: ['operator', 'agentd'],
    query: z.strictObject({
      agent: z.string().optional(),
      task_id: TaskId.optional(),
      since: Timestamp.optional(),
      by: UsageBy.optional(),
    }),
    output: z.object({
      rows: z.array(UsageRow),
      total: z.object({ calls: z.int(), usage: Usage, cost_microusd: z.int() }),
      /** With `by`, the most expensive first. */
      groups: z.array(UsageGroup).optional(),
      /** By task, when there are too many calls: the groups have those after this time. */
      groups_after: Timestamp.optional(),
    }),
  }),
  listBudgets: route({
    method: 'GET',
    path: '/v1/models/budgets',
    callers: ['operator'],
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
      /** Only of keys and people; the others have a period of their own. */
      period: BudgetPeriod.optional(),
    }),
    output: z.object({ budget: BudgetView }),
  }),
  testModel: route({
    method: 'POST',
    path: '/v1/models/test',
    callers: ['operator'],
    body: z.strictObject({ name: z.string().min(1).max(128) }),
    output: ModelTest,
    streams: true,
  }),
  listCalls: route({
    method: 'GET',
    path: '/v1/models/calls',
    callers: ['operator', 'agentd'],
    query: z.strictObject({
      ...pageQuery(100),
      run_id: RunId.optional(),
      task_id: TaskId.optional(),
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
      /** The request without its messages: tools, limits. */
      params: z.unknown(),
      response: z.unknown(),
    }),
  }),
  /** Deletes the body of one context part everywhere; it then reads [forgotten]. */
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
      dialect: DialectName,
      base_url: z.url().max(500),
      key: z.string().max(10_000).optional(),
      models: z.array(z.string().max(128)).max(64).optional(),
      /** The price of all its models; zero for a free one. If absent, the price is kept. */
      price: ProviderPrice.optional(),
    }),
    output: z.object({ provider: ProviderView }),
  }),
  /** Removes a provider that was added, with its key; or only this model of it. */
  removeProvider: route({
    method: 'DELETE',
    path: '/v1/models/providers/{name}',
    callers: ['operator'],
    params: z.strictObject({ name: z.string().regex(/^[a-z][a-z0-9-]{0,31}$/) }),
    query: z.strictObject({ model: z.string().min(1).max(128).optional() }),
    /** Null when it was removed. */
    output: z.object({ provider: ProviderView.nullable() }),
  }),
  // The vendors' dialects, for unmodified SDKs.
  openaiChat: route({
    method: 'POST',
    path: '/openai/v1/chat/completions',
    callers: ['run', 'operator', 'key:models'],
    query: z.looseObject({}),
    body: z.looseObject({}),
    isPlainBody: isObject,
    output: z.unknown(),
    streams: true,
    bodySizeBytesMax: VENDOR_BODY_BYTES_MAX,
    dialect: 'openai',
  }),
  openaiResponses: route({
    method: 'POST',
    path: '/openai/v1/responses',
    callers: ['run', 'operator', 'key:models'],
    query: z.looseObject({}),
    body: z.looseObject({}),
    isPlainBody: isObject,
    output: z.unknown(),
    streams: true,
    bodySizeBytesMax: VENDOR_BODY_BYTES_MAX,
    dialect: 'openai',
  }),
  openaiEmbeddings: route({
    method: 'POST',
    path: '/openai/v1/embeddings',
    callers: ['run', 'operator', 'key:models'],
    query: z.looseObject({}),
    body: z.looseObject({}),
    isPlainBody: isObject,
    output: z.unknown(),
    bodySizeBytesMax,
    dialect: 'openai',
  }),
  openaiModels: route({
    method: 'GET',
    path: '/openai/v1/models',
    callers: ['run', 'operator', 'key:models'],
    query: z.looseObject({}),
    output: z.unknown(),
    dialect: 'openai',
  }),
  openaiModel: route({
    method: 'GET',
    path: '/openai/v1/models/{id}',
    callers: ['run', 'operator', 'key:models'],
    params: z.strictObject({ id: z.string().min(1).max(128) }),
    query: z.looseObject({}),
    output: z.unknown(),
    dialect: 'openai',
  }),
  anthropicMessages: route({
    method: 'POST',
    path: '/anthropic/v1/messages',
    callers: ['run', 'operator', 'key:models'],
    query: z.looseObject({}),
    headers: ANTHROPIC_HEADERS,
    body: z.looseObject({}),
    isPlainBody: isObject,
    output: z.unknown(),
    streams: true,
    bodySizeBytesMax: VENDOR_BODY_BYTES_MAX,
    dialect: 'anthropic',
  }),
  /** The provider's count, which is free; an estimate where the provider has none. */
  anthropicCountTokens: route({
    method: 'POST',
    path: '/anthropic/v1/messages/count_tokens',
    callers: ['run', 'operator', 'key:models'],
    query: z.looseObject({}),
    headers: ANTHROPIC_HEADERS,
    body: z.looseObject({}),
    isPlainBody: isObject,
    output: z.unknown(),
    bodySizeBytesMax: VENDOR_BODY_BYTES_MAX,
    dialect: 'anthropic',
  }),
  anthropicModels: route({
    method: 'GET',
    path: '/anthropic/v1/models',
    callers: ['run', 'operator', 'key:models'],
    query: z.looseObject({}),
    output: z.unknown(),
    dialect: 'anthropic',
  }),
  anthropicModel: route({
    method: 'GET',
    path: '/anthropic/v1/models/{id}',
    callers: ['run', 'operator', 'key:models'],
    params: z.strictObject({ id: z.string().min(1).max(128) }),
    query: z.looseObject({}),
    output: z.unknown(),
    dialect: 'anthropic',
  }),
  prune: pruneRoute('/v1/models/prune'),
  eraseCopies: eraseCopiesRoute('/v1/models/copies/erase'),
  /** Removes messages, parameters and responses; the calls and their usage stay. */
  pruneContexts: route({
    method: 'POST',
    path: '/v1/models/contexts/prune',
    callers: ['agentd'],
    body: PruneBody.extend({
      /** Answers the same, and removes nothing. */
      dry_run: z.boolean().optional(),
    }),
    output: PruneAnswer,
  }),
  /** Removes calls that people made before this time. `left` when there are more. */
  prunePeoplesCalls: route({
    method: 'POST',
    path: '/v1/models/calls/prune',
    callers: ['agentd'],
    body: z.strictObject({ before: Timestamp, limit: z.int().min(1).max(1_000) }),
    output: PruneAnswer,
  }),
  /** Ended runs whose contexts are still there, oldest first, after this one. */
  listContexts: route({
    method: 'GET',
    path: '/v1/models/contexts',
    callers: ['agentd'],
    query: z.strictObject({
      after: RunId.optional(),
      limit: z.coerce.number().int().min(1).max(1_000),
    }),
    output: z.object({ run_ids: z.array(RunId) }),
  }),
  contextSizes: route({
    method: 'GET',
    path: '/v1/models/contexts/sizes',
    callers: ['agentd'],
    output: z.object({
      sizes: z.array(z.object({ agent: z.string(), parts: z.int(), bytes: z.int() })),
    }),
  }),
  expireTombstones: expireRoute('/v1/models/tombstones/expire'),
  ...keyRoutes,
  ...admissionRoutes(AdmitModelRunBody),
});
