// Owns the index's tables: writes a tail to them and looks up terms and ids in them.
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

/** Incremented when events are indexed differently; an index of another shape is rebuilt. */
const SHAPE = 4;

/**
 * A term has one row per tail it occurs in (`first` names the tail) with the positions in that
 * tail, which needs far fewer rows than one per event. The id hashes of a tail are one row in event
 * order: lookups by id are rare, and inserting 4,096 scattered rows would delay appends.
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

const PAGE_ROWS = 16;
const CRC_BYTES = 4;

const CODES: Record<IndexColumn, string> = {
  task_id: 't',
  root_task_id: 'o',
  agent: 'a',
  tool: 'f',
  event: 'e',
  run_id: 'r',
};
const formatTerm = ({ column, value }: TailFilter): string => `${CODES[column]} ${value}`;

/** Size and root of the indexed part of the log. */
export type IndexedHead = { size: number; root: string };

/** Returns the tables' coverage. Throws if they are damaged or have another shape. */
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

/** Writes a tail to the tables; `head` is the tree head that includes it. */
export async function writeTail(sql: Sql, tail: Tail, head: IndexedHead): Promise<void> {
  for (const term of tail.terms())
    await sql.run(
      'INSERT OR REPLACE INTO postings (term, first, places) VALUES (?, ?, ?)',
      formatTerm(term),
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

/** Appends a CRC: SQLite detects damage in its own pages, but not inside a long value. */
function pack(list: Uint16Array | Uint32Array): Uint8Array {
  const bytes = Buffer.alloc(list.byteLength + CRC_BYTES);
  bytes.set(new Uint8Array(list.buffer, list.byteOffset, list.byteLength));
  bytes.writeUInt32LE(crc32(bytes.subarray(0, -CRC_BYTES)), list.byteLength);
  return bytes;
}

/** Returns a copy of the list's bytes, aligned for a typed array. Throws on a wrong CRC. */
function unpack(value: Value | undefined, itemBytes: number): ArrayBuffer {
  const bytes = value instanceof Uint8Array ? value : new Uint8Array();
  const list = bytes.slice(0, -CRC_BYTES);
  const crc = bytes.length < CRC_BYTES ? -1 : Buffer.from(bytes).readUInt32LE(list.length);
  if (crc32(list) !== crc || list.length % itemBytes !== 0)
    throw fault('storage_broken', 'a list in the index is damaged');
  return list.buffer;
}

export type TableQuery = {
  where: readonly TailFilter[];
  /** Seqs from `from` up to, but not including, `to`. */
  from: number;
  to: number;
  order: 'asc' | 'desc';
  limit: number;
};

/** The most selective columns come first: the join starts with them. */
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
    .map(formatTerm);
  const [rarest, ...others] = names;
  const lists = names.map((_, i) => `p${i}.places AS list${i}`).join(', ');
  const joins = others
    .map(
      (_, i) =>
        `CROSS JOIN postings p${i + 1} ON p${i + 1}.term = ? AND p${i + 1}.first = p0.first`,
    )
    .join(' ');
  const text = `SELECT p0.first AS first, ${lists} FROM postings p0 ${joins}
    WHERE p0.term = ? AND p0.first > ? AND p0.first < ? ORDER BY p0.first ${order} LIMIT ${PAGE_ROWS}`;
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
      collectSeqs(seqs, { ...query, first: Number(row.first), places });
      if (seqs.length >= limit) return seqs;
    }
    if (rows.length < PAGE_ROWS) return seqs;
    const last = Number(rows.at(-1)!.first);
    if (order === 'asc') above = last;
    else below = last;
  }
}

/** Adds one tail's seqs that are in the query's range, in its order and up to its limit. */
export function collectSeqs(
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
 * Returns the seqs whose ids have these hashes, from the next page of tails below `from`. `below`
 * is where the next page starts, 0 at the end.
 */
export async function findIdSeqs(
  sql: Sql,
  hashes: ReadonlySet<number>,
  from: number,
): Promise<{ seqs: number[]; below: number }> {
  const rows = await sql.all<{ first: number; hashes: Value }>(
    `SELECT first, hashes FROM id_hashes WHERE first < ? ORDER BY first DESC LIMIT ${PAGE_ROWS}`,
    from,
  );
  const seqs = rows.flatMap((row) => {
    const all = new Uint32Array(unpack(row.hashes, 4));
    const first = Number(row.first);
    const found: number[] = [];
    for (let i = 0; i < all.length; i++) if (hashes.has(all[i]!)) found.push(first + i);
    return found;
  });
  return { seqs, below: rows.length < PAGE_ROWS ? 0 : Number(rows.at(-1)!.first) };
}

export async function readSources(sql: Sql): Promise<Map<string, number>> {
  const rows = await sql.all<{ origin: string; seq: number }>('SELECT origin, seq FROM sources');
  return new Map(rows.map(({ origin, seq }) => [origin, seq]));
}
