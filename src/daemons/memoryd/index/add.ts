// Adds records to the index, inside the caller's transaction. Per term and scope one row is read
// and written, so records that come together cost less.
import type { Sql } from '../../../platform/sql/database.ts';
import { Entries, type IndexEntry } from './entries.ts';
import { lastPart, PART_BYTES_MAX, putPart } from './parts.ts';
import { encode, type Posting } from './postings.ts';
import { type IndexedRecord, type RecordTerms, recordTerms } from './record-terms.ts';

export type ScopeRow = { id: number; next: number; records: number; terms: number };

/** A number that is in the index already is refused by the database. */
export async function addToIndex(sql: Sql, records: readonly IndexedRecord[]): Promise<void> {
  for (const [scope, ofScope] of Map.groupBy(records, (record) => record.scope))
    await addToScope(sql, scope, ofScope);
}

async function addToScope(sql: Sql, scope: string, records: IndexedRecord[]): Promise<void> {
  const row = await openScope(sql, scope);
  const entries = new Entries(sql, row.id);
  const postings = new Map<string, Posting[]>();
  for (const record of records) {
    const found = recordTerms(record);
    const ordinal = row.next++;
    row.records++;
    row.terms += found.length;
    for (const [term, weight] of found.weights) {
      const list = postings.get(term);
      if (list === undefined) postings.set(term, [{ ordinal, weight }]);
      else list.push({ ordinal, weight });
    }
    await addEntry(sql, row.id, entries, { ordinal, record, found });
  }
  for (const [term, added] of postings) await append(sql, row.id, term, added);
  await entries.save();
  await sql.run(
    'UPDATE memory_index_scopes SET next = ?, records = ?, terms = ? WHERE id = ?',
    row.next,
    row.records,
    row.terms,
    row.id,
  );
}

async function openScope(sql: Sql, scope: string): Promise<ScopeRow> {
  await sql.run(
    'INSERT INTO memory_index_scopes (scope, next, records, terms) VALUES (?, 1, 0, 0) ON CONFLICT DO NOTHING',
    scope,
  );
  return (await sql.one<ScopeRow>(
    'SELECT id, next, records, terms FROM memory_index_scopes WHERE scope = ?',
    scope,
  ))!;
}

type Added = { ordinal: number; record: IndexedRecord; found: RecordTerms };

async function addEntry(sql: Sql, scopeId: number, entries: Entries, added: Added): Promise<void> {
  const { ordinal, record, found } = added;
  const place =
    record.thread === undefined
      ? { before: 0, after: 0, seq: 0 }
      : await link(sql, scopeId, entries, ordinal, record.thread, record.seq);
  await entries.set(ordinal, {
    number: record.number,
    atMs: record.occurredAtMs ?? record.recordedAtMs,
    ...place,
    importance: record.importance ?? 0.5,
    isQuestion: found.isQuestion,
    tellsTime: found.tellsTime,
  });
  await sql.run(
    'INSERT INTO memory_index_records (number, scope_id, ordinal, thread, terms) VALUES (?, ?, ?, ?, ?)',
    record.number,
    scopeId,
    ordinal,
    record.thread ?? null,
    found.terms.join(' '),
  );
}

/** Finds the place of a record in its thread, usually the end, and links its neighbours to it. */
async function link(
  sql: Sql,
  scopeId: number,
  entries: Entries,
  ordinal: number,
  thread: string,
  wanted: number | undefined,
): Promise<Pick<IndexEntry, 'before' | 'after' | 'seq'>> {
  const end = await sql.one<{ last: number }>(
    'SELECT last FROM memory_index_threads WHERE scope_id = ? AND thread = ?',
    scopeId,
    thread,
  );
  let after = 0;
  let before = end?.last ?? 0;
  let previous = before === 0 ? undefined : await entries.get(before);
  const seq = wanted ?? (previous?.seq ?? -1) + 1;
  while (previous !== undefined && previous.seq > seq) {
    after = before;
    before = previous.before;
    previous = before === 0 ? undefined : await entries.get(before);
  }
  if (previous !== undefined) await entries.set(before, { ...previous, after: ordinal });
  const next = after === 0 ? undefined : await entries.get(after);
  if (next !== undefined) await entries.set(after, { ...next, before: ordinal });
  else await setLast(sql, scopeId, thread, ordinal);
  return { before, after, seq };
}

export async function setLast(
  sql: Sql,
  scopeId: number,
  thread: string,
  last: number,
): Promise<void> {
  await sql.run(
    'REPLACE INTO memory_index_threads (scope_id, thread, last) VALUES (?, ?, ?)',
    scopeId,
    thread,
    last,
  );
}

/** Appends to the last part of a term, and begins new ones when it is full. */
async function append(sql: Sql, scopeId: number, term: string, added: Posting[]): Promise<void> {
  const open = await lastPart(sql, scopeId, term);
  let rest = added;
  if (open !== undefined && open.postings.length < PART_BYTES_MAX) {
    const now = rest.slice(0, roomIn(open.postings.length));
    rest = rest.slice(now.length);
    const postings = Buffer.concat([open.postings, encode(now, open.last)]);
    const { part } = open;
    const last = now.at(-1)!.ordinal;
    await putPart(sql, scopeId, term, { part, last, records: open.records + now.length, postings });
  }
  while (rest.length > 0) {
    const now = rest.slice(0, roomIn(0));
    rest = rest.slice(now.length);
    const part = now[0]!.ordinal;
    const last = now.at(-1)!.ordinal;
    await putPart(sql, scopeId, term, {
      part,
      last,
      records: now.length,
      postings: encode(now, part),
    });
  }
}

/** How many postings fit, if each takes two bytes; a few bytes more do no harm. */
const roomIn = (used: number): number => Math.ceil((PART_BYTES_MAX - used) / 2);
