// Prunes a memory: its rows go at once, and what the journal and the objects have of it when their
// day is compacted. Until then the tables know what is left to do.
import { toTimestamp } from '../../../platform/clock.ts';
import type { Sql } from '../../../platform/sql/database.ts';
import { removeFromIndex } from '../index/index.ts';
import type { JournalEntry } from '../journal/entry.ts';
import { dropVersions } from '../vectors/due.ts';
import type { MemoryRow, VersionRow } from './schema.ts';
import { countInScope, countVersions } from './scope-counts.ts';

/** The links that others have to it stay, and lead nowhere. */
export async function pruneMemory(
  sql: Sql,
  { entry, number }: { entry: JournalEntry; number: number },
  id: string,
): Promise<void> {
  await addCompaction(sql, entry.at.slice(0, 10));
  await sql.run('INSERT OR REPLACE INTO pruned (memory_id, number) VALUES (?, ?)', id, number);
  const memory = await sql.one<MemoryRow>('SELECT * FROM memories WHERE id = ?', id);
  if (memory === undefined) return;
  const rows = await sql.all<VersionRow>('SELECT * FROM versions WHERE memory_id = ?', id);
  for (const { object, ...row } of rows) {
    for (const day of listDays(row)) await addCompaction(sql, day);
    if (object !== null)
      await sql.run('INSERT OR IGNORE INTO dropped_objects (hash) VALUES (?)', object);
  }
  const numbers = rows.map((row) => Number(row.number));
  await removeFromIndex(sql, numbers);
  await dropVersions(sql, numbers);
  const isEpisode = memory.episode_of !== null;
  const counts = countVersions(rows, { isEpisode, sign: -1 });
  await countInScope(sql, memory.scope, {
    ...counts,
    memories: -1,
    episodes: isEpisode ? -1 : 0,
  });
  await sql.run('DELETE FROM versions WHERE memory_id = ?', id);
  await sql.run('DELETE FROM links WHERE from_id = ?', id);
  await sql.run('DELETE FROM memories WHERE id = ?', id);
}

/** The days on which something was done to a version. */
function listDays(row: Pick<VersionRow, 'recorded_ms' | 'since_ms' | 'ended_ms'>): Set<string> {
  const times = [row.recorded_ms, row.since_ms, row.ended_ms].filter((ms) => ms !== null);
  return new Set(times.map((ms) => toTimestamp(Number(ms)).slice(0, 10)));
}

const addCompaction = (sql: Sql, day: string): Promise<number> =>
  sql.run(
    'INSERT INTO compactions (day, due_ms) VALUES (?, 0) ON CONFLICT (day) DO UPDATE SET due_ms = 0',
    day,
  );
