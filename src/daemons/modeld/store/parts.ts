// Bodies of messages and answers, each once, by the hash of its content. Hashes come in no order,
// so a tree of them would have one page changed for every body: new bodies are only added at the
// end, and the tree hears of many at once.
import type { Sql } from '../../../platform/sql/database.ts';
import type { SqlNow } from '../../../platform/sql/sqlite.ts';

export type ContextPart = { hash: string; body: string; labels: number; source: string };
export type PartRow = {
  id: number;
  hash: string;
  body: string | null;
  labels: number;
  source: string;
};

/** `keyOf`, as SQL. */
const KEY_OF_HASH = Array.from(
  { length: 12 },
  (_, i) => `((instr('0123456789abcdef', substr(hash, ${i + 1}, 1)) - 1) << ${44 - 4 * i})`,
).join(' | ');

/** From one tree by hash to rows in the order they came, with what is here put into the tree. */
export const LOOSEN_PARTS = `
ALTER TABLE parts RENAME TO parts_by_hash;
CREATE TABLE parts (
  id INTEGER PRIMARY KEY,
  hash TEXT NOT NULL,
  labels INTEGER NOT NULL,
  source TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  body TEXT
);
INSERT INTO parts (hash, labels, source, created_ms, body)
  SELECT hash, labels, source, created_ms, body FROM parts_by_hash ORDER BY rowid;
DROP TABLE parts_by_hash;
CREATE TABLE part_keys (
  key INTEGER NOT NULL,
  id INTEGER NOT NULL,
  PRIMARY KEY (key, id)
) WITHOUT ROWID;
INSERT INTO part_keys (key, id) SELECT ${KEY_OF_HASH} AS key, id FROM parts ORDER BY key, id;
CREATE TABLE part_keys_end (id INTEGER NOT NULL);
INSERT INTO part_keys_end (id) SELECT COALESCE(MAX(id), 0) FROM parts;`;

/** So many bodies are found by looking at each, before they go into the tree together. */
const LOOSE_MAX = 1_000;
const KNOWN_MAX = 4_096;

type Stored = { id: number; labels: number; isNew: boolean };
/** Parts that a transaction writes. */
type FreshParts = Map<string, Stored>;

/** The beginning of the hash: a number is a quarter of its size. */
function keyOf(hash: string): number {
  return Number.parseInt(hash.slice(0, 12), 16);
}

const FIND = `SELECT p.id, p.hash, p.body, p.labels, p.source FROM part_keys k
  JOIN parts p ON p.id = k.id WHERE k.key = ? AND p.hash = ?`;
const FIND_LOOSE = `SELECT id, hash, body, labels, source FROM parts
  WHERE id > (SELECT id FROM part_keys_end) AND hash = ?`;

export async function readPart(sql: Sql, hash: string): Promise<PartRow | undefined> {
  return (await sql.one<PartRow>(FIND, keyOf(hash), hash)) ?? sql.one<PartRow>(FIND_LOOSE, hash);
}

/** True when there was a body. */
export async function forgetBody(sql: Sql, hash: string): Promise<boolean> {
  const found = await readPart(sql, hash);
  if (found === undefined || found.body === null) return false;
  await sql.run('UPDATE parts SET body = NULL WHERE id = ?', found.id);
  return true;
}

/** The only one that adds parts. */
export class PartWriter {
  /** Stored, and said lately. */
  readonly #known = new Map<string, Stored>();
  /** Stored, and not in the tree: hash → id. */
  #loose: Map<string, number> | undefined;
  #nextId = 1;

  /** All parts of one transaction. */
  writeAll(sql: SqlNow, parts: Iterable<ContextPart>, nowMs: number): void {
    const fresh: FreshParts = new Map();
    for (const part of parts) this.#write(sql, part, nowMs, fresh);
    if (fresh.size === 0) return;
    const hasKeys = this.#writeKeys(sql);
    sql.afterCommit(() => this.#remember(fresh, hasKeys));
  }

  #write(sql: SqlNow, part: ContextPart, nowMs: number, fresh: FreshParts): void {
    const { hash, labels } = part;
    const known = fresh.get(hash) ?? this.#known.get(hash);
    if (known !== undefined && (labels & ~known.labels) === 0) return;
    const found = known ?? this.#find(sql, hash);
    if (found !== undefined) {
      // A body that was forgotten stays forgotten when the same text comes again.
      sql.run('UPDATE parts SET labels = labels | ? WHERE id = ?', labels, found.id);
      fresh.set(hash, { ...found, labels: labels | found.labels });
      return;
    }
    const id = this.#nextId++;
    sql.run(
      'INSERT INTO parts (id, hash, labels, source, created_ms, body) VALUES (?, ?, ?, ?, ?, ?)',
      id,
      hash,
      labels,
      part.source,
      nowMs,
      part.body,
    );
    fresh.set(hash, { id, labels, isNew: true });
  }

  #find(sql: SqlNow, hash: string): Stored | undefined {
    this.#loose ??= this.#load(sql);
    const id = this.#loose.get(hash);
    const found =
      id === undefined
        ? sql.one<Stored>(FIND, keyOf(hash), hash)
        : sql.one<Stored>('SELECT id, labels FROM parts WHERE id = ?', id);
    return found && { id: found.id, labels: found.labels, isNew: false };
  }

  #load(sql: SqlNow): Map<string, number> {
    this.#nextId = (sql.one<{ id: number | null }>('SELECT MAX(id) AS id FROM parts')?.id ?? 0) + 1;
    const rows = sql.all<{ id: number; hash: string }>(
      'SELECT id, hash FROM parts WHERE id > (SELECT id FROM part_keys_end)',
    );
    return new Map(rows.map(({ id, hash }) => [hash, id]));
  }

  /** Takes what earlier transactions left loose into the tree, when it is much. */
  #writeKeys(sql: SqlNow): boolean {
    const loose = this.#loose;
    if (loose === undefined || loose.size < LOOSE_MAX) return false;
    // In the order of the tree, so that each of its pages is looked for once.
    const keys = [...loose].map(([hash, id]) => ({ key: keyOf(hash), id }));
    keys.sort((a, b) => a.key - b.key);
    let end = 0;
    for (const { key, id } of keys) {
      sql.run('INSERT INTO part_keys (key, id) VALUES (?, ?)', key, id);
      end = Math.max(end, id);
    }
    sql.run('UPDATE part_keys_end SET id = ?', end);
    return true;
  }

  #remember(fresh: FreshParts, hasKeys: boolean): void {
    if (hasKeys) this.#loose?.clear();
    for (const [hash, { id, labels, isNew }] of fresh) {
      if (isNew) this.#loose?.set(hash, id);
      this.#known.set(hash, { id, labels, isNew: false });
    }
    let over = this.#known.size - KNOWN_MAX;
    if (over <= 0) return;
    for (const hash of this.#known.keys()) {
      this.#known.delete(hash);
      if (--over <= 0) break;
    }
  }
}
