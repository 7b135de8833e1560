// Asking on while a daemon is away for a moment: one that died is started again by its runtime and
// its tasks go on, and so does who waits for them.
import { Fault, type FaultCode } from '../../wire/errors.ts';
import { sleep } from './follow.ts';
import type { RuntimeClient } from './runtime.ts';
import { isUp } from './state.ts';

const OUTAGE_MS_MAX = 30_000;
const RETRY_DELAY_MS = 500;
const DOWN_CODES: readonly FaultCode[] = ['runtime_down', 'unavailable', 'stopping'];

/** The runtime, or the daemon that was asked, does not run now. */
export const isRuntimeDown = (error: unknown): boolean =>
  error instanceof Fault && DOWN_CODES.includes(error.code);

/** Gives up when the runtime itself is gone, when it takes too long, or with `signal`. */
export async function retryWhileDown<T>(
  call: () => Promise<T>,
  { stateDir }: Pick<RuntimeClient, 'stateDir'>,
  signal: AbortSignal,
): Promise<T> {
  const deadlineMs = performance.now() + OUTAGE_MS_MAX;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      const mustStop = signal.aborted || performance.now() > deadlineMs || !isUp(stateDir);
      if (!isRuntimeDown(error) || mustStop) throw error;
      await sleep(RETRY_DELAY_MS, signal);
    }
  }
}
