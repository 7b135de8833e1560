// The postings of a term in a scope as rows: parts of ascending ordinals, each named by the ordinal
// from which its distances count.
import type { Sql } from '../../../platform/sql/database.ts';

/** A part that has grown beyond this is left as it is, and the next one begins. */
export const PART_BYTES_MAX = 480;

export type PostingsPart = { part: number; last: number; records: number; postings: Uint8Array };

const COLUMNS = 'part, last, records, postings';

export function lastPart(
  sql: Sql,
  scopeId: number,
  term: string,
): Promise<PostingsPart | undefined> {
  return partAt(sql, scopeId, term, Number.MAX_SAFE_INTEGER);
}

/** The part that holds an ordinal, if any does. */
export function partAt(
  sql: Sql,
  scopeId: number,
  term: string,
  ordinal: number,
): Promise<PostingsPart | undefined> {
  return sql.one<PostingsPart>(
    `SELECT ${COLUMNS} FROM memory_index_postings
     WHERE scope_id = ? AND term = ? AND part <= ? ORDER BY part DESC LIMIT 1`,
    scopeId,
    term,
    ordinal,
  );
}

/** The newest first. */
export function partsOf(sql: Sql, scopeId: number, term: string): Promise<PostingsPart[]> {
  return sql.all<PostingsPart>(
    `SELECT ${COLUMNS} FROM memory_index_postings
     WHERE scope_id = ? AND term = ? ORDER BY part DESC`,
    scopeId,
    term,
  );
}

/** How many records of a scope have a term. */
export async function recordsWith(sql: Sql, scopeId: number, term: string): Promise<number> {
  const row = await sql.one<{ records: number }>(
    `SELECT coalesce(sum(records), 0) AS records FROM memory_index_postings
     WHERE scope_id = ? AND term = ?`,
    scopeId,
    term,
  );
  return row!.records;
}

export async function putPart(
  sql: Sql,
  scopeId: number,
  term: string,
  part: PostingsPart,
): Promise<void> {
  await sql.run(
    `REPLACE INTO memory_index_postings (scope_id, term, ${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)`,
    scopeId,
    term,
    part.part,
    part.last,
    part.records,
    part.postings,
  );
}

export async function deletePart(
  sql: Sql,
  scopeId: number,
  term: string,
  part: number,
): Promise<void> {
  await sql.run(
    'DELETE FROM memory_index_postings WHERE scope_id = ? AND term = ? AND part = ?',
    scopeId,
    term,
    part,
  );
}
