// Removes the texts of forgotten memories from the journal and the disk. What is left to remove is
// in a table, so that a crash in between only delays it.
import type { BlobStore } from '../../../platform/blob-store.ts';
import { toTimestamp } from '../../../platform/clock.ts';
import type { SqliteDatabase } from '../../../platform/sql/sqlite.ts';
import type { Change, JournalEntry } from '../journal/entry.ts';
import type { Journal } from '../journal/journal.ts';
import type { ErasureRow } from './schema.ts';

export type EraseDeps = {
  db: SqliteDatabase;
  journal: Journal;
  objects: BlobStore;
  failpoint(name: string): void;
};

export async function eraseForgotten(deps: EraseDeps): Promise<void> {
  const { db, journal, failpoint } = deps;
  const rows = await db.read((sql) => sql.all<ErasureRow>('SELECT * FROM erasures'));
  if (rows.length === 0) return;
  const numbers = new Set(rows.map(({ number }) => Number(number)));
  const since = Math.min(...rows.map(({ recorded_ms }) => Number(recorded_ms)));
  failpoint('memoryd.before-erase');
  for (const day of await findDays(journal, numbers, toTimestamp(since).slice(0, 10))) {
    // No entry is appended while the file is replaced.
    const hold = await db.hold();
    try {
      await journal.rewrite(day, (entry) => stripEntry(entry, numbers));
    } finally {
      hold.release();
    }
  }
  for (const { object } of rows) if (object !== null) await removeObject(deps, object);
  failpoint('memoryd.after-erase');
  await db.write(async (sql) => {
    for (const { number } of rows) await sql.run('DELETE FROM erasures WHERE number = ?', number);
  });
  // The write-ahead log still has the pages as they were.
  await db.read((sql) => sql.all('PRAGMA wal_checkpoint(TRUNCATE)'));
}

/** Finds the files that have these changes; they are not before that day. */
async function findDays(
  journal: Journal,
  numbers: ReadonlySet<number>,
  fromDay: string,
): Promise<ReadonlySet<string>> {
  const days = new Set<string>();
  const left = new Set(numbers);
  for await (const { day, entry } of journal.read(fromDay)) {
    if (entry === undefined) continue;
    for (const i of entry.changes.keys()) if (left.delete(entry.n + i)) days.add(day);
    if (left.size === 0) break;
  }
  return days;
}

/** Returns undefined for an entry that has none of these texts. */
function stripEntry(entry: JournalEntry, numbers: ReadonlySet<number>): JournalEntry | undefined {
  const changes = entry.changes.map((change, i) =>
    numbers.has(entry.n + i) ? stripChange(change) : change,
  );
  return changes.some((change, i) => change !== entry.changes[i])
    ? { ...entry, changes }
    : undefined;
}

function stripChange(change: Change): Change {
  if (!('content' in change) || change.content.forgotten === true) return change;
  const { size, labels, links } = change.content;
  const content = { size, about: {}, labels, forgotten: true as const };
  return { ...change, content: links === undefined ? content : { ...content, links } };
}

/** Another memory may have the same text. */
const removeObject = ({ db, objects }: EraseDeps, hash: string): Promise<boolean> =>
  objects.remove(hash, () =>
    db.read(async (sql) => {
      const used = await sql.one('SELECT number FROM versions WHERE object = ? LIMIT 1', hash);
      return used === undefined;
    }),
  );
