// Applies what the journal has and the tables do not: at the start what a crash left, in a rebuild
// everything. A damaged line is named and left out; the others are applied.
import type { Log } from '../../../platform/log.ts';
import type { Outbox } from '../../../platform/outbox.ts';
import type { Database } from '../../../platform/sql/database.ts';
import { draftEvents } from '../events.ts';
import { INDEX_TABLES } from '../index/index.ts';
import { type JournalEntry, nextNumber } from '../journal/entry.ts';
import type { JournalLine } from '../journal/files.ts';
import type { Journal } from '../journal/journal.ts';
import { inPages, removeOrphans } from '../vectors/due.ts';
import { type ApplyDeps, applyEntry } from './apply.ts';
import { readProgress, type TablesGate } from './commit.ts';
import { DERIVED_TABLES } from './schema.ts';

export type JournalProblem = { day: string; line: number };
export type CaughtUp = {
  applied: number;
  problems: JournalProblem[];
  /** The tables have changes that the journal lacks. */
  isBehind: boolean;
};

export type CatchUpDeps = ApplyDeps & {
  db: Database;
  journal: Journal;
  outbox: Pick<Outbox, 'add' | 'wake'>;
  log: Log;
};

/** Applied in one transaction. */
const BATCH_CHANGES = 500;

/**
 * `isLost`: the database that had the events of these entries is gone. They were sent, or are lost
 * with it; sending all of them again would repeat the first.
 */
export async function catchUp(deps: CatchUpDeps, isLost = false): Promise<CaughtUp> {
  const { db, journal, log } = deps;
  const { next, day, ...progress } = await db.read(readProgress);
  const told = isLost ? Number.POSITIVE_INFINITY : progress.told;
  const problems: JournalProblem[] = [];
  let damaged: JournalLine | undefined;
  let batch: JournalEntry[] = [];
  let applied = 0;
  let last = 0;
  const flush = async (): Promise<void> => {
    if (batch.length > 0) await applyBatch(deps, batch, told);
    applied += batch.length;
    batch = [];
  };
  for await (const line of journal.read(day)) {
    if (damaged !== undefined) problems.push(damaged);
    damaged = line.entry === undefined ? line : undefined;
    if (line.entry === undefined) continue;
    last = nextNumber(line.entry);
    if (line.entry.n < next) continue;
    batch.push(line.entry);
    if (countChanges(batch) >= BATCH_CHANGES) await flush();
  }
  await flush();
  if (damaged !== undefined) {
    // Nothing after it was acknowledged, so a power loss tore it: its operation never happened.
    if (last >= told) journal.cut(damaged);
    else problems.push(damaged);
  }
  for (const { day, line } of problems)
    log.error('a line of the memory journal is damaged; its operation is left out', { day, line });
  if (applied > 0) log.info('applied entries of the memory journal', { applied });
  return {
    applied,
    problems: problems.map(({ day, line }) => ({ day, line })),
    isBehind: !isLost && last < told,
  };
}

const countChanges = (batch: readonly JournalEntry[]): number =>
  batch.reduce((sum, { changes }) => sum + changes.length, 0);

/** Changes before `told` have had their events. */
async function applyBatch(
  deps: CatchUpDeps,
  batch: readonly JournalEntry[],
  told: number,
): Promise<void> {
  const { db, outbox } = deps;
  await db.write(async (sql) => {
    for (const entry of batch) {
      await applyEntry(sql, entry, deps);
      if (entry.n < told) continue;
      for (const event of draftEvents(entry)) await outbox.add(sql, event);
    }
  });
  outbox.wake();
  await new Promise((resolve) => setImmediate(resolve));
}

/**
 * Empties everything that follows from the journal, and makes it again. Nothing is served
 * meanwhile; after a failure or a crash, the next start or rebuild completes it.
 */
export async function rebuild(deps: CatchUpDeps & { gate: TablesGate }): Promise<CaughtUp> {
  const { db, gate } = deps;
  gate.isOpen = false;
  await db.write(async (sql) => {
    for (const table of [...DERIVED_TABLES, ...listTables(INDEX_TABLES)])
      await sql.run(`DELETE FROM ${table}`);
    await sql.run("UPDATE progress SET next = 1, day = ''");
    await sql.run('UPDATE procedures SET rewrite = rewrite + 1');
  });
  const done = await catchUp(deps);
  // The newest file may be empty, and those before it compacted.
  await db.write((sql) => sql.run('UPDATE progress SET next = MAX(next, told)'));
  await inPages(db, removeOrphans);
  gate.isOpen = true;
  return done;
}

const listTables = (text: string): string[] =>
  [...text.matchAll(/CREATE (?:VIRTUAL )?TABLE (\w+)/g)].map(([, name]) => name!);
