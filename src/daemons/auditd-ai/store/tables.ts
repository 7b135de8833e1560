// The tables of the index, and their statements: how a tail is written down, and how terms and ids
// are looked up in what was written. When that happens is left to store.ts.
import { crc32 } from 'node:zlib';
import type { Migrations, Sql, Value } from '../../../platform/sql/database.ts';
import { fault } from '../../../wire/errors.ts';
import {
  type IndexColumn,
  intersect,
  TAIL_EVENTS_MAX,
  type Tail,
  type TailFilter,
} from './tail.ts';

/** Grows when events are indexed in another way: an index of another shape is made again. */
const SHAPE = 4;

/**
 * A term has one row for each tail it occurs in (`first` names the tail), with the places in that
 * tail: a fraction of the rows that one per event would be. The hashes of a tail's ids are one row,
 * in the order of its events: ids are seldom looked up, and 4,096 rows of a tree that they are
 * strewn over would keep those waiting who append meanwhile.
 */
export const MIGRATIONS: Migrations = [
  `
CREATE TABLE postings (term TEXT, first INTEGER, places BLOB, PRIMARY KEY (term, first)) WITHOUT ROWID;
CREATE TABLE id_hashes (first INTEGER PRIMARY KEY, hashes BLOB NOT NULL);
CREATE TABLE sources (origin TEXT PRIMARY KEY, seq INTEGER NOT NULL);
CREATE TABLE progress (id INTEGER PRIMARY KEY, next INTEGER NOT NULL, root TEXT NOT NULL, shape INTEGER NOT NULL);
`,
];

const TABLES = {
  postings: 'term, first, places',
  id_hashes: 'first, hashes',
  sources: 'origin, seq',
  progress: 'id, next, root, shape',
};

const ROWS_AT_ONCE = 16;
const CRC_BYTES = 4;

const CODES: Record<IndexColumn, string> = {
  task_id: 't',
  root_task_id: 'o',
  agent: 'a',
  tool: 'f',
  event: 'e',
  run_id: 'r',
};
const nameOf = ({ column, value }: TailFilter): string => `${CODES[column]} ${value}`;

/** The log as far as it is indexed: how many events, and their root. */
export type IndexedHead = { size: number; root: string };

/** What the tables say they cover. Throws when they are damaged or of another shape. */
export async function readHead(sql: Sql): Promise<IndexedHead | undefined> {
  for (const [table, columns] of Object.entries(TABLES))
    await sql.all(`SELECT ${columns} FROM ${table} LIMIT 1`);
  const row = await sql.one<{ next: number; root: string; shape: number }>(
    'SELECT next, root, shape FROM progress',
  );
  if (row === undefined) return undefined;
  if (row.shape !== SHAPE)
    throw fault('storage_broken', `the index has shape ${row.shape}, not ${SHAPE}`);
  return { size: row.next, root: row.root };
}

/** The tail becomes part of the tables; `head` is the log with it. */
export async function writeTail(sql: Sql, tail: Tail, head: IndexedHead): Promise<void> {
  for (const term of tail.terms())
    await sql.run(
      'INSERT OR REPLACE INTO postings (term, first, places) VALUES (?, ?, ?)',
      nameOf(term),
      tail.first,
      pack(Uint16Array.from(term.places)),
    );
  await sql.run(
    'INSERT OR REPLACE INTO id_hashes (first, hashes) VALUES (?, ?)',
    tail.first,
    pack(Uint32Array.from(tail.idHashes)),
  );
  for (const [origin, seq] of tail.sources)
    await sql.run(
      'INSERT INTO sources (origin, seq) VALUES (?, ?) ON CONFLICT (origin) DO UPDATE SET seq = MAX(sources.seq, excluded.seq)',
      origin,
      seq,
    );
  await sql.run(
    'INSERT OR REPLACE INTO progress (id, next, root, shape) VALUES (1, ?, ?, ?)',
    head.size,
    head.root,
    SHAPE,
  );
}

/** The database notices damage in its own pages, but not inside a long value. */
function pack(list: Uint16Array | Uint32Array): Uint8Array {
  const bytes = Buffer.alloc(list.byteLength + CRC_BYTES);
  bytes.set(new Uint8Array(list.buffer, list.byteOffset, list.byteLength));
  bytes.writeUInt32LE(crc32(bytes.subarray(0, -CRC_BYTES)), list.byteLength);
  return bytes;
}

/** A copy of the list's bytes, so that numbers may begin where it begins. */
function unpack(value: Value | undefined, itemBytes: number): ArrayBuffer {
  const bytes = value instanceof Uint8Array ? value : new Uint8Array();
  const list = bytes.slice(0, -CRC_BYTES);
  const crc = bytes.length < CRC_BYTES ? -1 : Buffer.from(bytes).readUInt32LE(list.length);
  if (crc32(list) !== crc || list.length % itemBytes !== 0)
    throw fault('storage_broken', 'a list of the index is not as it was written');
  return list.buffer;
}

export type TableQuery = {
  where: readonly TailFilter[];
  /** Numbers from here on … */
  from: number;
  /** … and less than this. */
  to: number;
  order: 'asc' | 'desc';
  limit: number;
};

/** What few events have comes first: the others are looked up beside it. */
const RARE_FIRST: readonly IndexColumn[] = [
  'run_id',
  'task_id',
  'root_task_id',
  'tool',
  'agent',
  'event',
];

export async function findSeqs(sql: Sql, query: TableQuery): Promise<number[]> {
  const { order, limit } = query;
  const names = query.where
    .toSorted((a, b) => RARE_FIRST.indexOf(a.column) - RARE_FIRST.indexOf(b.column))
    .map(nameOf);
  const [rarest, ...others] = names;
  const lists = names.map((_, i) => `p${i}.places AS list${i}`).join(', ');
  const joins = others
    .map(
      (_, i) =>
        `CROSS JOIN postings p${i + 1} ON p${i + 1}.term = ? AND p${i + 1}.first = p0.first`,
    )
    .join(' ');
  const text = `SELECT p0.first AS first, ${lists} FROM postings p0 ${joins}
    WHERE p0.term = ? AND p0.first > ? AND p0.first < ? ORDER BY p0.first ${order} LIMIT ${ROWS_AT_ONCE}`;
  const seqs: number[] = [];
  let above = query.from - TAIL_EVENTS_MAX;
  let below = query.to;
  for (;;) {
    const rows = await sql.all<Record<string, Value>>(text, ...others, rarest!, above, below);
    for (const row of rows) {
      const all = names.map(
        (_, i): ArrayLike<number> => new Uint16Array(unpack(row[`list${i}`], 2)),
      );
      const places = all.reduce((some, more) => intersect(some, more));
      collect(seqs, { ...query, first: Number(row.first), places });
      if (seqs.length >= limit) return seqs;
    }
    if (rows.length < ROWS_AT_ONCE) return seqs;
    const last = Number(rows.at(-1)!.first);
    if (order === 'asc') above = last;
    else below = last;
  }
}

/** Adds the numbers of one tail that the query wants, in its order, up to its limit. */
export function collect(
  seqs: number[],
  tail: Omit<TableQuery, 'where'> & { first: number; places: ArrayLike<number> },
): void {
  const { first, places, from, to, order, limit } = tail;
  for (let i = 0; i < places.length && seqs.length < limit; i++) {
    const seq = first + places[order === 'asc' ? i : places.length - 1 - i]!;
    if (seq >= from && seq < to) seqs.push(seq);
  }
}

/**
 * The events below a number whose ids have these hashes, in the tails that come next there; `below`
 * is where to go on, 0 at the end.
 */
export async function findIdSeqs(
  sql: Sql,
  hashes: ReadonlySet<number>,
  from: number,
): Promise<{ seqs: number[]; below: number }> {
  const rows = await sql.all<{ first: number; hashes: Value }>(
    `SELECT first, hashes FROM id_hashes WHERE first < ? ORDER BY first DESC LIMIT ${ROWS_AT_ONCE}`,
    from,
  );
  const seqs = rows.flatMap((row) => {
    const all = new Uint32Array(unpack(row.hashes, 4));
    const first = Number(row.first);
    const found: number[] = [];
    for (let i = 0; i < all.length; i++) if (hashes.has(all[i]!)) found.push(first + i);
    return found;
  });
  return { seqs, below: rows.length < ROWS_AT_ONCE ? 0 : Number(rows.at(-1)!.first) };
}

export async function readSources(sql: Sql): Promise<Map<string, number>> {
  const rows = await sql.all<{ origin: string; seq: number }>('SELECT origin, seq FROM sources');
  return new Map(rows.map(({ origin, seq }) => [origin, seq]));
}
