// Makes the tables again from the journal, once at a time, and refuses other requests meanwhile.
import type { Handlers } from '../../../platform/dispatch.ts';
import type { Mutex } from '../../../platform/mutex.ts';
import { fault } from '../../../wire/errors.ts';
import type { memorydRoutes } from '../../../wire/memoryd.ts';
import { type CatchUpDeps, type CaughtUp, rebuild } from '../store/catch-up.ts';
import { assertTables, type TablesGate } from '../store/commit.ts';

export function makeRebuild(
  deps: CatchUpDeps & {
    gate: TablesGate;
    /** Held while the files of the journal are read. */
    filesLock: Mutex;
    publishProcedures(): Promise<void>;
  },
): () => Promise<CaughtUp> {
  let isRunning = false;
  return async () => {
    if (isRunning) throw fault('conflict', 'a rebuild is running');
    isRunning = true;
    try {
      return await deps.filesLock(async () => {
        const done = await rebuild(deps);
        await deps.publishProcedures();
        return done;
      });
    } finally {
      isRunning = false;
    }
  };
}

type MemoryHandlers = Handlers<typeof memorydRoutes>;

/** Only a rebuild itself is served while the tables are incomplete. */
export function refuseWhileClosed(gate: TablesGate, handlers: MemoryHandlers): MemoryHandlers {
  const guarded = Object.entries(handlers).map(([name, handler]) => [
    name,
    name === 'rebuildMemory'
      ? handler
      : async (context: never) => {
          assertTables(gate);
          return (handler as (context: never) => Promise<unknown>)(context);
        },
  ]);
  return Object.fromEntries(guarded) as MemoryHandlers;
}
