// Makes vectors of memories and of questions about them, for memoryd. Charged to whoever wrote or
// asks and, also after it has ended, to the budgets of the run. Unlike embeddings of other callers
// they are not cached: an answer from a cache would show to others that a text is remembered.
import type { NewId } from '../../../platform/ids.ts';
import type { Database, Sql } from '../../../platform/sql/database.ts';
import type { EmbedMemories, EmbedResponse } from '../../../wire/modeld.ts';
import type { CallId, RunId, TaskId } from '../../../wire/primitives.ts';
import { readPerson } from '../rules/budget.ts';
import { toMask } from '../rules/labels.ts';
import { REHEARSAL } from '../rules/models.ts';
import { findRunOfCalls, type RunOfCalls } from '../store/calls.ts';
import type { ModelCalls } from './calls.ts';
import { makeMemoryContext } from './context.ts';
import { filterSameModel } from './embed.ts';
import type { CallDeadline } from './generate.ts';
import type { Providers } from './providers.ts';
import type { CallerIdentity, ModelRuns } from './runs.ts';

const PURPOSE = 'memory';

export function makeEmbedMemories(parts: {
  calls: Pick<ModelCalls, 'perform'>;
  runs: Pick<ModelRuns, 'whileBudgeted'>;
  providers: Providers;
  db: Database;
  newId: NewId;
}) {
  const { calls, runs, providers, db, newId } = parts;

  const embed = async (
    { model: name, input }: EmbedMemories,
    identity: CallerIdentity,
    patience: CallDeadline,
  ): Promise<EmbedResponse> => {
    providers.assertOffered(name);
    const { model, routes } = providers.resolve(name, 'embedding');
    const { principal: source, labels } = identity;
    const callId = newId<CallId>('call');
    const answered = await calls.perform({
      identity,
      via: 'embed',
      callId,
      attempt: 1,
      model,
      routes: filterSameModel(routes),
      purpose: PURPOSE,
      context: makeMemoryContext(input, { model: name, source, labels }),
      input: { form: 'embed', input: input.map(({ text }) => text) },
      inputTokensMax: undefined,
      ...patience,
      isReplayed: false,
    });
    const { ended, costMicrousd } = await answered.finished;
    const { route, output } = answered;
    if (output.type !== 'embeddings')
      throw new Error(`unexpected output of an embedding call: ${output.type}`);
    return {
      call_id: callId,
      model: route.model,
      provider: route.provider,
      rehearsal: route.provider === REHEARSAL,
      embeddings: output.embeddings,
      usage: ended.response.usage,
      cost_microusd: costMicrousd,
      recorded: false,
    };
  };

  return async (request: EmbedMemories, patience: CallDeadline): Promise<EmbedResponse> => {
    const run = await db.read((sql) => findRun(sql, request.run_id));
    const identity = identifyPayer(request, run);
    if (run === undefined) return embed(request, identity, patience);
    const tasks = { task_id: run.task_id as TaskId, root_task_id: run.root_task_id as TaskId };
    return runs.whileBudgeted(tasks, () => embed(request, identity, patience));
  };
}

/** Undefined for one that was pruned, or never called a model: the site alone pays. */
const findRun = async (sql: Sql, runId: RunId | undefined): Promise<RunOfCalls | undefined> =>
  runId === undefined ? undefined : findRunOfCalls(sql, runId);

const identifyPayer = (
  { principal, labels }: EmbedMemories,
  run: RunOfCalls | undefined,
): CallerIdentity => ({
  principal,
  agent: run?.agent ?? (principal.startsWith('agent:') ? principal.slice('agent:'.length) : ''),
  runId: run?.run_id ?? null,
  fence: null,
  taskId: run?.task_id ?? null,
  rootTaskId: run?.root_task_id ?? null,
  labels: toMask(labels),
  mode: 'live',
  run: undefined,
  owner: readPerson(principal),
});
