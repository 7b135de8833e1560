// The interface of a store's database. One call is one transaction; its function may await only its
// own statements, so that a transaction never stays open across other work.

export type Value = string | number | null | Uint8Array;
export type SqlRow = Record<string, Value>;

export type Sql = {
  all<T = SqlRow>(text: string, ...values: Value[]): Promise<T[]>;
  /** The first row, or undefined. */
  one<T = SqlRow>(text: string, ...values: Value[]): Promise<T | undefined>;
  /** Resolves to the number of changed rows. */
  run(text: string, ...values: Value[]): Promise<number>;
  /**
   * Registers a callback for the commit, if the database supports it. Callbacks run in commit
   * order, before `write` resolves, and not after a rollback.
   */
  afterCommit?(work: () => void): void;
  /** Adds an item to the journal that the database was opened with. */
  addToJournal?(item: unknown): void;
};

export type Database = {
  /** Resolves when durable. If `work` throws, only its own changes are rolled back. */
  write<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  read<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  close(): Promise<void>;
};

/** SQL for both SQLite and PostgreSQL. The index of an entry is its version. */
export type Migrations = readonly string[];
