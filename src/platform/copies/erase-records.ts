// Removes the copies of forgotten texts from the tables of a daemon, page by page along their
// primary keys, so that a large history keeps nobody waiting.
import { randomBytes } from 'node:crypto';
import type { EraseCopies, ErasedCopies } from '../../wire/copies.ts';
import type { RunId } from '../../wire/primitives.ts';
import { sha256Hex } from '../json.ts';
import type { Database, Sql, SqlRow, Value } from '../sql/database.ts';
import { makeRedactor, type Redactor } from './redact.ts';

/** A table whose columns have texts that runs, models or people wrote. */
export type CopyPlace = {
  table: string;
  /** Its primary key. */
  key: readonly string[];
  columns: readonly string[];
  /** Columns with the hash of another one, which is made again. */
  hashes?: Readonly<Record<string, string>>;
  /** Columns with hashes that no text may match any more. */
  voided?: readonly string[];
  /** Further columns for the functions below. */
  reads?: readonly string[];
  /** Instead of the columns' own texts, replaces what the row refers to. */
  redact?(sql: Sql, row: SqlRow, redactor: Redactor): Promise<SqlRow | undefined>;
  /** The runs whose processes may have the text of the row. */
  findRuns?(sql: Sql, row: SqlRow): Promise<string[]>;
};

export type EraseRecordsDeps = {
  db: Pick<Database, 'read' | 'write'>;
  places: readonly CopyPlace[];
  /** Removes the traces in the files once the tables have no copy. */
  seal(redactor: Redactor): Promise<void>;
};

/** A row may have some megabytes. */
const PAGE_ROWS = 40;
/** A request works no longer than this; agentd sends the next one. */
const STEP_MS = 200;

type Position = { place: number; after: Value[] | null };

export function makeEraseRecords({ db, places, seal }: EraseRecordsDeps) {
  const read: Database['read'] = (work) => db.read(work);
  return async ({ forgotten, cursor }: EraseCopies): Promise<ErasedCopies> => {
    const redactor = makeRedactor(forgotten);
    const untilMs = performance.now() + STEP_MS;
    const runs = new Set<string>();
    let found = 0;
    let at: Position = cursor === undefined ? { place: 0, after: null } : JSON.parse(cursor);
    while (at.place < places.length) {
      const place = places[at.place]!;
      const rows = await db.read((sql) => readPage(sql, place, at.after));
      for (const row of rows) {
        if ((await redactRow(read, place, row, redactor)) === undefined) continue;
        found++;
        for (const run of await db.write((sql) => eraseRow(sql, place, row, redactor)))
          runs.add(run);
      }
      at =
        rows.length < PAGE_ROWS
          ? { place: at.place + 1, after: null }
          : { place: at.place, after: place.key.map((name) => rows.at(-1)![name]!) };
      if (performance.now() > untilMs) break;
      await new Promise((resolve) => setImmediate(resolve));
    }
    const run_ids = [...runs] as RunId[];
    if (at.place < places.length) return { cursor: JSON.stringify(at), found, run_ids };
    await seal(redactor);
    return { cursor: null, found, run_ids };
  };
}

const listColumns = ({ key, columns, reads = [] }: CopyPlace): string =>
  [...new Set([...key, ...columns, ...reads])].join(', ');

function readPage(sql: Sql, place: CopyPlace, after: Value[] | null): Promise<SqlRow[]> {
  const { table, key } = place;
  const names = key.join(', ');
  const marks = key.map(() => '?').join(', ');
  const beyond = key.length === 1 ? `${names} > ?` : `(${names}) > (${marks})`;
  const where = after === null ? '' : ` WHERE ${beyond}`;
  return sql.all(
    `SELECT ${listColumns(place)} FROM ${table}${where} ORDER BY ${names} LIMIT ${PAGE_ROWS}`,
    ...(after ?? []),
  );
}

/** Resolves to the columns that change. */
async function redactRow(
  read: Database['read'],
  place: CopyPlace,
  row: SqlRow,
  redactor: Redactor,
): Promise<SqlRow | undefined> {
  const changed: SqlRow = {};
  for (const name of place.columns) {
    const before = row[name];
    if (typeof before !== 'string') continue;
    const redacted = redactor.redactColumn(before);
    if (redacted !== before) changed[name] = redacted;
  }
  const { redact } = place;
  if (redact !== undefined) Object.assign(changed, await read((sql) => redact(sql, row, redactor)));
  return Object.keys(changed).length === 0 ? undefined : changed;
}

/** Reads the row again: it may have changed since its page was read. */
async function eraseRow(
  sql: Sql,
  place: CopyPlace,
  seen: SqlRow,
  redactor: Redactor,
): Promise<string[]> {
  const { table, key, hashes = {}, voided = [], findRuns } = place;
  const where = key.map((name) => `${name} = ?`).join(' AND ');
  const keys = key.map((name) => seen[name]!);
  const row = await sql.one(`SELECT ${listColumns(place)} FROM ${table} WHERE ${where}`, ...keys);
  if (row === undefined) return [];
  const changed = await redactRow((work) => work(sql), place, row, redactor);
  if (changed === undefined) return [];
  for (const [hash, column] of Object.entries(hashes))
    if (changed[column] !== undefined) changed[hash] = sha256Hex(String(changed[column]));
  for (const name of voided) changed[name] = randomBytes(32).toString('hex');
  const names = Object.keys(changed);
  await sql.run(
    `UPDATE ${table} SET ${names.map((name) => `${name} = ?`).join(', ')} WHERE ${where}`,
    ...names.map((name) => changed[name]!),
    ...keys,
  );
  return (await findRuns?.(sql, row)) ?? [];
}
