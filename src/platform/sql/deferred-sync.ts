// SQLite whose fsync stops nobody: a commit writes the log without waiting for the disk, and
// another thread syncs it while this one goes on. What `write` gives is durable, and what `commit`
// gives says when it is: soon, or at once for whoever cannot wait.
import { closeSync, fdatasync, openSync } from 'node:fs';
import type { Fault } from '../../wire/errors.ts';
import type { Database } from './database.ts';
import { endProcess, failedSyncFault, type OnFailedSync } from './failed-sync.ts';
import type { SqliteDatabase, SqlNow } from './sqlite.ts';

export type DeferredSyncDatabase = Database & {
  /** Resolves when it is committed: a crash of this process cannot undo it any more. */
  commit<T>(work: (sql: SqlNow) => T): Promise<Committed<T>>;
};
export type Committed<T> = {
  value: T;
  /** Resolves when a crash of the machine cannot undo it either, which is seen to soon. */
  durable: Promise<void>;
  /** The same, and it is seen to now. */
  syncNow(): Promise<void>;
};

export type Sync = (fd: number, done: (error: Error | null) => void) => void;

export type LateOptions = {
  sync?: Sync;
  onFailedSync?: OnFailedSync;
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
  { sync = fdatasync, onFailedSync = endProcess, ...tuning }: LateOptions = {},
): Promise<DeferredSyncDatabase> {
  // SQLite itself then syncs the log only before it copies it into the database, which keeps the
  // database whole. That every commit is durable is seen to here.
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

/** So long a commit that nobody waits for may be in the hands of the kernel alone. */
const SOON_MS = 20;

/** One sync at a time; what is written before the next begins shares it. */
class LogSync {
  readonly #file: string;
  readonly #sync: Sync;
  readonly #onFailedSync: OnFailedSync;
  #fd: number | undefined;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  /** Somebody waits for the next one. */
  #isUrgent = false;
  #hurry: (() => void) | undefined;
  #broken: Fault | undefined;

  constructor(file: string, sync: Sync, onFailedSync: OnFailedSync) {
    this.#file = file;
    this.#sync = sync;
    this.#onFailedSync = onFailedSync;
  }

  /** Throws after a failed sync, for as long as the process is still there. */
  assertWhole(): void {
    if (this.#broken !== undefined) throw this.#broken;
  }

  sync(): Promise<void> {
    const next = this.syncSoon();
    this.#isUrgent = true;
    this.#hurry?.();
    return next;
  }

  syncSoon(): Promise<void> {
    if (this.#next !== undefined) return this.#next;
    const next = this.#syncNext();
    next.catch(() => undefined); // Whoever waits hears of it, and assertWhole tells the rest.
    this.#next = next;
    return next;
  }

  /** Nothing waits for a sync any more; whether it was one, those who waited know. */
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
    await this.#untilItIsTime();
    this.#running = this.#next;
    this.#next = undefined;
    this.#isUrgent = false;
    try {
      await this.#syncNow();
    } finally {
      this.#running = undefined;
    }
  }

  /** What this turn of the loop still has to say or to write goes first. */
  async #untilItIsTime(): Promise<void> {
    if (!this.#isUrgent) await this.#aWhile();
    if (this.#isUrgent) await new Promise((resolve) => setImmediate(resolve));
  }

  #aWhile(): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#hurry = undefined;
        resolve();
      };
      const timer = setTimeout(end, SOON_MS);
      timer.unref();
      this.#hurry = end;
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
