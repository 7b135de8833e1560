// PostgreSQL as a Database, over any client with queries and transactions. Statements are the same
// as for SQLite: `?` becomes `$1`, and bigint is returned as a number.
import { fault } from '../../wire/errors.ts';
import { makeMutex } from '../mutex.ts';
import type { Database, Migrations, Sql, SqlRow, Value } from './database.ts';

type Result = {
  rows: unknown[];
  affectedRows?: number | undefined;
  fields?: readonly { name: string; dataTypeID: number }[] | undefined;
};
type Queryable = { query(text: string, values?: unknown[]): Promise<Result> };
export type PostgresClient = Queryable & {
  exec(text: string): Promise<unknown>;
  transaction<T>(work: (tx: Queryable) => Promise<T>): Promise<T>;
  close(): Promise<void>;
};

const translated = new Map<string, string>();

function numberPlaceholders(text: string): string {
  let result = translated.get(text);
  if (result === undefined) {
    let n = 0;
    result = text.replace(/\?/g, () => `$${++n}`);
    translated.set(text, result);
  }
  return result;
}

/** bigint and numeric (a sum of bigints). Many drivers return them as text or as bigint. */
const WIDE_NUMBERS: readonly number[] = [20, 1700];

function narrowRows({ rows, fields = [] }: Result): SqlRow[] {
  const wide = new Set(
    fields.filter(({ dataTypeID }) => WIDE_NUMBERS.includes(dataTypeID)).map(({ name }) => name),
  );
  return rows.map((row) => {
    const result: SqlRow = {};
    for (const [name, value] of Object.entries(row as Record<string, unknown>)) {
      const isWide = typeof value === 'bigint' || (typeof value === 'string' && wide.has(name));
      result[name] = isWide ? narrow(name, value) : (value as Value);
    }
    return result;
  });
}

function narrow(name: string, value: bigint | string): number {
  const result = Number(value);
  if (Number.isFinite(result) && Math.abs(result) <= Number.MAX_SAFE_INTEGER) return result;
  throw fault(
    'storage_broken',
    `${name} in the database is ${value}, which exceeds the exact integers`,
  );
}

/** PostgreSQL cannot store NUL in text, and its error would not say so. */
function assertNoNul(values: Value[]): Value[] {
  for (const value of values)
    if (typeof value === 'string' && value.includes('\0'))
      throw fault('bad_request', 'a text contains the character NUL, which cannot be stored');
  return values;
}

function makeSql(client: Queryable): Sql {
  const query = (text: string, values: Value[]) =>
    client.query(numberPlaceholders(text), assertNoNul(values));
  return {
    all: async <T = SqlRow>(text: string, ...values: Value[]) =>
      narrowRows(await query(text, values)) as T[],
    one: async <T = SqlRow>(text: string, ...values: Value[]) =>
      narrowRows(await query(text, values))[0] as T | undefined,
    run: async (text, ...values) => (await query(text, values)).affectedRows ?? 0,
  };
}

export async function openPostgres(
  client: PostgresClient,
  migrations: Migrations,
): Promise<Database> {
  await client.exec('CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)');
  const { rows } = await client.query('SELECT version FROM schema_version');
  const found = (rows[0] as { version: number } | undefined)?.version ?? 0;
  if (found > migrations.length)
    throw fault('state_newer', `the database was written by a newer agentd (version ${found})`);
  for (let version = found; version < migrations.length; version++) {
    await client.exec(
      `BEGIN; ${migrations[version]}; DELETE FROM schema_version; INSERT INTO schema_version VALUES (${version + 1}); COMMIT;`,
    );
  }
  // One writer at a time: outbox numbers must become visible in order.
  const withLock = makeMutex();
  return {
    write: (work) => withLock(() => client.transaction((tx) => work(makeSql(tx)))),
    read: (work) => work(makeSql(client)),
    close: () => withLock(() => client.close()),
  };
}
