// Which versions are still to get a vector. A version is due from the transaction that puts it into
// the index, so that a crash only delays its vector.
import type { Database, Sql, SqlRow } from '../../../platform/sql/database.ts';
import type { VersionRow } from '../store/schema.ts';
import { addVectors, removeVectors, type StoredVector } from './blocks.ts';
import type { MadeVectors } from './embedder.ts';

export type DueVersion = VersionRow & { scope: string };
/** `whole`: since then, every version of the index has a vector of `model` or is due. */
type EmbedderRow = { name: string; model: string | null; whole: number };

const PAGE = 1_000;

/** Versions that have a vector, as in a rebuild, keep it. */
export const addDue = (sql: Sql, numbers: readonly number[]): Promise<number> =>
  sql.run(
    'INSERT OR IGNORE INTO vectors_due (number, due_ms) SELECT value, 0 FROM json_each(?) wanted ' +
      'WHERE NOT EXISTS (SELECT 1 FROM vectors v WHERE v.number = wanted.value)',
    JSON.stringify(numbers),
  );

/** Without those that were refused: they have no time, and are tried again after a restart. */
export const listDue = (sql: Sql, nowMs: number, limit: number): Promise<DueVersion[]> =>
  sql.all<DueVersion>(
    'SELECT v.*, m.scope FROM vectors_due d JOIN versions v ON v.number = d.number ' +
      'JOIN memories m ON m.id = v.memory_id WHERE d.due_ms <= ? ORDER BY d.due_ms, d.number LIMIT ?',
    nowMs,
    limit,
  );

export async function findNextDueMs(sql: Sql): Promise<number | undefined> {
  const row = await sql.one<SqlRow>(
    'SELECT due_ms FROM vectors_due WHERE due_ms IS NOT NULL ORDER BY due_ms LIMIT 1',
  );
  return row === undefined ? undefined : Number(row.due_ms);
}

/** Null: until the next start. */
export async function postpone(
  sql: Sql,
  numbers: readonly number[],
  { untilMs, refused }: { untilMs: number | null; refused: string },
): Promise<void> {
  for (const number of numbers)
    await sql.run(
      'UPDATE vectors_due SET due_ms = ?, refused = ? WHERE number = ?',
      untilMs,
      refused,
      number,
    );
}

/** A page of them. Returns as `addMissing`. */
export async function retryRefused(sql: Sql, after: number): Promise<number | undefined> {
  const rows = await sql.all<{ number: number }>(
    'SELECT number FROM vectors_due WHERE due_ms IS NULL AND number > ? ORDER BY number LIMIT ?',
    after,
    PAGE,
  );
  for (const { number } of rows)
    await sql.run('UPDATE vectors_due SET due_ms = 0, refused = NULL WHERE number = ?', number);
  return rows.length < PAGE ? undefined : rows.at(-1)!.number;
}

/** One that was forgotten or pruned meanwhile is not due any more, and gets none. */
export async function storeVectors(
  sql: Sql,
  versions: readonly DueVersion[],
  { model, vectors }: MadeVectors,
): Promise<void> {
  const stored = new Map<string, StoredVector[]>();
  for (const [i, { number, scope }] of versions.entries()) {
    const isDue = await sql.run('DELETE FROM vectors_due WHERE number = ?', number);
    if (isDue === 0) continue;
    const own = stored.get(scope) ?? [];
    own.push({ number: Number(number), vector: vectors[i]! });
    stored.set(scope, own);
  }
  for (const [scope, own] of stored) await addVectors(sql, { scope, model }, own);
}

/** The versions are no longer in the index. */
export async function dropVersions(sql: Sql, numbers: readonly number[]): Promise<void> {
  await removeVectors(sql, numbers);
  for (const number of numbers) await sql.run('DELETE FROM vectors_due WHERE number = ?', number);
}

/** Removes those of versions that a rebuild did not find. Returns as `addMissing`. */
export async function removeOrphans(sql: Sql, after: number): Promise<number | undefined> {
  const rows = await sql.all<{ number: number; indexed: number | null }>(
    'SELECT v.number, r.number AS indexed FROM vectors v LEFT JOIN memory_index_records r ' +
      'ON r.number = v.number WHERE v.number > ? ORDER BY v.number LIMIT ?',
    after,
    PAGE,
  );
  const orphans = rows.filter(({ indexed }) => indexed === null);
  await dropVersions(
    sql,
    orphans.map(({ number }) => number),
  );
  return rows.length < PAGE ? undefined : rows.at(-1)!.number;
}

/** Takes steps, each in a transaction of its own, until one returns nothing. */
export async function inPages(
  db: Database,
  step: (sql: Sql, after: number) => Promise<number | undefined>,
): Promise<void> {
  let after: number | undefined = 0;
  while (after !== undefined) {
    const from: number = after;
    after = await db.write((sql) => step(sql, from));
  }
}

const readEmbedder = (sql: Sql): Promise<EmbedderRow | undefined> =>
  sql.one<EmbedderRow>('SELECT name, model, whole FROM embedder');

/** Without an embedder nothing is due; what is written then is found by `addMissing`. */
export async function switchOff(sql: Sql): Promise<void> {
  await sql.run('UPDATE embedder SET whole = 0 WHERE whole = 1');
  await sql.run('DELETE FROM vectors_due');
}

/** Resolves to the model whose vectors count, '' for none, if some may be missing. */
export async function findModelToComplete(sql: Sql, name: string): Promise<string | undefined> {
  const row = await readEmbedder(sql);
  if (row?.name !== name) return '';
  return row.whole === 1 ? undefined : (row.model ?? '');
}

/** Makes versions without a vector of this model due, a page. Resolves to where the next begins. */
export async function addMissing(
  sql: Sql,
  model: string,
  after: number,
): Promise<number | undefined> {
  const rows = await sql.all<{ number: number }>(
    'SELECT number FROM memory_index_records WHERE number > ? ORDER BY number LIMIT ?',
    after,
    PAGE,
  );
  await sql.run(
    'INSERT OR IGNORE INTO vectors_due (number, due_ms) SELECT value, 0 FROM json_each(?) wanted ' +
      'WHERE NOT EXISTS (SELECT 1 FROM vectors v WHERE v.number = wanted.value AND v.model = ?)',
    JSON.stringify(rows.map(({ number }) => number)),
    model,
  );
  return rows.length < PAGE ? undefined : rows.at(-1)!.number;
}

export const setWhole = (sql: Sql, name: string): Promise<number> =>
  sql.run(
    'INSERT INTO embedder (one, name, model, whole) VALUES (1, ?, NULL, 1) ' +
      'ON CONFLICT (one) DO UPDATE SET name = excluded.name, whole = 1',
    name,
  );

/** Resolves to whether the name stands for another model than before. */
export async function noteModel(sql: Sql, model: string): Promise<boolean> {
  const row = await readEmbedder(sql);
  if (row?.model === model) return false;
  await sql.run('UPDATE embedder SET model = ?', model);
  return row?.model !== null;
}
