// Removes the homes of people's programs that none has used for as long as homes are kept
// (retention.homes.age). A home's directory has the time of its last use.
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock, Timer } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { Warden } from './adapters/warden.ts';

export type KeptHomes = {
  /** Resolves to the ids of those it removed. */
  sweep(): Promise<string[]>;
  /** Sweeps now and then. */
  begin(): void;
  stop(): void;
};

const KEPT = /^home_[0-9a-f]{24}$/;
const INTERVAL_MS = 3_600_000;

export function makeKeptHomes(options: {
  /** Without links. */
  stateDir: string;
  /** Null: for ever. */
  ageMs: number | null;
  isInUse: (id: string) => boolean;
  warden: Pick<Warden, 'deleteTree'>;
  clock: Clock;
  log: Log;
}): KeptHomes {
  const { ageMs, isInUse, warden, clock, log } = options;
  const homes = join(options.stateDir, 'homes');
  let timer: Timer | undefined;

  const sweep = async (): Promise<string[]> => {
    if (ageMs === null) return [];
    const removed: string[] = [];
    const names = await readdir(homes).catch(() => []);
    for (const id of names.filter((name) => KEPT.test(name))) {
      const { mtimeMs } = await stat(join(homes, id));
      if (clock.nowMs() - mtimeMs < ageMs || isInUse(id)) continue;
      await warden.deleteTree(join(homes, id));
      removed.push(id);
    }
    if (removed.length > 0) log.info('removed homes that no program used', { homes: removed });
    return removed;
  };

  const begin = (): void => {
    sweep().catch((error: unknown) => log.warn('removing unused homes failed', { error }));
    timer = clock.at(clock.nowMs() + INTERVAL_MS, begin);
  };

  return { sweep, begin, stop: () => timer?.cancel() };
}
