// Holds the admitted runs with their limits, labels and budgets, and identifies callers: a run acts
// for its agent and task, an operator only claims them for the record.
import type { RunSockets } from '../../../platform/daemon.ts';
import type { Log } from '../../../platform/log.ts';
import {
  type AdmittedRun,
  makeRunRegistry,
  type RunRegistry,
} from '../../../platform/run-registry.ts';
import type { Database } from '../../../platform/sql/database.ts';
import type { PolicySource } from '../../../policy/source.ts';
import type { Caller } from '../../../wire/caller.ts';
import type { AdmitModelRunBody } from '../../../wire/modeld.ts';
import type { Label, RunId } from '../../../wire/primitives.ts';
import type { Budgets } from '../budgets.ts';
import { type BudgetKey, makeBudgetKey, readPerson } from '../rules/budget.ts';
import { fromMask, toMask } from '../rules/labels.ts';
import { countSteps } from '../store/calls.ts';
import type { Journal } from '../store/journal.ts';
import { addRunLabels, readRunLabels, runRows } from '../store/run-rows.ts';
import { readLimit, readSpent } from '../store/settings.ts';
import type { KeyUse } from './api-keys.ts';

export type ModelRun = AdmittedRun & {
  stepsMax: number;
  /** The model of its manifest. */
  model: string;
  /** A person's choice for a program. */
  chosenModel: string | undefined;
  /** From its admission and added since. */
  labels: number;
  /** Model calls made by all its activations. */
  steps: number;
  /** Its task budgets, in memory while it is admitted. */
  budgets: BudgetKey[];
  inFlight: Set<AbortController>;
};

export type ModelRuns = RunRegistry<AdmitModelRunBody, ModelRun> & {
  /** Adds labels for this and later activations. Resolves to all its labels. */
  mark(runId: RunId, labels: readonly Label[]): Promise<Label[]>;
  /** Keeps the budgets of tasks in memory meanwhile, also when no run of them is admitted. */
  whileBudgeted<T>(tasks: BudgetedTasks, work: () => Promise<T>): Promise<T>;
};
type BudgetedTasks = Pick<AdmitModelRunBody, 'task_id' | 'root_task_id'>;

export function makeRuns(options: {
  db: Database;
  budgets: Budgets;
  sockets: RunSockets;
  journal: Journal;
  policy: Pick<PolicySource, 'warm'>;
  log: Log;
}): ModelRuns {
  const { db, budgets, sockets, journal, policy, log } = options;

  /** Loads its task budgets in one read, so that no spending falls in between. */
  const loadBudgets = async (body: BudgetedTasks): Promise<BudgetKey[]> => {
    const tasks = [...new Set([body.root_task_id, body.task_id])];
    const keys = tasks.map((task) => makeBudgetKey('task', task, ''));
    await db.read(async (sql) => {
      for (const key of keys) {
        const limit = await readLimit(sql, 'task', key.name);
        if (limit !== undefined) budgets.setLimit(limit);
        if (!budgets.has(key)) budgets.load(await readSpent(sql, key));
        budgets.hold(key);
      }
    });
    return keys;
  };

  const releaseBudgets = (run: ModelRun): void => {
    budgets.release(run.budgets);
    run.budgets = [];
  };

  const load = async (
    runId: RunId,
    body: AdmitModelRunBody,
    before: ModelRun | undefined,
  ): Promise<Omit<ModelRun, keyof AdmittedRun>> => {
    const isLive = body.mode === 'live';
    const marks = await db.read((sql) => readRunLabels(sql, runId));
    const steps = isLive ? await db.read((sql) => countSteps(sql, runId)) : 0;
    const budgetKeys = isLive ? await loadBudgets(body) : [];
    if (before !== undefined) releaseBudgets(before);
    return {
      stepsMax: body.max_steps,
      model: body.model,
      chosenModel: body.chosen_model,
      labels: toMask(body.labels) | marks | (before?.labels ?? 0),
      steps: Math.max(steps, before?.steps ?? 0),
      budgets: budgetKeys,
      inFlight: new Set(),
    };
  };

  const registry = makeRunRegistry<AdmitModelRunBody, Omit<ModelRun, keyof AdmittedRun>>({
    db,
    rows: runRows,
    sockets,
    log,
    load,
    ended(run) {
      for (const call of run.inFlight) call.abort(run.ended);
    },
    async closed(run) {
      releaseBudgets(run);
      await journal.flush();
      if (journal.isIdle()) budgets.sweep();
    },
  });

  return {
    ...registry,

    admit(runId, body) {
      // Loads policy while the runner starts, so that the first call does not wait for it.
      if (body.mode === 'live') void policy.warm();
      return registry.admit(runId, body);
    },

    async whileBudgeted(tasks, work) {
      const held = await loadBudgets(tasks);
      try {
        return await work();
      } finally {
        budgets.release(held);
      }
    },

    mark: (runId, labels) =>
      registry.locked(runId, async () => {
        const mask = toMask(labels);
        const activations = registry.activations(runId);
        for (const run of activations) run.labels |= mask;
        await db.write((sql) => addRunLabels(sql, runId, mask));
        const known = await db.read((sql) => readRunLabels(sql, runId));
        return fromMask(activations.reduce((all, run) => all | run.labels, known));
      }),
  };
}

export type CallerIdentity = {
  principal: string;
  agent: string;
  runId: string | null;
  fence: number | null;
  taskId: string | null;
  rootTaskId: string | null;
  /** Labels of everything this caller sends. */
  labels: number;
  mode: 'live' | 'replay';
  run: ModelRun | undefined;
  /** The person whose budget pays: the caller, or the owner of its API key. */
  owner: string | null;
  /** The API key of a caller that is a program. */
  key?: KeyUse;
};

export type ClaimedIdentity = { agent?: string | undefined; taskId?: string | undefined };

const PERSON = toMask(['person']);

/** Throws stale_fence when the caller's activation has ended. */
export function identify(
  runs: Pick<ModelRuns, 'current'>,
  caller: Caller,
  claimed: ClaimedIdentity = {},
): CallerIdentity {
  if (caller.kind !== 'run') {
    return {
      principal: caller.principal,
      agent: (claimed.agent ?? '').replace(/^agent:/, ''),
      runId: null,
      fence: null,
      taskId: claimed.taskId ?? null,
      rootTaskId: null,
      labels: PERSON,
      mode: 'live',
      run: undefined,
      owner: caller.kind === 'key' ? caller.owner : readPerson(caller.principal),
      ...(caller.kind === 'key' ? { key: { name: caller.name, secretId: caller.secretId } } : {}),
    };
  }
  const run = runs.current(caller);
  const { runId, fence, agent, taskId, rootTaskId, labels, mode } = run;
  const { principal } = caller;
  return { principal, agent, runId, fence, taskId, rootTaskId, labels, mode, run, owner: null };
}

/** Includes marks added since the caller was identified. */
export const readLabels = ({ labels, run }: CallerIdentity): number => labels | (run?.labels ?? 0);
