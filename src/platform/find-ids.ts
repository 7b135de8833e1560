// Finds the ids that begin with what a person typed, in the tables that a daemon declares.
import * as z from 'zod';
import type { Caller } from '../wire/caller.ts';
import { route } from '../wire/route.ts';
import type { Database } from './sql/database.ts';

/** The kind of an id, such as `task`, and the indexed column that has those ids. */
export type IdColumns = Readonly<Record<string, readonly [table: string, column: string]>>;
export type IdSource = {
  db: Pick<Database, 'read'>;
  columns: IdColumns;
  /** True if this caller may know of the id. Absent: of all. */
  isFindable?(caller: Caller, id: string): Promise<boolean>;
};

const FOUND_MAX = 10;

/** For people: agents, runs and programs name ids whole. */
export const findIdsRoute = route({
  method: 'GET',
  path: '/v1/ids/{prefix}',
  callers: ['operator'],
  params: z.strictObject({
    prefix: z
      .string()
      .regex(/^[a-z]+_[0-9a-z]{1,25}$/, 'must look like task_ and the first characters of an id'),
  }),
  /** Up to ten, in order. */
  output: z.object({ ids: z.array(z.string()) }),
});

export async function findIds(
  source: IdSource | undefined,
  prefix: string,
  caller: Caller,
): Promise<string[]> {
  const kind = prefix.slice(0, prefix.indexOf('_'));
  if (source === undefined || !Object.hasOwn(source.columns, kind)) return [];
  const [table, column] = source.columns[kind]!;
  // One look into the index for each id, however many rows have it.
  const next = `SELECT MIN(${column}) AS id FROM ${table} WHERE ${column} > ? AND ${column} < ?`;
  const found: string[] = [];
  // '{' comes after 'z'.
  for (let last = prefix; found.length < FOUND_MAX; ) {
    const [row] = await source.db.read((sql) =>
      sql.all<{ id: string | null }>(next, last, `${prefix}{`),
    );
    if (row?.id == null) break;
    last = row.id;
    if ((await source.isFindable?.(caller, last)) !== false) found.push(last);
  }
  return found;
}
