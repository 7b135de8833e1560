// Removes the homes of people's programs: those that a person names, and those that none has used
// for as long as homes are kept (retention.homes.age). A home's directory has the time of its last
// use.
import { randomUUID } from 'node:crypto';
import { existsSync, renameSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock, Timer } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { fault } from '../../wire/errors.ts';
import type { Warden } from './adapters/warden.ts';
import type { SandboxdStore } from './store.ts';

export type KeptHomes = {
  /** Resolves to the ids of those it removed. */
  sweep(): Promise<string[]>;
  /** Throws `conflict` while a box with it is open. */
  remove(id: string, by: string): Promise<RemovedHome>;
  /** Sweeps now and then. */
  begin(): void;
  stop(): void;
};

/** `removed`: false when there was none. */
export type RemovedHome = { removed: boolean; bytes: number; entries: number };

const KEPT = /^home_[0-9a-f]{24}$/;
/** Moved away, and to be deleted. */
const REMOVED = /^home_[0-9a-f]{24}\.removed-/;
const INTERVAL_MS = 3_600_000;

export function makeKeptHomes(options: {
  /** Without links. */
  stateDir: string;
  /** Null: for ever. */
  ageMs: number | null;
  isInUse: (id: string) => boolean;
  warden: Pick<Warden, 'deleteTree' | 'measure'>;
  store: Pick<SandboxdStore, 'recordHomeRemoved'>;
  clock: Clock;
  log: Log;
}): KeptHomes {
  const { ageMs, isInUse, warden, store, clock, log } = options;
  const homes = join(options.stateDir, 'homes');
  let timer: Timer | undefined;

  const sweep = async (): Promise<string[]> => {
    const names = await readdir(homes).catch(() => []);
    for (const name of names) if (REMOVED.test(name)) await warden.deleteTree(join(homes, name));
    if (ageMs === null) return [];
    const removed: string[] = [];
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

  const assertUnused = (id: string): void => {
    if (isInUse(id))
      throw fault('conflict', `a program that uses ${id} is running`, {
        hint: 'End it first: agentctl box list, then agentctl box rm.',
      });
  };

  const remove: KeptHomes['remove'] = async (id, by) => {
    const path = join(homes, id);
    assertUnused(id);
    if (!existsSync(path)) return { removed: false, bytes: 0, entries: 0 };
    const { bytes, entries } = await warden.measure(path);
    // No box opens between these two, and one that opens later gets a new home.
    assertUnused(id);
    const away = `${path}.removed-${randomUUID().slice(0, 8)}`;
    renameSync(path, away);
    await store.recordHomeRemoved(id, { by, bytes, entries });
    await warden.deleteTree(away);
    return { removed: true, bytes, entries };
  };

  return { sweep, remove, begin, stop: () => timer?.cancel() };
}
