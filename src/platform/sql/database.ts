// What a store needs of a database, whichever it is: one method = one transaction. The function
// given to `write` may await only its own statements, so that a transaction never stays open across
// other work.

export type Value = string | number | null | Uint8Array;
export type SqlRow = Record<string, Value>;

export type Sql = {
  all<T = SqlRow>(text: string, ...values: Value[]): Promise<T[]>;
  /** The first row, or undefined. */
  one<T = SqlRow>(text: string, ...values: Value[]): Promise<T | undefined>;
  /** How many rows it changed. */
  run(text: string, ...values: Value[]): Promise<number>;
  /**
   * Inside `write`, where a database can do it: called when the transaction has been committed, in
   * the order of commits and before anybody is told; not when it was rolled back.
   */
  afterCommit?(work: () => void): void;
};

export type Database = {
  /** Resolves when it is durable. What throws inside is rolled back alone. */
  write<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  read<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  close(): Promise<void>;
};

/**
 * A migration is SQL that both SQLite and PostgreSQL take. Its place in the list is its version.
 */
export type Migrations = readonly string[];
