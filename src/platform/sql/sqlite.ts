// SQLite as a Database: one connection, WAL, full sync, and group commit. All queued writes go into
// one transaction, each in its own savepoint, and become durable together with one fsync.
import { chmodSync, closeSync, openSync, statSync } from 'node:fs';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { type Fault, fault } from '../../wire/errors.ts';
import { Gate, type Hold } from '../holds.ts';
import { convertToAutoVacuum, enableAutoVacuum } from './auto-vacuum.ts';
import type { Database, Sql, SqlRow, Value } from './database.ts';
import { endProcess, type OnFailedSync } from './failed-sync.ts';
import { type MigrateOptions, migrate } from './migrate.ts';
import { isFailedSync, sqliteFault } from './sqlite-fault.ts';

const GROUP_MAX = 256;
const QUEUE_MAX = 20_000;
/** A WAL that a long reader let grow is cut to this; without one it stays below. */
const WAL_BYTES_MAX = 64 * 2 ** 20;

type QueuedTransaction = {
  work: (sql: Sql) => Promise<unknown>;
  resolve: (v: unknown) => void;
  reject: (e: unknown) => void;
};

/**
 * A file that is written before the database: what it has is done, even if the process dies before
 * the commit. Whoever opens both completes the database.
 */
export type CommitJournal = {
  /** Appends the items of a group durably. If it throws, the group is rolled back. */
  append(items: readonly unknown[]): void;
  /** Takes the last append back, because the commit has failed. */
  takeBack(): void;
};

export type SqliteOptions = MigrateOptions & {
  onFailedSync?: OnFailedSync;
  journal?: CommitJournal;
};

/** Synchronous statements. */
export type SqlNow = {
  run(text: string, ...values: Value[]): void;
  /** Returns how many rows it changed. RETURNING would cost three times as much. */
  change(text: string, ...values: Value[]): number;
  one<T = SqlRow>(text: string, ...values: Value[]): T | undefined;
  all<T = SqlRow>(text: string, ...values: Value[]): T[];
  afterCommit(work: () => void): void;
};

export type SqliteDatabase = Database & {
  readonly file: string;
  /** Resolves when no transaction is open; none begins until the hold is released. */
  hold(): Promise<Hold>;
  /**
   * Runs one synchronous transaction as soon as none is open, and rolls it back if `work` throws.
   * Cheaper than `write` for a caller that does its own grouping.
   */
  writeNow<T>(work: (sql: SqlNow) => T): Promise<T>;
  countPages(): Promise<PageCounts>;
  /** Gives up to this many free pages back to the disk. */
  reclaim(pages: number): Promise<void>;
};

/** `areReclaimable`: free pages can be given back to the disk. */
export type PageCounts = { all: number; free: number; areReclaimable: boolean };

export function openSqlite(options: SqliteOptions): SqliteDatabase {
  const { file } = options;
  restrictMode(file);
  const db = new DatabaseSync(file);
  try {
    enableAutoVacuum(db);
    db.exec('PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;');
    // Deleted bytes are overwritten, so that a forgotten text leaves no trace in a page.
    db.exec('PRAGMA secure_delete=ON');
    // After a failed sync the WAL may have a hole on the disk that the page cache hides, and a
    // power loss would lose all commits behind it. So the WAL of an earlier process is copied into
    // the database now, and starts empty.
    db.exec('PRAGMA wal_checkpoint(TRUNCATE); PRAGMA busy_timeout=5000;');
    db.exec(`PRAGMA journal_size_limit = ${WAL_BYTES_MAX}`);
    migrate(db, options);
    convertToAutoVacuum(db, options);
  } catch (error) {
    db.close();
    throw sqliteFault(error, file);
  }
  const statements = new Map<string, StatementSync>();
  const prepare = (text: string): StatementSync => {
    let statement = statements.get(text);
    if (statement === undefined) {
      statement = db.prepare(text);
      statements.set(text, statement);
    }
    return statement;
  };
  const sql: Sql = {
    all: async <T = SqlRow>(text: string, ...values: Value[]) =>
      prepare(text).all(...values) as T[],
    one: async <T = SqlRow>(text: string, ...values: Value[]) =>
      prepare(text).get(...values) as T | undefined,
    run: async (text: string, ...values: Value[]) => Number(prepare(text).run(...values).changes),
    afterCommit: (work) => void after.push(work),
    ...(options.journal === undefined
      ? {}
      : { addToJournal: (item: unknown) => void items.push(item) }),
  };
  const after: (() => void)[] = [];
  const items: unknown[] = [];
  const sqlNow: SqlNow = {
    // `run` would allocate an object with the number of changes.
    run: (text, ...values) => void prepare(text).get(...values),
    change: (text, ...values) => Number(prepare(text).run(...values).changes),
    one: <T = SqlRow>(text: string, ...values: Value[]) =>
      prepare(text).get(...values) as T | undefined,
    all: <T = SqlRow>(text: string, ...values: Value[]) => prepare(text).all(...values) as T[],
    afterCommit: (work) => void after.push(work),
  };
  const { onFailedSync = endProcess, journal } = options;
  return new SqliteConnection({ db, file, sql, sqlNow, after, items, journal, onFailedSync });
}

/** The directory has mode 0700, but a copy of it may not. SQLite gives new files the same mode. */
function restrictMode(file: string): void {
  try {
    closeSync(openSync(file, 'a', 0o600));
  } catch {
    return; // Opening the database reports the error.
  }
  for (const name of [file, `${file}-wal`, `${file}-shm`]) {
    try {
      const mode = statSync(name, { throwIfNoEntry: false })?.mode ?? 0;
      if ((mode & 0o077) !== 0) chmodSync(name, 0o600);
    } catch (cause) {
      const hint = `Check its owner, then: chmod 600 ${name}`;
      throw fault('storage_broken', `${name} is open to other users`, { cause, hint });
    }
  }
}

class SqliteConnection implements SqliteDatabase {
  readonly file: string;
  private readonly db: DatabaseSync;
  private readonly sql: Sql;
  private readonly sqlNow: SqlNow;
  private readonly onFailedSync: OnFailedSync;
  private readonly ends: { begin: StatementSync; commit: StatementSync };
  /** Called when the group in progress is committed. */
  private readonly after: (() => void)[];
  /** For the journal, by the group in progress. */
  private readonly items: unknown[];
  private readonly journal: CommitJournal | undefined;
  private queue: QueuedTransaction[] = [];
  private busy = false;
  private closed: Promise<void> | undefined;
  private idle: (() => void)[] = [];
  private readonly gate = new Gate();

  constructor(parts: {
    db: DatabaseSync;
    file: string;
    sql: Sql;
    sqlNow: SqlNow;
    after: (() => void)[];
    items: unknown[];
    journal: CommitJournal | undefined;
    onFailedSync: OnFailedSync;
  }) {
    this.db = parts.db;
    this.file = parts.file;
    this.sql = parts.sql;
    this.sqlNow = parts.sqlNow;
    this.after = parts.after;
    this.items = parts.items;
    this.journal = parts.journal;
    this.onFailedSync = parts.onFailedSync;
    this.ends = {
      begin: this.db.prepare('BEGIN IMMEDIATE'),
      commit: this.db.prepare('COMMIT'),
    };
  }

  write<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    if (this.closed !== undefined)
      return Promise.reject(fault('stopping', `${this.file} is closed`));
    if (this.queue.length >= QUEUE_MAX)
      return Promise.reject(fault('overloaded', `too many queued writes for ${this.file}`));
    return new Promise<T>((resolve, reject) => {
      this.queue.push({ work, resolve: resolve as (v: unknown) => void, reject });
      if (!this.busy) {
        this.busy = true;
        // Writes from the rest of this event-loop tick join the group.
        setImmediate(() => void this.drain());
      }
    });
  }

  async writeNow<T>(work: (sql: SqlNow) => T): Promise<T> {
    this.assertOpen();
    while (this.db.isTransaction || this.gate.isClosed)
      await (this.gate.isClosed ? this.gate.whenOpen() : nextTick());
    this.assertOpen();
    let value: T;
    try {
      this.ends.begin.run();
      value = work(this.sqlNow);
      this.ends.commit.run();
    } catch (error) {
      this.after.length = 0;
      if (this.db.isTransaction) this.db.exec('ROLLBACK');
      throw this.toFault(error);
    }
    for (const work of this.after.splice(0)) work();
    return value;
  }

  async hold(): Promise<Hold> {
    this.assertOpen();
    const hold = this.gate.close();
    while (this.db.isTransaction) await nextTick();
    return hold;
  }

  countPages(): Promise<PageCounts> {
    return this.read(async (sql) => {
      const count = async (pragma: string): Promise<number> =>
        Number(Object.values((await sql.one(`PRAGMA ${pragma}`)) ?? {})[0] ?? 0);
      const areReclaimable = (await count('auto_vacuum')) !== 0;
      return {
        all: await count('page_count'),
        free: await count('freelist_count'),
        areReclaimable,
      };
    });
  }

  reclaim(pages: number): Promise<void> {
    return this.writeNow((sql) => void sql.all(`PRAGMA incremental_vacuum(${pages})`));
  }

  private toFault(error: unknown): unknown {
    const reason = sqliteFault(error, this.file);
    if (isFailedSync(error)) this.onFailedSync(reason as Fault);
    return reason;
  }

  private assertOpen(): void {
    if (this.closed !== undefined) throw fault('stopping', `${this.file} is closed`);
  }

  /** Reads see only committed data: they wait for the group in progress. */
  async read<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    this.assertOpen();
    try {
      while (this.db.isTransaction) await nextTick();
      return await work(this.sql);
    } catch (error) {
      throw this.toFault(error);
    }
  }

  /** Refuses new work, and resolves when the queued work has been committed. */
  close(): Promise<void> {
    this.closed ??= this.closeWhenIdle();
    return this.closed;
  }

  private async closeWhenIdle(): Promise<void> {
    if (this.busy) await new Promise<void>((resolve) => this.idle.push(resolve));
    this.db.close();
  }

  private async drain(): Promise<void> {
    while (this.queue.length > 0) {
      while (this.gate.isClosed) await this.gate.whenOpen();
      await this.commitGroup(this.queue.splice(0, GROUP_MAX));
      if (this.queue.length > 0) await nextTick();
    }
    this.busy = false;
    for (const resolve of this.idle.splice(0)) resolve();
  }

  private async commitGroup(group: QueuedTransaction[]): Promise<void> {
    const done: { queued: QueuedTransaction; value: unknown }[] = [];
    try {
      this.ends.begin.run();
      for (const queued of group) {
        const result = await this.attempt(queued);
        if ('value' in result) done.push({ queued, value: result.value });
        else queued.reject(result.error);
      }
      this.commit();
    } catch (error) {
      if (this.db.isTransaction) this.db.exec('ROLLBACK');
      this.after.length = 0;
      this.items.length = 0;
      const reason = this.toFault(error) as Fault;
      // Rejecting twice is harmless: a promise settles once.
      for (const queued of group) queued.reject(reason);
      return;
    }
    for (const work of this.after.splice(0)) work();
    for (const { queued, value } of done) queued.resolve(value);
  }

  private commit(): void {
    const items = this.items.splice(0);
    if (items.length === 0 || this.journal === undefined) return void this.ends.commit.run();
    this.journal.append(items);
    try {
      this.ends.commit.run();
    } catch (error) {
      this.journal.takeBack();
      throw error;
    }
  }

  private async attempt(
    queued: QueuedTransaction,
  ): Promise<{ value: unknown } | { error: unknown }> {
    this.db.exec('SAVEPOINT one');
    const before = { after: this.after.length, items: this.items.length };
    try {
      const value = await queued.work(this.sql);
      this.db.exec('RELEASE one');
      return { value };
    } catch (error) {
      const translated = this.toFault(error);
      this.after.length = before.after;
      this.items.length = before.items;
      // SQLite may have rolled the whole transaction back itself (disk full): then the group fails.
      if (!this.db.isTransaction) throw translated;
      this.db.exec('ROLLBACK TO one; RELEASE one');
      return { error: translated };
    }
  }
}

function nextTick(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
