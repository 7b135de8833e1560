// Lets pruning wait while backups are made. A backup copies databases of one instant, and then the
// files that they refer to: what is removed in between would be missing from it. A backup that is
// not renewed, because its maker died, stops counting.
import type { Clock, Timer } from '../../../platform/clock.ts';

/** A backup is renewed several times within this time. */
export const BACKUP_LEASE_MS = 120_000;
/**
 * A longer step deletes files that were renamed and are no longer referred to; a backup leaves
 * them out.
 */
const STEP_WAIT_MS_MAX = 10_000;

export type BackupPauses = {
  /** Resolves once nothing is being removed; no further step begins before the end. */
  begin(backupId: string): Promise<void>;
  /** Also begins one that is unknown: the runtime was restarted while the backup was made. */
  renew(backupId: string): Promise<void>;
  end(backupId: string): void;
  /** The backups that are being made, oldest first. */
  list(): string[];
  /** Runs a step of pruning when no backup is being made. Rejects if aborted before. */
  step<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T>;
};

export function makeBackupPauses(clock: Clock): BackupPauses {
  const leases = new Map<string, Timer>();
  const steps = new Set<Promise<unknown>>();
  let over = Promise.withResolvers<void>();

  const end = (id: string): void => {
    leases.get(id)?.cancel();
    if (!leases.delete(id) || leases.size > 0) return;
    over.resolve();
    over = Promise.withResolvers();
  };
  const renew = async (id: string): Promise<void> => {
    leases.get(id)?.cancel();
    leases.set(
      id,
      clock.at(clock.nowMs() + BACKUP_LEASE_MS, () => end(id)),
    );
    await Promise.race([Promise.allSettled(steps), waitAtMost(clock, STEP_WAIT_MS_MAX)]);
  };

  return {
    begin: renew,
    renew,
    end,
    list: () => [...leases.keys()],
    async step(work, signal) {
      while (leases.size > 0) await untilAborted(over.promise, signal);
      signal.throwIfAborted();
      const running = work();
      steps.add(running);
      try {
        return await running;
      } finally {
        steps.delete(running);
      }
    },
  };
}

const waitAtMost = (clock: Clock, ms: number): Promise<void> =>
  new Promise((resolve) => void clock.at(clock.nowMs() + ms, resolve));

async function untilAborted(wanted: Promise<void>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason);
  signal.addEventListener('abort', abort);
  try {
    await Promise.race([wanted, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
