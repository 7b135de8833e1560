// A disk that loses, when the power fails, what was not synced.
import { copyFileSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Sync } from '../../../platform/sql/deferred-sync.ts';

const FILES = ['modeld.sqlite', 'modeld.sqlite-wal'];

/** Copies the disk at every sync; after a power failure only the last copy remains. */
export function makeLossyDisk(stateDir: string) {
  const copyOf = (name: string): string => join(stateDir, `${name}.synced`);
  let hasPower = true;
  const sync: Sync = (_fd, done) => {
    if (hasPower) for (const name of FILES) copyFileSync(join(stateDir, name), copyOf(name));
    setImmediate(() => done(null));
  };
  const losePower = (): void => {
    hasPower = false;
  };
  const comeBack = (): void => {
    for (const name of FILES) {
      rmSync(join(stateDir, name), { force: true });
      if (existsSync(copyOf(name))) copyFileSync(copyOf(name), join(stateDir, name));
    }
    rmSync(join(stateDir, 'modeld.sqlite-shm'), { force: true });
  };
  return { sync, losePower, comeBack };
}
