// Reads the episodes that retention may prune: what a task left by rule, unless a person has edited
// it since.
import type { Sql } from '../../../platform/sql/database.ts';
import type { MemoryRow } from './schema.ts';

/** The oldest after an id: of one scope, of one task tree, or all. */
export type EpisodePage = {
  recordedBeforeMs: number;
  after: string;
  limit: number;
  scope?: string | undefined;
  rootTaskId?: string | undefined;
  /** Up to this id. */
  until?: string | undefined;
};

export type EpisodeRow = Pick<MemoryRow, 'id' | 'scope' | 'created_ms' | 'episode_of'> & {
  labels: string;
  size_bytes: number;
};

export async function listEpisodes(sql: Sql, page: EpisodePage): Promise<EpisodeRow[]> {
  const { recordedBeforeMs, after, limit, scope, rootTaskId, until = 'n' } = page;
  const [where, ...values] =
    scope !== undefined
      ? ['m.scope = ? AND', scope]
      : rootTaskId !== undefined
        ? ['m.episode_of = ? AND', rootTaskId]
        : [''];
  const rows = await sql.all<EpisodeRow>(
    `SELECT m.id, m.scope, m.created_ms, m.episode_of, v.labels, v.size_bytes
     FROM memories m JOIN versions v ON v.memory_id = m.id AND v.version = m.version
     WHERE ${where} m.episode_of IS NOT NULL AND m.id > ? AND m.id <= ?
     ORDER BY m.id LIMIT ?`,
    ...values,
    after,
    until,
    limit,
  );
  // Ids are in the order of creation.
  const end = rows.findIndex(({ created_ms }) => Number(created_ms) >= recordedBeforeMs);
  return end < 0 ? rows : rows.slice(0, end);
}

/** The scopes with more episodes than this, and the newest of those that are too many. */
export async function listFullScopes(
  sql: Sql,
  episodesMax: number,
): Promise<{ scope: string; until: string }[]> {
  const rows = await sql.all<{ scope: string }>(
    'SELECT scope FROM scopes WHERE episodes > ? ORDER BY scope',
    episodesMax,
  );
  const full: { scope: string; until: string }[] = [];
  for (const { scope } of rows) {
    const row = await sql.one<{ id: string }>(
      `SELECT id FROM memories WHERE scope = ? AND episode_of IS NOT NULL
       ORDER BY id DESC LIMIT 1 OFFSET ?`,
      scope,
      episodesMax,
    );
    if (row !== undefined) full.push({ scope, until: row.id });
  }
  return full;
}

export type ScopeSize = {
  scope: string;
  memories: number;
  bytes: number;
  object_bytes: number;
  episodes: number;
  episode_bytes: number;
};

export const listScopeSizes = (sql: Sql): Promise<ScopeSize[]> =>
  sql.all<ScopeSize>(
    'SELECT scope, memories, bytes, object_bytes, episodes, episode_bytes FROM scopes',
  );
