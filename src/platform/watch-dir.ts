// Watches a directory and calls back when something in it may have changed. It also polls, for file
// systems where watching does not work.
import { type FSWatcher, statSync, watch } from 'node:fs';
import type { Clock, Timer } from './clock.ts';

export type WatchDirOptions = {
  dir: string;
  /** Only this file; default: all files. */
  name?: string;
  clock: Clock;
  /** `event`: something may have changed. `poll`: the poll interval has passed. */
  onChange(why: 'event' | 'poll'): void;
  /** Changes within this time cause one call. */
  settleMs: number;
  pollIntervalMs: number;
};

/** Every change after this returns is reported. */
export function watchDir(options: WatchDirOptions): { close(): void } {
  const { dir, name, clock, onChange: look, settleMs, pollIntervalMs: lookEveryMs } = options;
  let settling: Timer | undefined;
  const watcher = makeWatcher(dir, (changed) => {
    if (name !== undefined && changed !== null && changed !== name) return;
    settling ??= clock.at(clock.nowMs() + settleMs, () => {
      settling = undefined;
      look('event');
    });
  });
  let polling: Timer | undefined;
  const poll = (): void => {
    polling = clock.at(clock.nowMs() + lookEveryMs, () => {
      watcher.renew();
      poll();
      look('poll');
    });
  };
  watcher.renew();
  poll();
  return {
    close() {
      settling?.cancel();
      polling?.cancel();
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
      const found = `${dev} ${ino} ${birthtimeNs}`; // Inode numbers are reused.
      if (watcher !== undefined && found === watched) return;
      drop();
      watched = found;
      watcher = watch(dir, { persistent: false }, (_, changed) => onEvent(changed));
      watcher.on('error', drop);
    } catch {
      // It does not exist, or this host has no watches left: polling continues.
      drop();
    }
  };
  return { renew, drop };
}
