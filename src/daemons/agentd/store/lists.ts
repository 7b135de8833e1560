// Lists rows of a table by equal columns: newest first, paged by keyset.
import { readIdCursor } from '../../../platform/page.ts';
import type { Sql, Value } from '../../../platform/sql/database.ts';
import { RUN_COLUMNS } from './rows.ts';

export type ListPage<T> = { rows: T[]; cursor: string | null };
export type ListOptions = {
  limit: number;
  cursor?: string | undefined;
  /** Only tasks of people's programs. */
  arePrograms?: boolean;
};
export type ListFilter = Record<string, string | undefined>;
type ListedTable = 'tasks' | 'runs' | 'waits' | 'messages' | 'artifacts';

export async function listRows<R extends { id: string }>(
  sql: Sql,
  table: ListedTable,
  filter: ListFilter,
  page: ListOptions,
): Promise<ListPage<R>> {
  const given = Object.entries(filter).filter((entry): entry is [string, string] => !!entry[1]);
  const isNarrow = page.arePrograms === true || given.some(([column]) => isIdColumn(column));
  const where = given.map(([column]) =>
    isNarrow && !isIdColumn(column) ? `${column} || '' = ?` : `${column} = ?`,
  );
  const values: Value[] = given.map(([, value]) => value);
  if (page.arePrograms === true) where.push('program IS NOT NULL');
  const before = readIdCursor(page.cursor);
  if (before !== undefined) {
    where.push('id < ?');
    values.push(before);
  }
  const { limit } = page;
  const clause = where.length === 0 ? '' : `WHERE ${where.join(' AND ')}`;
  const columns = table === 'runs' ? RUN_COLUMNS : '*';
  const rows = await sql.all<R>(
    `SELECT ${columns} FROM ${table} ${clause} ORDER BY id DESC LIMIT ?`,
    ...values,
    limit,
  );
  return { rows, cursor: rows.length === limit ? rows[rows.length - 1]!.id : null };
}

/**
 * An id selects the rows of one task, tree or thread, and people's programs are few; any other
 * column may select most of the table. SQLite has no statistics of the values, so the other columns
 * are hidden from its planner.
 */
const isIdColumn = (column: string): boolean => column.endsWith('_id');
