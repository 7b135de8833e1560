// A directory that is followed: whoever follows it is told when something in it may have changed,
// and now and then besides, for where watching does not work. What is read there is theirs.
import { type FSWatcher, statSync, watch } from 'node:fs';
import type { Clock, Timer } from './clock.ts';

export type FollowOptions = {
  dir: string;
  /** Only this file of it; all of it when absent. */
  name?: string;
  clock: Clock;
  /** `told`: something may have changed. `regular`: it is time to look again. */
  look(why: 'told' | 'regular'): void;
  /** Changes that come together are told together. */
  settleMs: number;
  lookEveryMs: number;
};

/** It is watched when this returns: a change from then on is told. */
export function followDir(options: FollowOptions): { close(): void } {
  const { dir, name, clock, look, settleMs, lookEveryMs } = options;
  let settling: Timer | undefined;
  const watcher = makeWatcher(dir, (changed) => {
    if (name !== undefined && changed !== null && changed !== name) return;
    settling ??= clock.at(clock.nowMs() + settleMs, () => {
      settling = undefined;
      look('told');
    });
  });
  let looking: Timer | undefined;
  const lookRegularly = (): void => {
    looking = clock.at(clock.nowMs() + lookEveryMs, () => {
      watcher.renew();
      lookRegularly();
      look('regular');
    });
  };
  watcher.renew();
  lookRegularly();
  return {
    close() {
      settling?.cancel();
      looking?.cancel();
      watcher.drop();
    },
  };
}

/** Watches the directory that has this name now, even after it was replaced by another. */
function makeWatcher(dir: string, onEvent: (changed: string | null) => void) {
  let watcher: FSWatcher | undefined;
  let watched = '';
  const drop = (): void => {
    watcher?.close();
    watcher = undefined;
  };
  const renew = (): void => {
    try {
      const { dev, ino, birthtimeNs } = statSync(dir, { bigint: true });
      const found = `${dev} ${ino} ${birthtimeNs}`; // A number alone is soon given out again.
      if (watcher !== undefined && found === watched) return;
      drop();
      watched = found;
      watcher = watch(dir, { persistent: false }, (_, changed) => onEvent(changed));
      watcher.on('error', drop);
    } catch {
      // It is not there, or nothing more can be watched on this host: the regular looks go on.
      drop();
    }
  };
  return { renew, drop };
}
