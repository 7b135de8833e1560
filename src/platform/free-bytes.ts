// How much of a disk is free: bytes, and files, which run out too.
import { type StatsFs, statfsSync } from 'node:fs';
import { dirname } from 'node:path';

/** Closed to this user, or removed since. */
const UNSEEN: ReadonlySet<string | undefined> = new Set(['EACCES', 'ENOENT', 'ENOTDIR']);

const FILES_KEPT = { most: 10_000, part: 1 / 20 } as const;

/** Of a place that cannot be seen, that of the one above. */
function lookAt(path: string): StatsFs {
  try {
    return statfsSync(path);
  } catch (error) {
    if (!UNSEEN.has((error as NodeJS.ErrnoException).code) || path === '/') throw error;
    return lookAt(dirname(path));
  }
}

/** What is free for others than root. */
export function freeBytes(path: string): number {
  const { bavail, bsize } = lookAt(path);
  return bavail * bsize;
}

/**
 * True when so few more files fit that they are kept from agents. Where a disk makes room for files
 * as they come, it does not say how many it takes.
 */
export function isShortOfFiles(path: string): boolean {
  const { files, ffree } = lookAt(path);
  return ffree < Math.min(FILES_KEPT.most, files * FILES_KEPT.part);
}
