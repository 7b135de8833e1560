// Paces background work: after each step it rests in proportion to the step's duration, longer
// while runs are live, so that pruning never takes more than a small share of the machine. Nothing
// is removed while a backup is made.
import type { BackupPauses } from './pauses.ts';

/** The rest after a step, as a multiple of its duration. */
const REST = { busy: 9, idle: 1 } as const;
const REST_MS = { min: 1, max: 1_000 } as const;

export type Pace = {
  /** Runs one step, then rests. Throws the signal's reason if the pass was canceled. */
  step<T>(work: () => Promise<T>): Promise<T>;
};

export class CanceledPassError extends Error {}

export function makePace(options: {
  isBusy: () => boolean;
  signal: AbortSignal;
  /** Undefined for steps that remove nothing. */
  pauses: BackupPauses | undefined;
}): Pace {
  const { isBusy, signal, pauses } = options;
  return {
    async step(work) {
      signal.throwIfAborted();
      let tookMs = 0;
      const measure = async () => {
        const beganMs = performance.now();
        const value = await work();
        tookMs = performance.now() - beganMs;
        return value;
      };
      const value = await (pauses === undefined ? measure() : pauses.step(measure, signal));
      const restMs = tookMs * (isBusy() ? REST.busy : REST.idle);
      await rest(Math.min(REST_MS.max, Math.max(REST_MS.min, restMs)), signal);
      return value;
    },
  };
}

function rest(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(end, ms);
    function end(): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    }
    signal.addEventListener('abort', end);
    if (signal.aborted) end();
  });
}
