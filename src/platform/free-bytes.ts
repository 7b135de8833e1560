// Measures what is free on a disk: bytes, and inodes, which can run out too.
import { type StatsFs, statfsSync } from 'node:fs';
import { dirname } from 'node:path';

/** The path is closed to this user, or has been removed. */
const MISSING_CODES: ReadonlySet<string | undefined> = new Set(['EACCES', 'ENOENT', 'ENOTDIR']);

const FILES_RESERVED = { max: 10_000, part: 1 / 20 } as const;

/** The keeper covers directories that the daemons cannot enter with file systems of this size. */
const COVER_BYTES = 64 * 1024;

/** Falls back to the directory above for a path that cannot be read, or is covered. */
function statNearest(path: string, isAbove = false): StatsFs {
  try {
    const stat = statfsSync(path);
    const isCover = isAbove && path !== '/' && stat.blocks * stat.bsize <= COVER_BYTES;
    return isCover ? statNearest(dirname(path), true) : stat;
  } catch (error) {
    if (!MISSING_CODES.has((error as NodeJS.ErrnoException).code) || path === '/') throw error;
    return statNearest(dirname(path), true);
  }
}

/** Returns the bytes that users other than root can use. */
export function readFreeBytes(path: string): number {
  const { bavail, bsize } = statNearest(path);
  return bavail * bsize;
}

/** Returns the size of the disk, and what users other than root can use of it. */
export function readDiskSpace(path: string): { size_bytes: number; free_bytes: number } {
  const { blocks, bavail, bsize } = statNearest(path);
  return { size_bytes: blocks * bsize, free_bytes: bavail * bsize };
}

/**
 * True if the remaining inodes are reserved for the runtime. File systems that allocate inodes
 * dynamically report none at all, and are never short.
 */
export function isLowOnFiles(path: string): boolean {
  const { files, ffree } = statNearest(path);
  return ffree < Math.min(FILES_RESERVED.max, files * FILES_RESERVED.part);
}
