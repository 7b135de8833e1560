// How much of a disk is free.
import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';

/** Closed to this user, or removed since. */
const UNSEEN: ReadonlySet<string | undefined> = new Set(['EACCES', 'ENOENT', 'ENOTDIR']);

/** What is free for others than root. Of a place that cannot be seen, that of the one above. */
export function freeBytes(path: string): number {
  try {
    const { bavail, bsize } = statfsSync(path);
    return bavail * bsize;
  } catch (error) {
    if (!UNSEEN.has((error as NodeJS.ErrnoException).code) || path === '/') throw error;
    return freeBytes(dirname(path));
  }
}
