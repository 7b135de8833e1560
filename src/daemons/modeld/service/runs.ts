// The runs that may call: what agentd admitted, under which fence, within which limits, and their
// sockets. The highest fence is durable; a dismissal ends the calls that are under way.
import type { RunSockets } from '../../../platform/daemon.ts';
import type { Log } from '../../../platform/log.ts';
import type { Database } from '../../../platform/sql/database.ts';
import { makeTurns } from '../../../platform/turns.ts';
import type { PolicySource } from '../../../policy/source.ts';
import type { RunCaller } from '../../../wire/caller.ts';
import { fault } from '../../../wire/errors.ts';
import type { AdmitRunBody } from '../../../wire/modeld.ts';
import type { Label, RunId } from '../../../wire/words.ts';
import type { Budgets } from '../budgets.ts';
import { type BudgetKey, budgetKey } from '../rules/budget.ts';
import { fromMask, toMask } from '../rules/labels.ts';
import { countSteps } from '../store/calls.ts';
import type { Journal } from '../store/journal.ts';
import {
  addRunLabels,
  admitRun,
  admittedRuns,
  dismissRun,
  readLimit,
  readRunLabels,
  readSpent,
} from '../store/settings.ts';

export type Run = {
  id: RunId;
  body: AdmitRunBody;
  /** Those it was admitted with and those that came later. */
  labels: number;
  /** Model calls it has made, over all its activations. */
  steps: number;
  /** Its task budgets, held in memory while it is admitted. */
  budgets: BudgetKey[];
  underWay: Set<AbortController>;
  socket: string;
};

export type Runs = {
  admit(id: RunId, body: AdmitRunBody): Promise<string>;
  dismiss(id: RunId, fence: number): Promise<boolean>;
  /** From now on, and for every activation to come; gives all its labels. */
  mark(id: RunId, labels: readonly Label[]): Promise<Label[]>;
  /** The run of this caller, or a fault when its activation is over. */
  of(caller: RunCaller): Run;
  /** After a restart: the sockets of runs that were live, so that their runners find us again. */
  reopen(): Promise<void>;
};

export function makeRuns(options: {
  db: Database;
  budgets: Budgets;
  sockets: RunSockets;
  journal: Journal;
  policy: Pick<PolicySource, 'warm'>;
  log: Log;
}): Runs {
  const { db, budgets, sockets, journal, policy, log } = options;
  const notClosed = (id: RunId) => (error: unknown) =>
    log.warn('the socket of a run could not be closed', { run: id, error });
  const live = new Map<string, Run>();
  const replays = new Map<string, Run>();
  const placeOf = (mode: 'live' | 'replay') => (mode === 'live' ? live : replays);

  /** Admitting and dismissing one run never overlap: one would remove the other's socket. */
  const inTurn = makeTurns();

  const abortCalls = (run: Run, reason: 'canceled' | 'stale_fence'): void => {
    const words = reason === 'canceled' ? 'was dismissed' : 'has a newer activation';
    for (const call of run.underWay) call.abort(fault(reason, `${run.id} ${words}`));
  };

  /**
   * Its task's budgets into memory. Read and taken in one go, so that no spending falls between.
   */
  const loadBudgets = async (body: AdmitRunBody): Promise<BudgetKey[]> => {
    const tasks = [...new Set([body.root_task_id, body.task_id])];
    const keys = tasks.map((task) => budgetKey('task', task, ''));
    await db.read(async (sql) => {
      for (const key of keys) {
        const limit = await readLimit(sql, 'task', key.name);
        if (limit !== undefined) budgets.setLimit(limit);
        if (!budgets.knows(key)) budgets.load(await readSpent(sql, key));
        budgets.hold(key);
      }
    });
    return keys;
  };

  const place = async (id: RunId, body: AdmitRunBody): Promise<string> => {
    const here = placeOf(body.mode);
    const before = here.get(id);
    const isSame = before?.body.fence === body.fence;
    if (before !== undefined && before.body.fence > body.fence)
      throw fault('stale_fence', `${id} has a newer activation (${before.body.fence})`);
    if (before !== undefined && !isSame) abortCalls(before, 'stale_fence');
    const isLive = body.mode === 'live';
    const marks = await db.read((sql) => readRunLabels(sql, id));
    const steps = isLive ? await db.read((sql) => countSteps(sql, id)) : 0;
    const run: Run = {
      id,
      body,
      labels: toMask(body.labels) | marks,
      steps: Math.max(steps, before?.steps ?? 0),
      budgets: isLive ? await loadBudgets(body) : [],
      underWay: isSame ? before.underWay : new Set(),
      socket: isSame ? before.socket : '',
    };
    // Before the new socket is there: from now on the old activation is refused.
    here.set(id, run);
    if (before !== undefined) budgets.release(before.budgets);
    if (run.socket === '') run.socket = await sockets.open(callerOf(run));
    return run.socket;
  };

  const close = async (run: Run): Promise<void> => {
    await sockets.close(run.id, run.body.fence, run.body.mode);
    budgets.release(run.budgets);
    await journal.flush();
    if (journal.isIdle()) budgets.sweep();
  };

  return {
    admit: (id, body) =>
      inTurn(id, async () => {
        // Its runner is being started: the first call shall not wait for policy to be read.
        if (body.mode === 'live') void policy.warm();
        if (body.mode === 'live') await db.write((sql) => admitRun(sql, id, body));
        return place(id, body);
      }),

    async dismiss(id, fence) {
      let dismissed = false;
      for (const here of [live, replays]) {
        const run = here.get(id);
        if (run === undefined || run.body.fence > fence) continue;
        here.delete(id);
        dismissed = true;
        abortCalls(run, 'canceled');
        // Nobody waits for this: a call under way may hold its connection for a moment.
        void inTurn(id, async () => {
          if (!here.has(id)) await close(run);
        }).catch(notClosed(id));
      }
      // One that was not held here any more may have left its directory.
      if (!dismissed) void sockets.close(id, fence).catch(notClosed(id));
      return (await db.write((sql) => dismissRun(sql, id, fence))) || dismissed;
    },

    mark: (id, labels) =>
      inTurn(id, async () => {
        const mask = toMask(labels);
        const placed = [live, replays].flatMap((here) => here.get(id) ?? []);
        for (const run of placed) run.labels |= mask;
        await db.write((sql) => addRunLabels(sql, id, mask));
        const known = await db.read((sql) => readRunLabels(sql, id));
        return fromMask(placed.reduce((all, run) => all | run.labels, known));
      }),

    of(caller) {
      const run = placeOf(caller.mode).get(caller.runId);
      if (run !== undefined && run.body.fence === caller.fence) return run;
      const now = run === undefined ? 'it was dismissed' : `${run.body.fence} holds it now`;
      throw fault('stale_fence', `activation ${caller.fence} of ${caller.runId} is over: ${now}`);
    },

    async reopen() {
      for (const { runId, body } of await db.read(admittedRuns)) {
        const id = runId as RunId;
        await inTurn(id, async () => {
          if (!live.has(id)) await place(id, body);
        });
      }
    },
  };
}

function callerOf({ id, body }: Run): RunCaller {
  return {
    kind: 'run',
    principal: `agent:${body.agent}`,
    runId: id,
    fence: body.fence,
    mode: body.mode,
    agent: body.agent,
    taskId: body.task_id,
  };
}
