// Runs a full garbage collection when the process becomes idle. A burst of work (a thousand
// manifests, a stream of calls) makes V8 grow its young heap, and an idle V8 never shrinks it.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const POLL_INTERVAL_MS_MAX = 60_000;
/** An idle process is active for less than this share of the time between two polls. */
const IDLE_SHARE_MAX = 0.05;
/** Less growth is not worth a pause of some tens of milliseconds. */
const GROWTH_BYTES_MIN = 3_000_000;

export type IdleGcOptions = {
  collect(): void;
  pollMsMin: number;
  /**
   * The collection also drops all compiled code, which makes calls 50 % slower for some seconds. A
   * process that worked this long has code worth keeping, and must be idle for `warmIdleMs`.
   */
  warmMs: number;
  warmIdleMs: number;
};
const DEFAULTS: IdleGcOptions = {
  collect: collectAll,
  pollMsMin: 1_500,
  warmMs: 5_000,
  warmIdleMs: 60_000,
};

/** Polls soon after work, and at growing intervals while idle. */
export function collectWhenIdle(options: Partial<IdleGcOptions> = {}): void {
  const { collect, pollMsMin, warmMs, warmIdleMs } = { ...DEFAULTS, ...options };
  let collectedBytes = 0;
  let pollMs = pollMsMin;
  /** Active time since the last collection. */
  let activeMs = 0;
  /** Idle time since the process was last busy. */
  let idleMs = 0;
  let before = performance.eventLoopUtilization();
  const poll = (): void => {
    const now = performance.eventLoopUtilization();
    const { active, idle, utilization } = performance.eventLoopUtilization(now, before);
    before = now;
    const isBusy = utilization > IDLE_SHARE_MAX;
    activeMs += active;
    idleMs = isBusy ? 0 : idleMs + idle;
    const isIdle = !isBusy && (activeMs < warmMs || idleMs >= warmIdleMs);
    const hasGrown = process.memoryUsage().heapTotal - collectedBytes > GROWTH_BYTES_MIN;
    if (isIdle && hasGrown) {
      collect();
      collectedBytes = process.memoryUsage().heapTotal;
      activeMs = 0;
      before = performance.eventLoopUtilization();
    }
    pollMs = isBusy ? pollMsMin : Math.min(2 * pollMs, POLL_INTERVAL_MS_MAX);
    setTimeout(poll, pollMs).unref();
  };
  setTimeout(poll, pollMs).unref();
}

type Collect = (options: { type: 'major'; flavor: 'last-resort' }) => void;

/** Only this kind of collection makes V8 shrink the young heap. */
function collectAll(): void {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as Collect;
  setFlagsFromString('--no-expose-gc');
  gc({ type: 'major', flavor: 'last-resort' });
}
