// Gives memory back when this process has come to rest. A burst of work (a thousand manifests, a
// stream of calls) makes V8 take a larger young heap; without work nothing would ever shrink it.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const LOOK_MS_MAX = 60_000;
/** At rest: the share of the time since the last look in which the process did anything. */
const BUSY_SHARE_MAX = 0.05;
/** Less is not worth the pause of some tens of milliseconds. */
const GROWN_BYTES_MIN = 3_000_000;

export type IdleGcOptions = {
  collect(): void;
  lookMsMin: number;
  /**
   * Giving back also drops all compiled code, and then calls take half as long again for some
   * seconds. Who worked so long has code worth keeping, and a pause between calls is no rest:
   */
  warmMs: number;
  /** It gives back after so long without work. */
  warmRestMs: number;
};
const REST: IdleGcOptions = {
  collect: collectAll,
  lookMsMin: 1_500,
  warmMs: 5_000,
  warmRestMs: 60_000,
};

/** Looks soon after there was work, and ever more seldom while there is none. */
export function collectWhenIdle(rest: Partial<IdleGcOptions> = {}): void {
  const { collect, lookMsMin, warmMs, warmRestMs } = { ...REST, ...rest };
  let restingBytes = 0;
  let lookMs = lookMsMin;
  /** Since it last gave back, and since it last was busy. */
  let workedMs = 0;
  let restedMs = 0;
  let before = performance.eventLoopUtilization();
  const look = (): void => {
    const now = performance.eventLoopUtilization();
    const { active, idle, utilization } = performance.eventLoopUtilization(now, before);
    before = now;
    const isBusy = utilization > BUSY_SHARE_MAX;
    workedMs += active;
    restedMs = isBusy ? 0 : restedMs + idle;
    const isResting = !isBusy && (workedMs < warmMs || restedMs >= warmRestMs);
    const hasGrown = process.memoryUsage().heapTotal - restingBytes > GROWN_BYTES_MIN;
    if (isResting && hasGrown) {
      collect();
      restingBytes = process.memoryUsage().heapTotal;
      workedMs = 0;
      before = performance.eventLoopUtilization();
    }
    lookMs = isBusy ? lookMsMin : Math.min(2 * lookMs, LOOK_MS_MAX);
    setTimeout(look, lookMs).unref();
  };
  setTimeout(look, lookMs).unref();
}

type Collect = (options: { type: 'major'; flavor: 'last-resort' }) => void;

/** The only collection after which V8 makes the young heap small again. */
function collectAll(): void {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as Collect;
  setFlagsFromString('--no-expose-gc');
  gc({ type: 'major', flavor: 'last-resort' });
}
