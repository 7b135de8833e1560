// Keeps the files of procedural memories up to date, in the background.
import type { Clock } from '../../../platform/clock.ts';
import type { Log } from '../../../platform/log.ts';
import { makeWakeLoop } from '../../../platform/wake-loop.ts';
import type { TablesGate } from '../store/commit.ts';
import { makePublishProcedures, type ProcedureDeps } from './publisher.ts';
import { makeRepository } from './repository.ts';

export type Procedures = {
  /** One of them has changed. */
  onProcedure(): void;
  /** Resolves when the files are what the tables say. */
  publish(): Promise<void>;
  begin(): void;
  stop(): Promise<void>;
};

const BACKOFF_MS = { min: 1_000, max: 60_000 };

export function openProcedures({
  dir,
  gate,
  clock,
  log,
  ...deps
}: Omit<ProcedureDeps, 'repository'> & {
  dir: string;
  gate: TablesGate;
  clock: Clock;
  log: Log;
}): Procedures {
  const publish = makePublishProcedures({ ...deps, repository: makeRepository(dir) });
  let hasBegun = false;
  const loop = makeWakeLoop({
    clock,
    async work() {
      // A rebuild publishes at its end.
      if (gate.isOpen) await publish();
      return undefined;
    },
    backoffMs: BACKOFF_MS,
    onError: (error) => log.warn('writing the files of procedures failed; retrying', { error }),
  });
  return {
    onProcedure() {
      if (hasBegun) loop.wake();
    },
    publish,
    begin() {
      hasBegun = true;
      loop.wake();
    },
    stop: () => loop.stop(),
  };
}
