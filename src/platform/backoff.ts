// Something that is tried again, ever more seldom, as long as what stands in its way passes by
// itself.
import { Fault } from '../wire/errors.ts';

export type BackoffOptions = {
  /** Whether to try again after this; the rest is thrown. */
  isTransient(error: unknown): boolean;
  backoffMsMax: number;
  /** After this time even what passes is thrown. */
  timeoutMs?: number;
  /** Nobody waits for it, so it does not keep the process alive. */
  inBackground?: true;
};

const PAUSE_MS_FIRST = 50;

/** A fault that the table of faults marks as worth a retry. */
export const isTransient = (error: unknown): boolean => error instanceof Fault && error.retry;

export async function retryWithBackoff<T>(
  work: () => Promise<T>,
  patience: BackoffOptions,
): Promise<T> {
  const {
    isTransient: passes,
    backoffMsMax: pauseMsMax,
    timeoutMs: forMsMax = Number.POSITIVE_INFINITY,
    inBackground,
  } = patience;
  const endMs = performance.now() + forMsMax;
  for (let pauseMs = PAUSE_MS_FIRST; ; pauseMs = Math.min(2 * pauseMs, pauseMsMax)) {
    try {
      return await work();
    } catch (error) {
      if (!passes(error) || performance.now() > endMs) throw error;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, pauseMs);
        if (inBackground === true) timer.unref();
      });
    }
  }
}
