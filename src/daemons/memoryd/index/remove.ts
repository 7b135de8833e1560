// Removes records from the index, inside the caller's transaction: what only they had said is then
// nowhere in its tables.
import type { Sql } from '../../../platform/sql/database.ts';
import { setLast } from './add.ts';
import { Entries } from './entries.ts';
import { deletePart, partAt, putPart } from './parts.ts';
import { decode, encode } from './postings.ts';
import { isSpeakerTerm } from './record-terms.ts';

type RecordRow = {
  number: number;
  scope_id: number;
  ordinal: number;
  thread: string | null;
  terms: string;
};

/** Ignores numbers that are not in the index. */
export async function removeFromIndex(sql: Sql, numbers: readonly number[]): Promise<void> {
  for (const number of numbers) {
    const row = await sql.one<RecordRow>(
      'SELECT number, scope_id, ordinal, thread, terms FROM memory_index_records WHERE number = ?',
      number,
    );
    if (row !== undefined) await removeOne(sql, row);
  }
}

async function removeOne(sql: Sql, row: RecordRow): Promise<void> {
  const terms = row.terms.split(' ').filter((term) => term !== '');
  for (const term of new Set(terms)) await removePosting(sql, row.scope_id, term, row.ordinal);
  await removeEntry(sql, row);
  await sql.run('DELETE FROM memory_index_records WHERE number = ?', row.number);
  const length = terms.filter((term) => !isSpeakerTerm(term)).length;
  await sql.run(
    'UPDATE memory_index_scopes SET records = records - 1, terms = terms - ? WHERE id = ?',
    length,
    row.scope_id,
  );
  await sql.run('DELETE FROM memory_index_scopes WHERE id = ? AND records = 0', row.scope_id);
}

async function removePosting(
  sql: Sql,
  scopeId: number,
  term: string,
  ordinal: number,
): Promise<void> {
  const found = await partAt(sql, scopeId, term, ordinal);
  if (found === undefined) return;
  const left = decode(found.postings, found.part).filter((one) => one.ordinal !== ordinal);
  if (left.length === 0) return deletePart(sql, scopeId, term, found.part);
  const postings = encode(left, found.part);
  const last = left.at(-1)!.ordinal;
  await putPart(sql, scopeId, term, { part: found.part, last, records: left.length, postings });
}

/** Links the neighbours in the thread to each other. */
async function removeEntry(sql: Sql, row: RecordRow): Promise<void> {
  const entries = new Entries(sql, row.scope_id);
  const entry = await entries.get(row.ordinal);
  if (entry === undefined) return;
  const { before, after } = entry;
  const previous = before === 0 ? undefined : await entries.get(before);
  const next = after === 0 ? undefined : await entries.get(after);
  if (previous !== undefined) await entries.set(before, { ...previous, after });
  if (next !== undefined) await entries.set(after, { ...next, before });
  if (row.thread !== null && next === undefined) {
    if (previous !== undefined) await setLast(sql, row.scope_id, row.thread, before);
    else
      await sql.run(
        'DELETE FROM memory_index_threads WHERE scope_id = ? AND thread = ?',
        row.scope_id,
        row.thread,
      );
  }
  await entries.clear(row.ordinal);
  await entries.save();
}
