// Makes embeddings: vectors that the same model has made before come from the store, and only the
// other texts go to the provider.
import type { NewId } from '../../../platform/ids.ts';
import { sha256Hex } from '../../../platform/json.ts';
import type { Database } from '../../../platform/sql/database.ts';
import { assertCallOfRun } from '../../../wire/call-id.ts';
import type { Caller } from '../../../wire/caller.ts';
import { fault } from '../../../wire/errors.ts';
import type { EmbedRequest, EmbedResponse } from '../../../wire/modeld.ts';
import type { CallId } from '../../../wire/primitives.ts';
import { NO_USAGE } from '../rules/budget.ts';
import type { EmbedInput } from '../rules/client-embeddings.ts';
import { REHEARSAL } from '../rules/models.ts';
import { readAttempts } from '../store/calls.ts';
import { findVectors, writeVectors } from '../store/embeddings.ts';
import type { ModelCalls } from './calls.ts';
import { makeEmbedContext } from './context.ts';
import type { CallDeadline } from './generate.ts';
import type { LabeledRoute, ModelCall } from './model-call.ts';
import type { Providers } from './providers.ts';
import { identify, type ModelRuns } from './runs.ts';

/** Vectors of different models do not compare, so only routes to the first model are used. */
export function filterSameModel(routes: readonly LabeledRoute[]): LabeledRoute[] {
  return routes.filter((route) => route.model === routes[0]!.model);
}

/** As a run or an operator asks; clients of OpenAI may also ask for tokens and dimensions. */
export type EmbedQuery = Omit<EmbedRequest, 'input'> & {
  input: EmbedInput[];
  dimensions?: number | undefined;
};

export function makeEmbed(parts: {
  calls: ModelCalls;
  runs: ModelRuns;
  providers: Providers;
  db: Database;
  newId: NewId;
}) {
  const { calls, runs, providers, db, newId } = parts;
  const inFlight = new Set<string>();

  const ask = async (call: Omit<ModelCall, 'attempt'>, isNamed: boolean) => {
    const { callId } = call;
    if (inFlight.has(callId))
      throw fault('conflict', `${callId} is already running`, { retryAfterMs: 100 });
    inFlight.add(callId);
    try {
      const before = isNamed ? await db.read((sql) => readAttempts(sql, callId)) : [];
      const answered = await calls.perform({ ...call, attempt: before.length + 1 });
      return { answered, ...(await answered.finished) };
    } finally {
      inFlight.delete(callId);
    }
  };

  return async function embed(
    caller: Caller,
    request: EmbedQuery,
    patience: CallDeadline,
  ): Promise<EmbedResponse> {
    const identity = identify(runs, caller, { agent: request.agent, taskId: request.task_id });
    if (identity.runId !== null && request.call_id !== undefined)
      assertCallOfRun(identity.runId, request.call_id);
    const { dimensions } = request;
    const { model, routes: all } = providers.resolve(request.model, 'embedding');
    const routes = filterSameModel(all);
    const hashes = request.input.map((item) => hashInput(item, dimensions));
    const first = routes[0]!;
    const found = await db.read((sql) => findVectors(sql, first.model, hashes));
    // A text that is in the request twice is embedded once.
    const missing = new Map<string, EmbedInput>();
    found.forEach((vector, i) => {
      if (vector === undefined) missing.set(hashes[i]!, request.input[i]!);
    });
    const input = [...missing.values()];
    const { principal: source, labels } = identity;
    const callId = request.call_id ?? newId<CallId>('call');
    const call = {
      identity,
      via: 'embed',
      callId,
      model,
      routes,
      purpose: request.purpose ?? '',
      context: makeEmbedContext(input, { model: request.model, source, labels, dimensions }),
      input: { form: 'embed', input, dimensions },
      inputTokensMax: undefined,
      ...patience,
      isReplayed: false,
    } as const;
    const response = { call_id: callId, rehearsal: model.rehearsal };
    if (missing.size === 0) {
      await calls.assertMayCall({ ...call, attempt: 1 });
      const embeddings = found as number[][];
      const by = { model: first.model, provider: first.provider };
      return { ...response, ...by, embeddings, usage: NO_USAGE, cost_microusd: 0, recorded: true };
    }
    if (identity.mode === 'replay')
      throw fault('replay_differs', `${callId}: these texts were not embedded in the recorded run`);
    const isNamed = request.call_id !== undefined;
    const { answered, ended, costMicrousd } = await ask(call, isNamed);
    const { route, output } = answered;
    if (output.type !== 'embeddings')
      throw new Error(`unexpected output of an embedding call: ${output.type}`);
    const made = [...missing.keys()].map((hash, i) => ({ hash, vector: output.embeddings[i]! }));
    await db.write((sql) => writeVectors(sql, first.model, made));
    const fresh = new Map(made.map(({ hash, vector }) => [hash, vector]));
    return {
      ...response,
      model: route.model,
      provider: route.provider,
      rehearsal: route.provider === REHEARSAL,
      embeddings: hashes.map((hash, i) => found[i] ?? fresh.get(hash)!),
      usage: ended.response.usage,
      cost_microusd: costMicrousd,
      recorded: false,
    };
  };
}

/** A text without further wishes has its own hash; the suffix keeps others apart from it. */
function hashInput(item: EmbedInput, dimensions: number | undefined): string {
  if (typeof item === 'string' && dimensions === undefined) return sha256Hex(item);
  return `${sha256Hex(JSON.stringify([item, dimensions ?? null]))}+`;
}

export type Embed = ReturnType<typeof makeEmbed>;
