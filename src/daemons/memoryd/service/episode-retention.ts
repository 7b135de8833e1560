// Prunes episodes for agentd, which decides by retention and policy what may go.
import { type Clock, toTimestamp } from '../../../platform/clock.ts';
import type { Database } from '../../../platform/sql/database.ts';
import type { MemoryId } from '../../../wire/memoryd/records.ts';
import type { KeptEpisode } from '../../../wire/memoryd/retention.ts';
import type { TaskId } from '../../../wire/primitives.ts';
import type { Change } from '../journal/entry.ts';
import { readLabels } from '../rules/view.ts';
import type { Commit } from '../store/commit.ts';
import {
  type EpisodePage,
  type EpisodeRow,
  listEpisodes,
  listFullScopes,
  listScopeSizes,
  type ScopeSize,
} from '../store/episodes.ts';
import { findParts } from '../store/read.ts';

/** Rows, index and the line in the journal of a memory, about. */
const OVERHEAD_BYTES = 2_048;

export function makeEpisodeRetention(deps: {
  db: Database;
  commit: Commit;
  clock: Clock;
  /** Compacts the oldest day that is due. */
  compact(nowMs: number): Promise<boolean>;
}) {
  const { db, commit, clock, compact } = deps;
  return {
    async list(page: EpisodePage): Promise<KeptEpisode[]> {
      const rows = await db.read((sql) => listEpisodes(sql, page));
      return rows.map(toEpisode);
    },
    listFullScopes: (episodesMax: number) => db.read((sql) => listFullScopes(sql, episodesMax)),
    async sizes(): Promise<ScopeSize[]> {
      const scopes = await db.read(listScopeSizes);
      return scopes.map(({ scope, memories, bytes, object_bytes, episodes, episode_bytes }) => ({
        scope,
        memories,
        bytes: bytes + memories * OVERHEAD_BYTES,
        object_bytes,
        episodes,
        episode_bytes: episode_bytes + episodes * OVERHEAD_BYTES,
      }));
    },
    async prune(
      ids: readonly string[],
      { by, cause }: { by: string; cause: string },
    ): Promise<{ pruned: number; bytes: number }> {
      let bytes = 0;
      const pruned = await commit(async (sql) => {
        const changes: Change[] = [];
        bytes = 0;
        for (const id of new Set(ids)) {
          const parts = await findParts(sql, id);
          if (parts === undefined || parts.memory.episode_of === null) continue;
          bytes += Number(parts.row.size_bytes) + OVERHEAD_BYTES;
          changes.push({ do: 'prune', id: id as MemoryId, cause });
        }
        return { op: 'prune', by, changes };
      });
      return { pruned: pruned.length, bytes };
    },
    compact: () => compact(clock.nowMs()),
  };
}

export type EpisodeRetention = ReturnType<typeof makeEpisodeRetention>;

const toEpisode = (row: EpisodeRow): KeptEpisode => ({
  id: row.id as MemoryId,
  scope: row.scope,
  root_task_id: row.episode_of as TaskId,
  labels: readLabels(row),
  recorded_at: toTimestamp(Number(row.created_ms)),
  bytes: Number(row.size_bytes) + OVERHEAD_BYTES,
});
