// Removes what a SQLite database leaves of deleted texts in its files: the write-ahead log, copies
// from before migrations, and pages that were freed before freed pages were overwritten.
import { open, readdir, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Log } from '../log.ts';
import type { SqliteDatabase } from '../sql/sqlite.ts';
import type { Redactor } from './redact.ts';

const CHUNK_BYTES = 1 << 20;
/** Writing a larger one anew would keep its daemon from working for too long. */
const REWRITTEN_BYTES_MAX = 512 * 2 ** 20;

export function makeSeal({ db, log }: { db: Pick<SqliteDatabase, 'file' | 'read'>; log: Log }) {
  const truncateLog = () => db.read((sql) => sql.all('PRAGMA wal_checkpoint(TRUNCATE)'));
  return async (redactor: Pick<Redactor, 'listTraces'>): Promise<void> => {
    await removeEarlierCopies(db.file, log);
    await truncateLog();
    if (!(await hasTraces(db.file, redactor.listTraces()))) return;
    const { size } = await stat(db.file);
    if (size > REWRITTEN_BYTES_MAX) {
      log.warn('free pages of a database may still have pieces of a forgotten text', {
        file: db.file,
      });
      return;
    }
    await db.read((sql) => sql.all('VACUUM'));
    await truncateLog();
  };
}

/** They are as old as the last upgrade, and cannot be searched without being opened. */
async function removeEarlierCopies(file: string, log: Log): Promise<void> {
  const prefix = `${basename(file)}.before-`;
  for (const name of await readdir(dirname(file))) {
    if (!name.startsWith(prefix)) continue;
    await rm(join(dirname(file), name), { force: true });
    log.info('removed a copy from before a migration, because a memory was forgotten', { name });
  }
}

export async function hasTraces(file: string, traces: readonly Buffer[]): Promise<boolean> {
  if (traces.length === 0) return false;
  const overlap = Math.max(...traces.map(({ length }) => length)) - 1;
  const handle = await open(file, 'r');
  try {
    const bytes = Buffer.alloc(CHUNK_BYTES + overlap);
    for (let from = 0; ; from += CHUNK_BYTES) {
      const { bytesRead } = await handle.read(bytes, 0, bytes.length, from);
      const chunk = bytes.subarray(0, bytesRead);
      if (traces.some((trace) => chunk.includes(trace))) return true;
      if (bytesRead < bytes.length) return false;
    }
  } finally {
    await handle.close();
  }
}
