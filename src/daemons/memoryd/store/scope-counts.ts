// Counts what each scope has, as rows are added and removed: retention asks for it often.
import type { Sql } from '../../../platform/sql/database.ts';
import type { MemoryRow, VersionRow } from './schema.ts';

/** Episodes are kept by its rule. */
export const EPISODE_AUTHOR = 'service:agentd';

type Counts = {
  memories?: number;
  /** Texts that are not forgotten. */
  bytes?: number;
  /** Those of them that are objects. */
  objectBytes?: number;
  episodes?: number;
  episodeBytes?: number;
};

/** Adds to the counts of a scope; one without memories is no scope any more. */
export async function countInScope(
  sql: Sql,
  scope: string,
  { memories = 0, bytes = 0, objectBytes = 0, episodes = 0, episodeBytes = 0 }: Counts,
): Promise<void> {
  await sql.run(
    'INSERT INTO scopes (scope, memories, bytes, object_bytes, episodes, episode_bytes) ' +
      'VALUES (?, ?, ?, ?, ?, ?) ' +
      'ON CONFLICT (scope) DO UPDATE SET memories = memories + excluded.memories, ' +
      'bytes = bytes + excluded.bytes, object_bytes = object_bytes + excluded.object_bytes, ' +
      'episodes = episodes + excluded.episodes, ' +
      'episode_bytes = episode_bytes + excluded.episode_bytes',
    scope,
    memories,
    bytes,
    objectBytes,
    episodes,
    episodeBytes,
  );
  if (memories < 0) await sql.run('DELETE FROM scopes WHERE scope = ? AND memories <= 0', scope);
}

type Sized = Pick<VersionRow, 'text' | 'object' | 'size_bytes'>;

const sumBytes = (rows: readonly Sized[]): number =>
  rows.reduce((sum, { size_bytes }) => sum + Number(size_bytes), 0);

/** Sums up the versions of a memory. */
export function countVersions(
  rows: readonly Sized[],
  { isEpisode, sign = 1 }: { isEpisode: boolean; sign?: 1 | -1 },
): Counts {
  const objectBytes = sign * sumBytes(rows.filter(({ object }) => object !== null));
  const bytes = objectBytes + sign * sumBytes(rows.filter(({ text }) => text !== null));
  return { bytes, objectBytes, episodeBytes: isEpisode ? bytes : 0 };
}

/** Counts a memory as an episode no more. */
export async function endEpisode(sql: Sql, { id, scope, episode_of }: MemoryRow): Promise<void> {
  if (episode_of === null) return;
  const rows = await sql.all<VersionRow>('SELECT * FROM versions WHERE memory_id = ?', id);
  const { episodeBytes = 0 } = countVersions(rows, { isEpisode: true, sign: -1 });
  await countInScope(sql, scope, { episodes: -1, episodeBytes });
  await sql.run('UPDATE memories SET episode_of = NULL WHERE id = ?', id);
}
