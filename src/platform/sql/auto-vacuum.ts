// Lets SQLite give the space of deleted rows back to the disk, which has to be decided when a
// database is made. One of an earlier version is written anew once, if that takes a few seconds.
import type { DatabaseSync } from 'node:sqlite';
import { readFreeBytes } from '../free-bytes.ts';
import type { Log } from '../log.ts';

const OFF = 0;
const CONVERTED_BYTES_MAX = 256 * 2 ** 20;
/** Writing a database anew needs its size twice: in the WAL and in the file. */
const SPACE_FACTOR = 3;

function readNumber(db: DatabaseSync, pragma: 'auto_vacuum' | 'page_count' | 'page_size'): number {
  return Object.values(db.prepare(`PRAGMA ${pragma}`).get() as Record<string, number>)[0]!;
}

/** Must come before anything is written. */
export function enableAutoVacuum(db: DatabaseSync): void {
  if (readNumber(db, 'page_count') === 0) db.exec('PRAGMA auto_vacuum = INCREMENTAL');
}

export function convertToAutoVacuum(
  db: DatabaseSync,
  { file, log }: { file: string; log?: Log | undefined },
  bytesMax = CONVERTED_BYTES_MAX,
): void {
  if (readNumber(db, 'auto_vacuum') !== OFF) return;
  const bytes = readNumber(db, 'page_count') * readNumber(db, 'page_size');
  if (bytes > bytesMax || readFreeBytes(file) < SPACE_FACTOR * bytes) {
    log?.info('this database keeps the space of deleted rows for new ones', { file, bytes });
    return;
  }
  db.exec('PRAGMA auto_vacuum = INCREMENTAL; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)');
  log?.info('this database now gives the space of deleted rows back', { file, bytes });
}
