// The ends of runs' processes (runners and people's programs), in order, until agentd acknowledges
// them. Its polling also shows that it lives.
import type { NewId } from '../../platform/ids.ts';
import type { RunnerEnded } from '../../wire/sandboxd.ts';

export type RunEnds = {
  /** Identifies this process; no process of a run outlives it. */
  epoch: string;
  add(end: Omit<RunnerEnded, 'seq'>): void;
  /**
   * Resolves to the ends after a sequence number, waiting for the next if there is none. A caller
   * with another epoch gets the new one at once: the processes of the old epoch are gone.
   */
  ends(
    known: { after: number; epoch?: string | undefined },
    signal: AbortSignal,
  ): Promise<{ epoch: string; ends: RunnerEnded[] }>;
  /** Called when agentd has not polled for a while. */
  onIdle(listener: () => void): void;
  /** Call it when a process has started: agentd must poll from now on. */
  restartTimer(): void;
};

const POLL_TIMEOUT_MS = 20_000;
/** Without a poll for this long, agentd is considered gone, and the processes are ended. */
const IDLE_TIMEOUT_MS = 3_000;

export function makeRunEnds(newId: NewId): RunEnds {
  const epoch = newId('life');
  const listeners: (() => void)[] = [];
  let last = 0;
  let kept: RunnerEnded[] = [];
  let wake = Promise.withResolvers<void>();
  let polls = 0;
  let timer: NodeJS.Timeout | undefined;

  const restartTimer = (): void => {
    clearTimeout(timer);
    if (polls > 0) return;
    timer = setTimeout(() => {
      for (const listener of listeners) listener();
    }, IDLE_TIMEOUT_MS);
    timer.unref();
  };

  const waitAfter = async (seq: number, signal: AbortSignal): Promise<RunnerEnded[]> => {
    kept = kept.filter((end) => end.seq > seq);
    if (kept.length > 0) return kept;
    const over = Promise.withResolvers<void>();
    const timeout = setTimeout(over.resolve, POLL_TIMEOUT_MS);
    signal.addEventListener('abort', () => over.resolve(), { once: true });
    await Promise.race([wake.promise, over.promise]);
    clearTimeout(timeout);
    return kept;
  };

  return {
    epoch,
    add(end) {
      kept.push({ seq: ++last, ...end });
      wake.resolve();
      wake = Promise.withResolvers();
    },
    async ends({ after, epoch: known = epoch }, signal) {
      polls++;
      clearTimeout(timer);
      try {
        return { epoch, ends: known === epoch ? await waitAfter(after, signal) : [...kept] };
      } finally {
        polls--;
        restartTimer();
      }
    },
    onIdle: (listener) => void listeners.push(listener),
    restartTimer,
  };
}
