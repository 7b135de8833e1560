// Reads memories, their versions and links, and finds the ones that a query is about.
import type { Sql } from '../../../platform/sql/database.ts';
import type { LinkRow, MemoryRow, VersionRow } from './schema.ts';

export type MemoryParts = {
  memory: MemoryRow;
  row: VersionRow;
  links: LinkRow[];
  usedBy: LinkRow[];
};

export const findMemory = (sql: Sql, id: string): Promise<MemoryRow | undefined> =>
  sql.one<MemoryRow>('SELECT * FROM memories WHERE id = ?', id);

export const findVersion = (
  sql: Sql,
  id: string,
  version: number,
): Promise<VersionRow | undefined> =>
  sql.one<VersionRow>('SELECT * FROM versions WHERE memory_id = ? AND version = ?', id, version);

export const listLinks = (sql: Sql, id: string, version: number): Promise<LinkRow[]> =>
  sql.all<LinkRow>('SELECT * FROM links WHERE from_id = ? AND from_version = ?', id, version);

export const listUses = (sql: Sql, id: string): Promise<LinkRow[]> =>
  sql.all<LinkRow>('SELECT * FROM links WHERE to_id = ? ORDER BY from_id, from_version', id);

/** Oldest first. */
export async function listProposedIds(sql: Sql): Promise<string[]> {
  const rows = await sql.all<{ id: string }>(
    "SELECT id FROM memories WHERE status = 'proposed' ORDER BY id",
  );
  return rows.map(({ id }) => id);
}

/** Finds a version of a memory, by default its current one. */
export async function findParts(
  sql: Sql,
  id: string,
  version?: number,
): Promise<MemoryParts | undefined> {
  const memory = await findMemory(sql, id);
  if (memory === undefined) return undefined;
  const row = await findVersion(sql, id, version ?? Number(memory.version));
  if (row === undefined) return undefined;
  const links = await listLinks(sql, id, row.version);
  return { memory, row, links, usedBy: await listUses(sql, id) };
}

/** Lists the scopes that have memories and are this one or below it. */
export async function listScopes(sql: Sql, scope?: string): Promise<string[]> {
  const rows =
    scope === undefined
      ? await sql.all<{ scope: string }>('SELECT scope FROM scopes ORDER BY scope')
      : await sql.all<{ scope: string }>(
          'SELECT scope FROM scopes WHERE scope = ? OR (scope > ? AND scope < ?) ORDER BY scope',
          scope,
          ...rangeBelow(scope),
        );
  return rows.map((row) => row.scope);
}

/** Below `project` is `project:app`, below that is `project:app/coder`. */
function rangeBelow(scope: string): [from: string, to: string] {
  const separator = scope.includes(':') ? '/' : ':';
  return [`${scope}${separator}`, `${scope}${String.fromCharCode(separator.charCodeAt(0) + 1)}`];
}

const VISIBLE_SQL =
  'SELECT v.number FROM json_each(?1) wanted JOIN versions v ON v.number = wanted.value ' +
  'JOIN memories m ON m.id = v.memory_id ' +
  'WHERE v.since_ms <= ?2 AND (v.ended_ms IS NULL OR v.ended_ms > ?2) ' +
  'AND (v.valid_from_ms IS NULL OR v.valid_from_ms <= ?2) ' +
  'AND (v.valid_to_ms IS NULL OR v.valid_to_ms > ?2) ' +
  'AND (m.expires_ms IS NULL OR m.expires_ms > ?2)';

/** Returns those of these versions that were current and valid at this time. */
export async function filterVisible(
  sql: Sql,
  numbers: readonly number[],
  atMs: number,
): Promise<ReadonlySet<number>> {
  const rows = await sql.all<{ number: number }>(VISIBLE_SQL, JSON.stringify(numbers), atMs);
  return new Set(rows.map(({ number }) => Number(number)));
}

/** A version with its memory. */
export type FoundVersion = VersionRow & Pick<MemoryRow, 'id' | 'class' | 'scope'>;

export const findByNumbers = (sql: Sql, numbers: readonly number[]): Promise<FoundVersion[]> =>
  sql.all<FoundVersion>(
    'SELECT v.*, m.id, m.class, m.scope FROM json_each(?) wanted ' +
      'JOIN versions v ON v.number = wanted.value JOIN memories m ON m.id = v.memory_id',
    JSON.stringify(numbers),
  );

export const listVersions = (sql: Sql, id: string): Promise<VersionRow[]> =>
  sql.all<VersionRow>('SELECT * FROM versions WHERE memory_id = ? ORDER BY version', id);

/** The newest ids of these scopes, by the time of creation. */
export async function listIds(
  sql: Sql,
  scopes: readonly string[],
  { before, limit }: { before: string | undefined; limit: number },
): Promise<string[]> {
  const ids: string[] = [];
  for (const scope of scopes) {
    const rows = await sql.all<{ id: string }>(
      'SELECT id FROM memories WHERE scope = ? AND id < ? ORDER BY id DESC LIMIT ?',
      scope,
      before ?? 'n',
      limit,
    );
    ids.push(...rows.map(({ id }) => id));
  }
  return ids.sort().reverse().slice(0, limit);
}

/** The oldest ids of these scopes. */
export async function listAllIds(
  sql: Sql,
  scopes: readonly string[],
  limit: number,
): Promise<string[]> {
  const ids: string[] = [];
  for (const scope of scopes) {
    const rows = await sql.all<{ id: string }>(
      'SELECT id FROM memories WHERE scope = ? ORDER BY id LIMIT ?',
      scope,
      limit,
    );
    ids.push(...rows.map(({ id }) => id));
  }
  return ids;
}
