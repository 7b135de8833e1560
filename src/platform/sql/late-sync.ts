// SQLite whose fsync stops nobody: a commit writes the log without waiting for the disk, and
// another thread syncs it while this one goes on, at the least by telling the audit log. What
// `write` gives is durable, and what `commit` gives says when it is.
import { closeSync, fdatasync, openSync } from 'node:fs';
import { type Fault, fault } from '../../wire/errors.ts';
import type { Database } from './database.ts';
import type { SqliteDatabase, SqlNow } from './sqlite.ts';

export type LateDatabase = Database & {
  /** Resolves when it is committed: a crash of this process cannot undo it any more. */
  commit<T>(work: (sql: SqlNow) => T): Promise<Committed<T>>;
};
/** `durable` resolves when a crash of the machine cannot undo it either. */
export type Committed<T> = { value: T; durable: Promise<void> };

export type Sync = (fd: number, done: (error: Error | null) => void) => void;

export type LateOptions = {
  sync?: Sync;
  /**
   * How long the log may get. Copying it waits for the disk twice, and a page that changes often is
   * copied once.
   */
  logPagesMax?: number;
  cacheKbMax?: number;
};

export async function syncLate(
  inner: SqliteDatabase,
  file: string,
  { sync = fdatasync, ...tuning }: LateOptions = {},
): Promise<LateDatabase> {
  // SQLite itself then syncs the log only before it copies it into the database, which keeps the
  // database whole. That every commit is durable is seen to here.
  await inner.read((sql) => sql.all('PRAGMA synchronous = NORMAL'));
  if (tuning.logPagesMax !== undefined)
    await inner.read((sql) => sql.all(`PRAGMA wal_autocheckpoint = ${tuning.logPagesMax}`));
  if (tuning.cacheKbMax !== undefined)
    await inner.read((sql) => sql.all(`PRAGMA cache_size = -${tuning.cacheKbMax}`));
  const log = new LogSync(`${file}-wal`, sync);
  return {
    async commit(work) {
      log.assertWhole();
      const value = await inner.writeNow(work);
      return { value, durable: log.sync() };
    },
    async write(work) {
      log.assertWhole();
      const value = await inner.write(work);
      await log.sync();
      return value;
    },
    read: (work) => inner.read(work),
    async close() {
      await inner.close();
      await log.close();
    },
  };
}

/** One sync at a time; what is written before the next begins shares it. */
class LogSync {
  readonly #file: string;
  readonly #sync: Sync;
  #fd: number | undefined;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #broken: Fault | undefined;

  constructor(file: string, sync: Sync) {
    this.#file = file;
    this.#sync = sync;
  }

  /** After a failed sync nobody knows what the disk has: only a new start can tell. */
  assertWhole(): void {
    if (this.#broken !== undefined) throw this.#broken;
  }

  sync(): Promise<void> {
    if (this.#next !== undefined) return this.#next;
    const next = this.#syncNext();
    next.catch(() => undefined); // Whoever waits hears of it, and assertWhole tells the rest.
    this.#next = next;
    return next;
  }

  async close(): Promise<void> {
    for (let last = this.#next ?? this.#running; last !== undefined; ) {
      await last.catch(() => undefined);
      last = this.#next ?? this.#running;
    }
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }

  async #syncNext(): Promise<void> {
    await this.#running?.catch(() => undefined);
    // What this turn has to say to the audit log goes first: that is the longer wait, and with few
    // processors the sync would take the turn of the one who is told.
    await new Promise((resolve) => setImmediate(resolve));
    this.#running = this.#next;
    this.#next = undefined;
    try {
      await this.#syncNow();
    } finally {
      this.#running = undefined;
    }
  }

  async #syncNow(): Promise<void> {
    this.assertWhole();
    try {
      this.#fd ??= openSync(this.#file, 'r+');
      const fd = this.#fd;
      await new Promise<void>((resolve, reject) => {
        this.#sync(fd, (error) => (error === null ? resolve() : reject(error)));
      });
    } catch (cause) {
      this.#broken = fault('storage_full', `${this.#file} could not be synced to the disk`, {
        cause,
        hint: 'Look after the disk of the state directory, then start the runtime again.',
      });
      throw this.#broken;
    }
  }
}
