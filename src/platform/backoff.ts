// Retries work with exponential backoff for as long as its errors are transient.
import { Fault } from '../wire/errors.ts';

export type BackoffOptions = {
  /** True for errors to retry after; all others are thrown. */
  isTransient(error: unknown): boolean;
  backoffMsMax: number;
  /** After this time transient errors are thrown too. */
  timeoutMs?: number;
  /** Retries do not keep the process alive. */
  inBackground?: true;
};

const BACKOFF_MS_MIN = 50;

/** True for a fault that the table of faults marks as worth a retry. */
export const isTransient = (error: unknown): boolean => error instanceof Fault && error.retry;

export async function retryWithBackoff<T>(
  work: () => Promise<T>,
  options: BackoffOptions,
): Promise<T> {
  const { timeoutMs = Number.POSITIVE_INFINITY } = options;
  const endMs = performance.now() + timeoutMs;
  for (let delayMs = BACKOFF_MS_MIN; ; delayMs = Math.min(2 * delayMs, options.backoffMsMax)) {
    try {
      return await work();
    } catch (error) {
      if (!options.isTransient(error) || performance.now() > endMs) throw error;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, delayMs);
        if (options.inBackground === true) timer.unref();
      });
    }
  }
}
