// Keeps the runs that may call a daemon: agentd admits each under a fence, with its own socket. The
// highest fence of a run is durable, and a call under any other is refused.
import type { RunAdmission } from '../wire/admission.ts';
import type { RunCaller } from '../wire/caller.ts';
import { type Fault, fault } from '../wire/errors.ts';
import type { RunId, TaskId } from '../wire/primitives.ts';
import type { RunSockets } from './daemon.ts';
import type { Log } from './log.ts';
import { makeKeyedMutex } from './mutex.ts';
import type { Database, Sql } from './sql/database.ts';

/** One activation of a run, as admitted. */
export type AdmittedRun = {
  runId: RunId;
  fence: number;
  mode: 'live' | 'replay';
  agent: string;
  taskId: TaskId;
  rootTaskId: TaskId;
  isProgram: boolean;
  /** The socket's path; empty until it is open. */
  socket: string;
  /** Set when the activation is over. A call that had to wait checks it before it has an effect. */
  ended: Fault | undefined;
};

/** Stores the registry's rows in the daemon's tables. Only the registry compares fences. */
export type RunRows<A> = {
  /** The highest fence that was admitted or dismissed, and whether that activation is live. */
  read(sql: Sql, runId: RunId): Promise<{ fence: number; isLive: boolean } | undefined>;
  /** Saves this as the live activation. */
  save(sql: Sql, runId: RunId, admission: A): Promise<void>;
  /** Saves this fence as the highest, with no live activation; the run may be unknown. */
  end(sql: Sql, runId: RunId, fence: number): Promise<void>;
  live(sql: Sql): Promise<{ runId: RunId; admission: A }[]>;
};

export type RunRegistry<A, R> = {
  /** Resolves to the socket's path. Throws stale_fence unless the fence is the highest so far. */
  admit(runId: RunId, admission: A): Promise<string>;
  /** Ends every activation up to this fence; resolves to whether there was one. */
  dismiss(runId: RunId, fence: number): Promise<boolean>;
  /** The activation of this caller; throws stale_fence when it is over. */
  current(caller: Pick<RunCaller, 'runId' | 'fence' | 'mode'>): R;
  /** The live activation of a run. */
  find(runId: RunId): R | undefined;
  /** The live activations of all runs. */
  listLive(): R[];
  /** Like find; throws stale_fence when there is none. */
  live(runId: RunId): R;
  /** The live activation and the replay of a run, as far as there are any. */
  activations(runId: RunId): R[];
  /** Runs work while no activation of the run is admitted or dismissed. */
  locked<T>(runId: RunId, work: () => Promise<T>): Promise<T>;
  /** After a restart: opens the sockets of live runs, so that their runners can reconnect. */
  reopen(): Promise<void>;
};

export type RunHooks<A, K> = {
  /** Loads what the daemon keeps for an activation; `before` is the one it replaces. */
  load(runId: RunId, admission: A, before: (AdmittedRun & K) | undefined): K | Promise<K>;
  /** An activation is over: its calls are refused. One can be replaced and then dismissed. */
  ended(run: AdmittedRun & K, how: 'replaced' | 'dismissed'): void;
  /** The socket of a dismissed activation is closed. */
  closed?(run: AdmittedRun & K): Promise<void>;
};

/** Fences of activations start at 1. */
const NEVER_ADMITTED = { fence: 0, isLive: false };

export function makeRunRegistry<A extends RunAdmission, K extends object>(
  options: { db: Database; rows: RunRows<A>; sockets: RunSockets; log: Log } & RunHooks<A, K>,
): RunRegistry<A, AdmittedRun & K> {
  type Run = AdmittedRun & K;
  const { db, rows, sockets, log } = options;
  const runs = { live: new Map<RunId, Run>(), replay: new Map<RunId, Run>() };
  /** Serializes, for each run, admissions, dismissals and the closing of sockets. */
  const locked = makeKeyedMutex();

  /** Durable before the activation can call: after a crash no older one is accepted again. */
  const accept = async (sql: Sql, runId: RunId, admission: A): Promise<void> => {
    const { fence, mode } = admission;
    const { fence: highest, isLive } = (await rows.read(sql, runId)) ?? NEVER_ADMITTED;
    // A replay has no effects; it repeats the fence of the activation it replays.
    const isOver = fence === highest && !isLive && mode === 'live';
    if (fence < highest || isOver) throw staleFault({ runId, fence }, highest);
    if (fence > highest && mode === 'live') await rows.save(sql, runId, admission);
  };

  const end = (run: Run, how: 'replaced' | 'dismissed', by: Fault): void => {
    run.ended ??= by;
    options.ended(run, how);
  };

  const activate = async (runId: RunId, admission: A): Promise<string> => {
    const { fence, mode } = admission;
    const before = runs[mode].get(runId);
    if (before !== undefined && before.fence > fence)
      throw staleFault({ runId, fence }, before.fence);
    // An equal fence is the same admission once more.
    const run = before?.fence === fence ? before : await replace(runId, admission, before);
    if (run.socket === '') run.socket = await sockets.open(toCaller(run));
    return run.socket;
  };

  const replace = async (runId: RunId, admission: A, before: Run | undefined): Promise<Run> => {
    const { fence, mode, agent, task_id: taskId, root_task_id: rootTaskId } = admission;
    // Refused from here on, even if what follows fails.
    if (before !== undefined) end(before, 'replaced', staleFault(before, fence));
    const kept = await options.load(runId, admission, before);
    const isProgram = admission.is_program === true;
    const own = { runId, fence, mode, agent, taskId, rootTaskId, isProgram };
    const base = { ...own, socket: '', ended: undefined };
    const run: Run = { ...kept, ...base };
    runs[mode].set(runId, run);
    return run;
  };

  const activations = (runId: RunId): Run[] =>
    [runs.live, runs.replay].flatMap((all) => all.get(runId) ?? []);

  /** Removes the activations up to this fence. */
  const evict = (runId: RunId, fence: number): Run[] => {
    const evicted = activations(runId).filter((run) => run.fence <= fence);
    for (const run of evicted) {
      runs[run.mode].delete(runId);
      end(run, 'dismissed', fault('canceled', `${runId} was dismissed`));
    }
    return evicted;
  };

  const endRow = (runId: RunId, fence: number): Promise<boolean> =>
    db.write(async (sql) => {
      const { fence: highest, isLive } = (await rows.read(sql, runId)) ?? NEVER_ADMITTED;
      if (fence < highest || (fence === highest && !isLive)) return false;
      // Also of a run that is unknown here: its admission may still be on the way.
      await rows.end(sql, runId, fence);
      return isLive;
    });

  /** Not awaited by a dismissal: it may come from a call that the closing socket waits for. */
  const closeSockets = (runId: RunId, fence: number, evicted: readonly Run[]): void => {
    const work = async (): Promise<void> => {
      // An activation that is not in memory may have left its directory.
      if (evicted.length === 0) await sockets.close(runId, fence);
      for (const run of evicted) {
        if (!runs[run.mode].has(runId)) await sockets.close(runId, run.fence, run.mode);
        await options.closed?.(run);
      }
    };
    locked(runId, work).catch((error: unknown) =>
      log.warn('closing the socket of a run failed', { run: runId, error }),
    );
  };

  return {
    admit: (runId, admission) =>
      locked(runId, async () => {
        const work = (sql: Sql) => accept(sql, runId, admission);
        await (admission.mode === 'live' ? db.write(work) : db.read(work));
        return activate(runId, admission);
      }),

    dismiss(runId, fence) {
      // Takes effect at once, and again below for an admission that is in progress.
      const early = evict(runId, fence);
      return locked(runId, async () => {
        const evicted = [...early, ...evict(runId, fence)];
        closeSockets(runId, fence, evicted);
        return (await endRow(runId, fence)) || evicted.length > 0;
      });
    },

    current(caller) {
      const run = runs[caller.mode].get(caller.runId);
      if (run?.fence === caller.fence && run.ended === undefined) return run;
      throw staleFault(caller, run?.fence);
    },

    find: (runId) => runs.live.get(runId),
    listLive: () => [...runs.live.values()],

    live(runId) {
      const run = runs.live.get(runId);
      if (run !== undefined && run.ended === undefined) return run;
      throw run?.ended ?? fault('stale_fence', `${runId} was dismissed`);
    },

    activations,
    locked,

    async reopen() {
      for (const { runId, admission } of await db.read((sql) => rows.live(sql)))
        await locked(runId, async () => {
          // It may have been admitted anew or dismissed since the rows were read.
          const last = await db.read((sql) => rows.read(sql, runId));
          const isLive = last?.isLive === true && last.fence === admission.fence;
          if (isLive && !runs.live.has(runId)) await activate(runId, admission);
        });
    },
  };
}

function toCaller(run: AdmittedRun): RunCaller {
  const { runId, fence, mode, agent, taskId, isProgram } = run;
  const caller = { runId, fence, mode, agent, taskId, ...(isProgram ? { isProgram } : {}) };
  return { kind: 'run', principal: `agent:${agent}`, ...caller };
}

function staleFault({ runId, fence }: { runId: string; fence: number }, last = 0): Fault {
  const why = last > fence ? `activation ${last} replaced it` : 'it was dismissed';
  return fault('stale_fence', `activation ${fence} of ${runId} is over: ${why}`);
}
