// SQLite whose fsync does not stop the process: a commit writes the log without waiting, and the log is
// synced by another thread while other calls go on. `write` still resolves only when it is durable,
// and `read` sees nothing that is not.
import { fdatasync, fdatasyncSync, openSync } from 'node:fs';
import { closeSync } from 'node:fs';
import type { Database } from '../../../platform/sql/database.ts';
import { fault } from '../../../wire/errors.ts';

type Waiter = { resolve: () => void; reject: (error: unknown) => void };

export async function syncLate(inner: Database, file: string): Promise<Database> {
  // In WAL mode the log is then only synced before it is copied into the database, which keeps it
  // whole; that every commit is durable is seen to here.
  await inner.read((sql) => sql.all('PRAGMA synchronous = NORMAL'));
  const log = openSync(`${file}-wal`, 'r+');
  let current: Waiter[] = [];
  let next: Waiter[] = [];
  let isSyncing = false;
  let busy = 0;

  const sync = (): void => {
    isSyncing = true;
    current = next;
    next = [];
    const done = (error: NodeJS.ErrnoException | null): void => {
      const waiters = current;
      current = [];
      isSyncing = false;
      if (next.length > 0) sync();
      for (const { resolve, reject } of waiters) {
        if (error === null) resolve();
        else reject(fault('storage_full', `${file} could not be synced: ${error.message}`, { cause: error }));
      }
    };
    if (busy > 1) fdatasync(log, done);
    else {
      try {
        fdatasyncSync(log);
      } catch (error) {
        return done(error as NodeJS.ErrnoException);
      }
      done(null);
    }
  };
  const synced = (): Promise<void> =>
    new Promise((resolve, reject) => {
      next.push({ resolve, reject });
      if (!isSyncing) sync();
    });

  return {
    async write(work) {
      busy++;
      try {
        const value = await inner.write(work);
        await synced();
        return value;
      } finally {
        busy--;
      }
    },
    async read(work) {
      if (isSyncing) await synced();
      return inner.read(work);
    },
    async close() {
      await inner.close();
      closeSync(log);
    },
  };
}
