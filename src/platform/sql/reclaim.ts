// Gives the space of deleted rows back to the disk, in small steps while the daemon works. Free
// pages are used again by new rows first, so some of them stay.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../log.ts';
import type { SqliteDatabase } from './sqlite.ts';

export type Reclaimable = Pick<SqliteDatabase, 'file' | 'countPages' | 'reclaim'>;

const INTERVAL_MS = 60_000;
const PAGES_AT_ONCE = 64;
/** The rest after a step, as a multiple of its duration. */
const REST = 9;
/** Begins when this many pages are free and this share of all; ends at half of that. */
const FREE_PAGES_MIN = 2_048;
const FREE_SHARE_MIN = 0.1;

/** Returns a function that ends it. */
export function startReclaiming(db: Reclaimable, log: Log): () => Promise<void> {
  const controller = new AbortController();
  const { signal } = controller;
  const ended = (async () => {
    while (!signal.aborted) {
      await rest(INTERVAL_MS, signal);
      try {
        const pages = await reclaimExcess(db, signal);
        if (pages > 0) log.info('gave space back to the disk', { file: db.file, pages });
      } catch (error) {
        log.warn('giving space back to the disk failed', { file: db.file, error });
      }
    }
  })();
  return async () => {
    controller.abort();
    await ended;
  };
}

/** Resolves to the number of pages given back. */
export async function reclaimExcess(db: Reclaimable, signal: AbortSignal): Promise<number> {
  if (signal.aborted) return 0;
  const before = await db.countPages();
  const limit = Math.max(FREE_PAGES_MIN, Math.ceil(before.all * FREE_SHARE_MIN));
  if (!before.areReclaimable || before.free < limit) return 0;
  for (let { free } = before; free > limit / 2 && !signal.aborted; ) {
    const beganMs = performance.now();
    await db.reclaim(PAGES_AT_ONCE);
    ({ free } = await db.countPages());
    await rest(REST * (performance.now() - beganMs), signal);
  }
  return before.all - (await db.countPages()).all;
}

const rest = (ms: number, signal: AbortSignal): Promise<void> =>
  sleep(ms, undefined, { signal, ref: false }).catch(() => undefined);
