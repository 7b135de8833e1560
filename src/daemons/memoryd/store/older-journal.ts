// An older copy of the journal brings back texts that the tables know to be forgotten: they are
// removed from it again. The tables stay as they are: they may be all that is left of its end.
import type { Log } from '../../../platform/log.ts';
import type { Sql } from '../../../platform/sql/database.ts';
import type { SqliteDatabase } from '../../../platform/sql/sqlite.ts';
import { type JournalEntry, nextNumber } from '../journal/entry.ts';
import type { Journal } from '../journal/journal.ts';
import type { ErasureRow } from './schema.ts';

export type OlderJournalDeps = { db: Pick<SqliteDatabase, 'write'>; journal: Journal; log: Log };

type OldText = ErasureRow & { memory_id: string };

const BATCH_ROWS = 500;

/** Lists what is to be removed, which `eraseForgotten` does, and what is to be forgotten again. */
export async function findOldTexts({ db, journal, log }: OlderJournalDeps): Promise<void> {
  log.error(
    'the journal lacks changes that the tables have: its end is lost, or it is an older copy',
    {
      hint: 'To have the memories as the journal has them: agentctl memory rebuild',
    },
  );
  let batch: OldText[] = [];
  const flush = async (): Promise<void> => {
    const rows = batch;
    batch = [];
    await db.write((sql) => addErasures(sql, rows));
  };
  let next = 0;
  for await (const { entry } of journal.read()) {
    if (entry === undefined) continue;
    next = nextNumber(entry);
    batch.push(...listTexts(entry));
    if (batch.length >= BATCH_ROWS) await flush();
  }
  await flush();
  await db.write(async (sql) => {
    await sql.run('UPDATE memories SET forgotten = NULL WHERE forgotten >= ?', next);
    // The files of procedures are as old as the journal.
    await sql.run('UPDATE procedures SET rewrite = rewrite + 1');
  });
}

const listTexts = ({ n, at, changes }: JournalEntry): OldText[] =>
  changes.flatMap((change, i) => {
    if (!('content' in change) || change.content.forgotten === true) return [];
    const { object = null } = change.content;
    return [{ memory_id: change.id, number: n + i, object, recorded_ms: Date.parse(at) }];
  });

async function addErasures(sql: Sql, texts: readonly OldText[]): Promise<void> {
  for (const { memory_id, number, object, recorded_ms } of texts)
    await sql.run(
      'INSERT OR IGNORE INTO erasures (number, object, recorded_ms) ' +
        "SELECT ?, ?, ? FROM memories WHERE id = ? AND status = 'forgotten'",
      number,
      object,
      recorded_ms,
      memory_id,
    );
}
