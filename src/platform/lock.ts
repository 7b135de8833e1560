// Locks a state directory, or another, against a second process. The lock is the kernel's, so a
// crash releases it. Small, because the command line loads it.
import { DatabaseSync } from 'node:sqlite';
import { fault } from '../wire/errors.ts';

export type Lock = { release(): void };

const SQLITE_BUSY = 5;
const SQLITE_FULL = 13;

/**
 * SQLite's file lock is a kernel lock: it ends with the process. Undefined if it is taken. Creates
 * the file, unless it is given as a URL with `mode=rw`.
 */
export function tryLock(file: string | URL): Lock | undefined {
  const db = new DatabaseSync(file);
  try {
    db.exec('PRAGMA busy_timeout=0; PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE;');
  } catch (cause) {
    db.close();
    const code = ((cause as { errcode?: number }).errcode ?? 0) % 256;
    if (code === SQLITE_BUSY) return undefined;
    if (code === SQLITE_FULL) throw fault('storage_full', `the disk of ${file} is full`, { cause });
    const why = (cause as Error).message;
    throw fault('storage_broken', `locking ${file} failed: ${why}`, {
      cause,
      hint: 'Check that file and its disk. It is empty: while no runtime runs, it can be removed.',
    });
  }
  return { release: () => db.close() };
}

export async function waitForLock(file: string, waitMs: number): Promise<Lock | undefined> {
  const end = Date.now() + waitMs;
  for (;;) {
    const lock = tryLock(file);
    if (lock !== undefined || Date.now() >= end) return lock;
    await new Promise((done) => setTimeout(done, 50));
  }
}
