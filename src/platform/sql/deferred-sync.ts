// SQLite with a deferred fsync: a commit writes the WAL without waiting for the disk, and another
// thread syncs it. `write` resolves when durable, `commit` earlier, with a promise for that.
import { closeSync, fdatasync, openSync } from 'node:fs';
import type { Fault } from '../../wire/errors.ts';
import type { Database } from './database.ts';
import { endProcess, failedSyncFault, type OnFailedSync } from './failed-sync.ts';
import type { SqliteDatabase, SqlNow } from './sqlite.ts';

export type DeferredSyncDatabase = Database & {
  /** Resolves when it is committed: a crash of this process no longer undoes it. */
  commit<T>(work: (sql: SqlNow) => T): Promise<Committed<T>>;
};
export type Committed<T> = {
  value: T;
  /** Resolves when a crash of the machine no longer undoes it, after the flush delay. */
  durable: Promise<void>;
  /** Syncs without the flush delay. */
  syncNow(): Promise<void>;
};

export type Sync = (fd: number, done: (error: Error | null) => void) => void;

export type DeferredSyncOptions = {
  sync?: Sync;
  onFailedSync?: OnFailedSync;
  /**
   * The length of the WAL at which it is copied into the database. A copy waits for the disk twice,
   * and copies a page that changed often only once.
   */
  logPagesMax?: number;
  cacheKbMax?: number;
};

export async function deferSync(
  inner: SqliteDatabase,
  file: string,
  { sync = fdatasync, onFailedSync = endProcess, ...tuning }: DeferredSyncOptions = {},
): Promise<DeferredSyncDatabase> {
  // SQLite itself now syncs the WAL only before copying it into the database, which keeps the
  // database consistent. LogSync makes commits durable.
  await inner.read((sql) => sql.all('PRAGMA synchronous = NORMAL'));
  if (tuning.logPagesMax !== undefined)
    await inner.read((sql) => sql.all(`PRAGMA wal_autocheckpoint = ${tuning.logPagesMax}`));
  if (tuning.cacheKbMax !== undefined)
    await inner.read((sql) => sql.all(`PRAGMA cache_size = -${tuning.cacheKbMax}`));
  const log = new LogSync(`${file}-wal`, sync, onFailedSync);
  return {
    async commit(work) {
      log.assertWhole();
      const value = await inner.writeNow(work);
      return { value, durable: log.syncSoon(), syncNow: () => log.sync() };
    },
    async write(work) {
      log.assertWhole();
      const value = await inner.write(work);
      await log.sync();
      return value;
    },
    read: (work) => inner.read(work),
    async close() {
      await log.settle();
      await inner.close();
      await log.close();
    },
  };
}

/** A commit without a waiter is synced after this time. */
const FLUSH_DELAY_MS = 20;

/** Runs one sync at a time; everything written before the next one starts shares it. */
class LogSync {
  readonly #file: string;
  readonly #sync: Sync;
  readonly #onFailedSync: OnFailedSync;
  #fd: number | undefined;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  /** The next sync has a waiter. */
  #isUrgent = false;
  #flushNow: (() => void) | undefined;
  #broken: Fault | undefined;

  constructor(file: string, sync: Sync, onFailedSync: OnFailedSync) {
    this.#file = file;
    this.#sync = sync;
    this.#onFailedSync = onFailedSync;
  }

  /** Throws after a failed sync, until the process has ended. */
  assertWhole(): void {
    if (this.#broken !== undefined) throw this.#broken;
  }

  sync(): Promise<void> {
    const next = this.syncSoon();
    this.#isUrgent = true;
    this.#flushNow?.();
    return next;
  }

  syncSoon(): Promise<void> {
    if (this.#next !== undefined) return this.#next;
    const next = this.#syncNext();
    next.catch(() => undefined); // Waiters get the error, and assertWhole throws it.
    this.#next = next;
    return next;
  }

  /** Resolves when no sync is pending, whether the last one succeeded or failed. */
  async settle(): Promise<void> {
    for (let last = this.#last(); last !== undefined; last = this.#last())
      await last.catch(() => undefined);
  }

  async close(): Promise<void> {
    await this.settle();
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }

  #last(): Promise<void> | undefined {
    return this.#next === undefined ? this.#running : this.sync();
  }

  async #syncNext(): Promise<void> {
    await this.#running?.catch(() => undefined);
    await this.#waitForFlush();
    this.#running = this.#next;
    this.#next = undefined;
    this.#isUrgent = false;
    try {
      await this.#syncNow();
    } finally {
      this.#running = undefined;
    }
  }

  /** An urgent sync still lets the rest of this event-loop tick join. */
  async #waitForFlush(): Promise<void> {
    if (!this.#isUrgent) await this.#flushDelay();
    if (this.#isUrgent) await new Promise((resolve) => setImmediate(resolve));
  }

  #flushDelay(): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#flushNow = undefined;
        resolve();
      };
      const timer = setTimeout(end, FLUSH_DELAY_MS);
      timer.unref();
      this.#flushNow = end;
    });
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
      this.#broken = failedSyncFault(this.#file, cause);
      this.#onFailedSync(this.#broken);
      throw this.#broken;
    }
  }
}
