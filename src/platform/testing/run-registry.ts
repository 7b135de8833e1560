// Test helper for the run registry: a disk that outlives its processes, and a registry on it.
import type { RunAdmission } from '../../wire/admission.ts';
import type { RunId, TaskId } from '../../wire/primitives.ts';
import { isFault, type RunSockets } from '../daemon.ts';
import { deriveId } from '../ids.ts';
import { silentLog } from '../log.ts';
import { makeRunRegistry, type RunRows } from '../run-registry.ts';
import type { Database, Sql } from '../sql/database.ts';

export type Mode = RunAdmission['mode'];
export const RUN = deriveId<RunId>('run', 'one');
export const TASK = deriveId<TaskId>('task', 'one');

export const admission = (fence: number, mode: Mode = 'live'): RunAdmission => ({
  fence,
  mode,
  agent: 'coder',
  task_id: TASK,
  root_task_id: TASK,
  labels: [],
});

export const isStale = (error: unknown): boolean => isFault(error, 'stale_fence');

export async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}

export type State = Map<RunId, { fence: number; isLive: boolean; admission: RunAdmission }>;

/** The disk outlives a process; a killed process loses what it had not committed. */
export function makeDisk(delays: () => number = () => 0) {
  let state: State = new Map();
  const stateIn = (sql: Sql): State => (sql as unknown as { state: State }).state;
  const rows: RunRows<RunAdmission> = {
    read: async (sql, runId) => stateIn(sql).get(runId),
    save: async (sql, runId, saved) => {
      stateIn(sql).set(runId, { fence: saved.fence, isLive: true, admission: saved });
    },
    end: async (sql, runId, fence) => {
      stateIn(sql).set(runId, { fence, isLive: false, admission: admission(fence) });
    },
    live: async (sql) =>
      [...stateIn(sql)].flatMap(([runId, row]) =>
        row.isLive ? [{ runId, admission: row.admission }] : [],
      ),
  };
  const open = () => {
    let isDead = false;
    let last: Promise<unknown> = Promise.resolve();
    const died = new Promise<never>(() => {});
    const transact = async <T>(work: (sql: Sql) => Promise<T>, isWrite: boolean): Promise<T> => {
      await turns(delays());
      if (isDead) return died;
      const copy: State = new Map(state);
      const value = await work({ state: copy } as unknown as Sql);
      if (isDead) return died;
      if (isWrite) state = copy;
      await turns(delays());
      return isDead ? died : value;
    };
    const db: Database = {
      write(work) {
        const next = last.then(
          () => transact(work, true),
          () => transact(work, true),
        );
        last = next;
        return next;
      },
      read: (work) => transact(work, false),
      close: async () => {},
    };
    const kill = (): void => {
      isDead = true;
    };
    return { db, kill, isDead: () => isDead };
  };
  return { rows, open, row: () => state.get(RUN) };
}

export type TestDisk = ReturnType<typeof makeDisk>;

export function start(
  disk: TestDisk,
  more: { load?: () => Promise<void>; open?: RunSockets['open'] } = {},
) {
  const { db, kill, isDead } = disk.open();
  const seen: string[] = [];
  const sockets: RunSockets = {
    open: async (caller) => {
      if (isDead()) return new Promise<never>(() => {});
      seen.push(`open ${caller.mode} ${caller.fence}`);
      return (await more.open?.(caller)) ?? `/run/${caller.fence}`;
    },
    close: async (_runId, fence, mode = 'live') => {
      seen.push(`close ${mode} ${fence}`);
    },
    sweep: () => {},
  };
  const registry = makeRunRegistry<RunAdmission, { loaded: number }>({
    db,
    rows: disk.rows,
    sockets,
    log: silentLog,
    async load(_runId, { fence }, before) {
      seen.push(`load ${fence} after ${before?.fence ?? 'none'}`);
      await more.load?.();
      return { loaded: fence };
    },
    ended: ({ fence, ended }, how) => seen.push(`${how} ${fence} ${ended?.code}`),
    closed: async ({ fence }) => {
      seen.push(`closed ${fence}`);
    },
  });
  return {
    registry,
    kill,
    seen,
    admit: (fence: number, mode?: Mode) => registry.admit(RUN, admission(fence, mode)),
    dismiss: (fence: number) => registry.dismiss(RUN, fence),
    call: (fence: number, mode: Mode = 'live') => registry.current({ runId: RUN, fence, mode }),
  };
}
