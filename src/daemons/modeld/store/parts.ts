// Stores the bodies of messages and responses, each once, by the hash of its content.
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

/**
 * Hashes are random, so that each new part changes another page of an index of them. A short key
 * makes that index a quarter as large, which saves a tenth of the time of a busy journal.
 */
const KEY_LENGTH = 8;
const KEY = `substr(hash, 1, ${KEY_LENGTH})`;
export const PARTS_BY_KEY = `CREATE INDEX parts_by_key ON parts (${KEY});`;
export const BY_HASH = `${KEY} = ? AND hash = ?`;
export const byHash = (hash: string): [key: string, hash: string] => [
  hash.slice(0, KEY_LENGTH),
  hash,
];

export function readPart(sql: Sql, hash: string): Promise<PartRow | undefined> {
  return sql.one<PartRow>(
    `SELECT id, hash, body, labels, source FROM parts WHERE ${BY_HASH}`,
    ...byHash(hash),
  );
}

/** Resolves to true when there was a body. */
export async function forgetBody(sql: Sql, hash: string): Promise<boolean> {
  const part = await readPart(sql, hash);
  if (part === undefined || part.body === null) return false;
  await sql.run('UPDATE parts SET body = NULL WHERE id = ?', part.id);
  return true;
}

/** Adds a part, or the labels of one that exists. A forgotten body stays forgotten. */
export function writePart(sql: SqlNow, part: ContextPart, nowMs: number): void {
  const { hash, labels, source, body } = part;
  const found = sql.one<{ id: number; labels: number }>(
    `SELECT id, labels FROM parts WHERE ${BY_HASH}`,
    ...byHash(hash),
  );
  if (found === undefined)
    sql.run(
      'INSERT INTO parts (hash, labels, source, created_ms, body) VALUES (?, ?, ?, ?, ?)',
      hash,
      labels,
      source,
      nowMs,
      body,
    );
  else if ((labels & ~found.labels) !== 0)
    sql.run('UPDATE parts SET labels = labels | ? WHERE id = ?', labels, found.id);
}
