// Forgets again what the log says was forgotten and the journal does not: an older copy of the
// memories was put back. Before anything is answered, at each start.
import type { Log } from '../../../platform/log.ts';
import type { Sql } from '../../../platform/sql/database.ts';
import type { SqliteDatabase } from '../../../platform/sql/sqlite.ts';
import type { MemoryId } from '../../../wire/memoryd/records.ts';
import type { Change } from '../journal/entry.ts';
import type { Commit } from '../store/commit.ts';
import { findMemory } from '../store/read.ts';

/** Forgets what the log says was forgotten. Its copies elsewhere may be back as well. */
const LOG_AUTHOR = 'service:auditd-ai';

export type ListForgotten = (
  before: number | undefined,
) => Promise<{ events: { id: string }[]; next: number | null }>;

export type LaterForgetsDeps = {
  db: Pick<SqliteDatabase, 'read'>;
  commit: Commit;
  /** Newest first. */
  listForgotten: ListForgotten;
  log: Log;
};

type Forgotten = { id: MemoryId; number: number };

export async function applyLaterForgets(deps: LaterForgetsDeps): Promise<void> {
  const later = await findLater(deps);
  if (later.length === 0) return;
  const highest = later.reduce((max, { number }) => Math.max(max, number), 0);
  // One entry: the newest event that the journal knows stands for all before it.
  const ids = await deps.commit(async (sql) => {
    // The ids of events follow from these numbers, and these are in the log.
    await sql.run('UPDATE progress SET next = MAX(next, ?)', highest + 1);
    return { op: 'forget', by: LOG_AUTHOR, changes: await toForgets(sql, later) };
  });
  if (ids.length > 0)
    deps.log.warn('an older copy of the memories was put back: what was forgotten since is again', {
      memories: ids.length,
    });
}

/** Lists the events after the newest one that is a change of this journal. */
async function findLater({ db, listForgotten }: LaterForgetsDeps): Promise<Forgotten[]> {
  const later: Forgotten[] = [];
  for (let before: number | undefined; ; ) {
    const page = await listForgotten(before);
    for (const { id } of page.events) {
      const one = readEventId(id);
      const memory = await db.read((sql) => findMemory(sql, one.id));
      if (memory === undefined) continue;
      const known = memory.forgotten === null ? undefined : Number(memory.forgotten);
      if (known === 0 || known === one.number) return later;
      if (known === undefined) later.push(one);
    }
    if (page.next === null) return later;
    before = page.next;
  }
}

/** As `draftEvents` writes it. */
function readEventId(id: string): Forgotten {
  const [memoryId, number] = id.split('.') as [string, string];
  return { id: memoryId as MemoryId, number: Number(number) };
}

async function toForgets(sql: Sql, later: readonly Forgotten[]): Promise<Change[]> {
  const changes: Change[] = [];
  for (const id of new Set(later.map((one) => one.id)))
    if ((await findMemory(sql, id))?.forgotten === null) changes.push({ do: 'forget', id });
  return changes;
}
