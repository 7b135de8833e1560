// Runs passes of some work, one at a time: when it is woken, when the next item is due, and again
// after a failure. A wake-up is never lost, whenever it comes.
import type { Clock, Timer } from './clock.ts';

export type WakeLoop = {
  /** Starts a pass now; while one is running, even from inside it, makes another one follow. */
  wake(): void;
  /** Resolves when no pass is running, due to follow or waiting to be retried. */
  idle(): Promise<void>;
  /** Starts no more passes, and resolves when the running one has ended. */
  stop(): Promise<void>;
};

export type WakeLoopOptions = {
  clock: Clock;
  /** One pass. Resolves to the time of the next one; undefined: none until `wake()`. */
  work(): Promise<number | undefined>;
  /** Delay before a failed pass is retried, doubling from min to max. `wake()` does not end it. */
  backoffMs: { min: number; max: number };
  onError(error: unknown): void;
};

export function makeWakeLoop({ clock, work, backoffMs, onError }: WakeLoopOptions): WakeLoop {
  let isWoken = false;
  let isRunning = false;
  let isStopped = false;
  let ended = Promise.resolve();
  let timer: Timer | undefined;
  let endDelay = (): void => {};

  const delay = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      endDelay = resolve;
      timer = clock.at(clock.nowMs() + ms, resolve);
    });

  const run = async (): Promise<void> => {
    let retryMs = backoffMs.min;
    while (isWoken && !isStopped) {
      isWoken = false;
      timer?.cancel();
      try {
        const nextMs = await work();
        retryMs = backoffMs.min;
        if (nextMs !== undefined && !isStopped) timer = clock.at(nextMs, wake);
      } catch (error) {
        if (isStopped) break;
        onError(error);
        isWoken = true;
        await delay(retryMs);
        retryMs = Math.min(2 * retryMs, backoffMs.max);
      }
    }
    // There is no await between the last check of `isWoken` and this.
    isRunning = false;
  };

  function wake(): void {
    isWoken = true;
    if (isRunning || isStopped) return;
    isRunning = true;
    ended = run();
  }

  return {
    wake,
    async idle() {
      while (isRunning) await ended;
    },
    async stop() {
      isStopped = true;
      timer?.cancel();
      endDelay();
      await ended;
    },
  };
}
