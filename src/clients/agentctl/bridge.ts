// Asking on while a daemon is away for a moment: one that died is started again by its runtime and
// its tasks go on, and so does who waits for them.
import { Fault, type FaultCode } from '../../wire/errors.ts';
import { pause } from './follow.ts';
import type { RuntimeClient } from './runtime.ts';
import { isUp } from './state.ts';

const bridgeMs = 30_000;
const againAfterMs = 500;
const DOWN: readonly FaultCode[] = ['runtime_down', 'unavailable', 'stopping'];

/** The runtime, or the daemon that was asked, does not run now. */
export const isRuntimeDown = (error: unknown): boolean =>
  error instanceof Fault && DOWN.includes(error.code);

/** Gives up when the runtime itself is gone, when it takes too long, or with `signal`. */
export async function bridge<T>(
  ask: () => Promise<T>,
  { stateDir }: Pick<RuntimeClient, 'stateDir'>,
  signal: AbortSignal,
): Promise<T> {
  const untilMs = performance.now() + bridgeMs;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      const isOver = signal.aborted || performance.now() > untilMs || !isUp(stateDir);
      if (!isRuntimeDown(error) || isOver) throw error;
      await pause(againAfterMs, signal);
    }
  }
}
