// Retries calls while a daemon or the runtime is down: both are restarted when they die, and tasks
// resume.
import { Fault, type FaultCode } from '../../wire/errors.ts';
import { sleep } from './follow.ts';
import type { RuntimeClient } from './runtime.ts';
import { isUp } from './state.ts';
import { isRestarting } from './supervisor.ts';

const OUTAGE_MS_MAX = 30_000;
const RETRY_DELAY_MS = 500;
const DOWN_CODES: readonly FaultCode[] = ['runtime_down', 'unavailable', 'stopping'];

export const isRuntimeDown = (error: unknown): boolean =>
  error instanceof Fault && DOWN_CODES.includes(error.code);

/** Rethrows once the runtime has exited, after OUTAGE_MS_MAX, or when `signal` aborts. */
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
      const isLate = signal.aborted || performance.now() > deadlineMs;
      if (!isRuntimeDown(error) || isLate || !(isUp(stateDir) || isRestarting(stateDir)))
        throw error;
      await sleep(RETRY_DELAY_MS, signal);
    }
  }
}
