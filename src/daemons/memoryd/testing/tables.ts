// Test helper: everything in memoryd's tables that follows from the journal.
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/** The outbox has what was not sent yet; the notes about vectors, what is not made yet. */
const OTHERS = /^(sqlite_|outbox|vectors_due|embedder)/;

export function dumpTables(stateDir: string): Record<string, string[]> {
  const db = new DatabaseSync(join(stateDir, 'memoryd.sqlite'), { readOnly: true });
  try {
    const names = db
      .prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
      .all()
      .map(({ name }) => String(name));
    return Object.fromEntries(
      names
        .filter((name) => !OTHERS.test(name))
        .map((name) => [
          name,
          db
            .prepare(`SELECT * FROM ${name}`)
            .all()
            .map((row) => JSON.stringify(row, encodeBytes))
            .sort(),
        ]),
    );
  } finally {
    db.close();
  }
}

const encodeBytes = (_key: string, value: unknown): unknown =>
  value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value;

/** A rebuilt index has the same records in other places, if some were removed. */
export const withoutIndex = (tables: Record<string, string[]>): Record<string, string[]> =>
  Object.fromEntries(Object.entries(tables).filter(([name]) => !name.startsWith('memory_index')));
