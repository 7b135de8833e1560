// Gives memory back when this process has come to rest. A burst of work (a thousand manifests, a
// stream of calls) makes V8 take a larger young heap; without work nothing would ever shrink it.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const LOOK_MS_MIN = 1_500;
const LOOK_MS_MAX = 60_000;
/** At rest: the share of the time since the last look in which the process did anything. */
const BUSY_SHARE_MAX = 0.05;
/** Less is not worth the pause of some tens of milliseconds. */
const GROWN_BYTES_MIN = 3_000_000;

/** Looks soon after there was work, and ever more seldom while there is none. */
export function giveBackAtRest(): void {
  let restingBytes = 0;
  let lookMs = LOOK_MS_MIN;
  let before = performance.eventLoopUtilization();
  const look = (): void => {
    const now = performance.eventLoopUtilization();
    const isBusy = performance.eventLoopUtilization(now, before).utilization > BUSY_SHARE_MAX;
    before = now;
    const hasGrown = process.memoryUsage().heapTotal - restingBytes > GROWN_BYTES_MIN;
    if (!isBusy && hasGrown) {
      collectAll();
      restingBytes = process.memoryUsage().heapTotal;
      before = performance.eventLoopUtilization();
    }
    lookMs = isBusy ? LOOK_MS_MIN : Math.min(2 * lookMs, LOOK_MS_MAX);
    setTimeout(look, lookMs).unref();
  };
  setTimeout(look, lookMs).unref();
}

type Collect = (options: { type: 'major'; flavor: 'last-resort' }) => void;

/** The only collection after which V8 makes the young heap small again. */
function collectAll(): void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as Collect;
  setFlagsFromString('--no-expose-gc');
  collect({ type: 'major', flavor: 'last-resort' });
}
