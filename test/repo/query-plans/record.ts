// Fills the databases of stores by their own methods, and records each statement they prepare.
import { DatabaseSync } from 'node:sqlite';
import { findIds, type IdColumns, type IdSource } from '../../../src/platform/find-ids.ts';

/** How many ended things a filled store has of each kind. */
export const HISTORY = 80;

export type StoreUse = {
  /** Below src/daemons; its statements have to occur. */
  daemon: string;
  /** Tables that do not grow with history, and why. */
  smallTables: Record<string, string>;
  /** Ends HISTORY things of each kind, leaves a few open, and calls every method of the store. */
  use(file: string): Promise<void>;
};

/** Resolves to the statements that were prepared on this file. */
export async function recordStatements(
  file: string,
  work: (file: string) => Promise<void>,
): Promise<Set<string>> {
  const statements = new Set<string>();
  const { prepare } = DatabaseSync.prototype;
  DatabaseSync.prototype.prepare = function (this: DatabaseSync, text: string, ...rest) {
    if (this.location() === file) statements.add(text);
    return prepare.call(this, text, ...rest);
  };
  try {
    await work(file);
  } finally {
    DatabaseSync.prototype.prepare = prepare;
  }
  return statements;
}

/** Calls work with every number, all at once: the store commits them in groups. */
export async function forEachOf(
  count: number,
  work: (n: number) => Promise<unknown>,
): Promise<void> {
  await Promise.all(Array.from({ length: count }, (_, n) => work(n)));
}

/** Returns every choice of some of these names, with a value for each. */
export function listChoices<K extends string>(
  values: Readonly<Record<K, string>>,
): Partial<Record<K, string>>[] {
  const choices: Partial<Record<K, string>>[] = [{}];
  for (const [name, value] of Object.entries(values))
    choices.push(...choices.map((choice) => ({ ...choice, [name]: value })));
  return choices;
}

/** The names by which a list route filters. */
export function listFilterNames(query: unknown): string[] {
  const { shape } = query as { shape: Record<string, unknown> };
  return Object.keys(shape).filter((name) => name !== 'limit' && name !== 'cursor');
}

/** Looks up ids of every kind that people may shorten. */
export async function useIds(db: IdSource['db'], columns: IdColumns): Promise<void> {
  const caller = { kind: 'operator', principal: 'person:ann' } as const;
  for (const kind of Object.keys(columns)) await findIds({ db, columns }, `${kind}_0`, caller);
}
