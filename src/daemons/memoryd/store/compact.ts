// Compacts the journal: takes the changes of pruned memories out of the files of past days, and
// removes what no memory refers to any more. One day at a time, from the oldest.
import type { BlobStore } from '../../../platform/blob-store.ts';
import { IDEMPOTENCY_WINDOW_MS } from '../../../platform/sql/idempotency.ts';
import type { SqliteDatabase } from '../../../platform/sql/sqlite.ts';
import { type Change, type JournalEntry, nextNumber } from '../journal/entry.ts';
import { listDays } from '../journal/files.ts';
import type { Journal } from '../journal/journal.ts';

export type CompactDeps = {
  db: SqliteDatabase;
  journal: Journal;
  journalDir: string;
  objects: BlobStore;
  failpoint(name: string): void;
};

const OBJECTS_AT_ONCE = 100;
const DAY_MS = 86_400_000;

/** Resolves to whether a day was compacted. The newest file stays, because it is appended to. */
export async function compactOldestDay(deps: CompactDeps, nowMs: number): Promise<boolean> {
  const { db, journal, failpoint } = deps;
  await removeDroppedObjects(deps);
  const newest = journal.lastDay();
  if (newest === undefined) return false;
  const due = await db.read((sql) =>
    sql.one<{ day: string }>(
      'SELECT day FROM compactions WHERE day < ? AND due_ms <= ? ORDER BY day LIMIT 1',
      newest,
      nowMs,
    ),
  );
  if (due === undefined) return false;
  const { day } = due;
  const rows = await db.read((sql) =>
    sql.all<{ memory_id: string; number: number }>('SELECT memory_id, number FROM pruned'),
  );
  const pruned = new Set(rows.map(({ memory_id }) => memory_id));
  const newestPrune = Math.max(0, ...rows.map(({ number }) => Number(number)));
  const state = { lastNumber: 0, keepsAnswers: false };
  failpoint('memoryd.before-compact');
  if (listDays(deps.journalDir).includes(day))
    await journal.rewrite(day, (entry) => compactEntry(entry, { pruned, nowMs, state }));
  failpoint('memoryd.after-compact');
  await db.write(async (sql) => {
    // Earlier days have no changes of these any more.
    await sql.run('DELETE FROM pruned WHERE number <= ?', state.lastNumber);
    const newer = await sql.one('SELECT number FROM pruned WHERE number > ? LIMIT 1', newestPrune);
    if (newer !== undefined) return;
    if (!state.keepsAnswers) await sql.run('DELETE FROM compactions WHERE day = ?', day);
    else {
      const dueMs = Date.parse(day) + DAY_MS + IDEMPOTENCY_WINDOW_MS;
      await sql.run('UPDATE compactions SET due_ms = ? WHERE day = ?', dueMs, day);
    }
  });
  return true;
}

/** A request is answered as before while its key is kept. */
function compactEntry(
  entry: JournalEntry,
  options: {
    pruned: ReadonlySet<string>;
    nowMs: number;
    state: { lastNumber: number; keepsAnswers: boolean };
  },
): JournalEntry | 'drop' | undefined {
  const { pruned, nowMs, state } = options;
  state.lastNumber = nextNumber(entry) - 1;
  const changes = entry.changes.map(
    (change): Change =>
      change.do !== 'gone' && change.do !== 'snapshot' && pruned.has(change.id)
        ? { do: 'gone', id: change.id }
        : change,
  );
  if (changes.every((change) => change.do === 'gone')) {
    const isAnswerKept =
      entry.once !== undefined && Date.parse(entry.at) > nowMs - IDEMPOTENCY_WINDOW_MS;
    if (!isAnswerKept) return 'drop';
    state.keepsAnswers = true;
  }
  return changes.some((change, i) => change !== entry.changes[i])
    ? { ...entry, changes }
    : undefined;
}

async function removeDroppedObjects({ db, objects }: CompactDeps): Promise<void> {
  const rows = await db.read((sql) =>
    sql.all<{ hash: string }>('SELECT hash FROM dropped_objects LIMIT ?', OBJECTS_AT_ONCE),
  );
  for (const { hash } of rows) {
    const isUnused = () =>
      db.read(async (sql) => {
        const used = await sql.one('SELECT number FROM versions WHERE object = ? LIMIT 1', hash);
        return used === undefined;
      });
    const isRemoved = await objects.remove(hash, isUnused);
    // While another request writes the same text, it is neither removed nor used.
    if (isRemoved || !(await isUnused()))
      await db.write((sql) => sql.run('DELETE FROM dropped_objects WHERE hash = ?', hash));
  }
}
