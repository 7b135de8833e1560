// Commits operations: each is checked and applied in a transaction of the database, whose entries
// are appended to the journal and synced, together with those of its group, before it commits.
import { type Clock, toTimestamp } from '../../../platform/clock.ts';
import type { Outbox } from '../../../platform/outbox.ts';
import type { Database, Sql } from '../../../platform/sql/database.ts';
import { findRecorded, type IdempotencyKey } from '../../../platform/sql/idempotency.ts';
import { fault } from '../../../wire/errors.ts';
import { draftEvents } from '../events.ts';
import type { Change, JournalEntry } from '../journal/entry.ts';
import { type ApplyDeps, applyEntry, changedIds } from './apply.ts';

export type Draft = Pick<JournalEntry, 'op' | 'by' | 'run' | 'approval_id' | 'changes'>;
/** Checks the state and returns the operation; a fault it throws leaves everything as it was. */
export type CommitWork = (sql: Sql, nowMs: number) => Promise<Draft>;

/** Resolves to the ids that changed, durably; for a repeated key, to those of the first time. */
export type Commit = (work: CommitWork, once?: IdempotencyKey) => Promise<string[]>;

/** Open while the tables are what the journal says. */
export type TablesGate = { isOpen: boolean };

export function assertTables({ isOpen }: TablesGate): void {
  if (!isOpen)
    throw fault('unavailable', 'the memories are being made again from the journal', {
      hint: 'Try again in a while; if it does not end, see the log, then: agentctl memory rebuild',
    });
}

export type CommitDeps = ApplyDeps & {
  gate: TablesGate;
  db: Database;
  outbox: Pick<Outbox, 'add' | 'wake' | 'assertAuditAccepting'>;
  clock: Clock;
  failpoint(name: string): void;
  /** A proposal was written. */
  onProposed(): void;
};

export type JournalProgress = { next: number; told: number; day: string };

export async function readProgress(sql: Sql): Promise<JournalProgress> {
  const row = (await sql.one<JournalProgress>('SELECT next, told, day FROM progress'))!;
  return { next: Number(row.next), told: Number(row.told), day: row.day };
}

export function makeCommit(deps: CommitDeps): Commit {
  const { db, gate, outbox, clock, failpoint, onProposed } = deps;

  const attempt = async (
    sql: Sql,
    work: CommitWork,
    once: IdempotencyKey | undefined,
  ): Promise<string[]> => {
    // Here, because it may have waited in the queue.
    assertTables(gate);
    const recorded = once && (await findRecorded<string[]>(sql, once));
    if (recorded !== undefined) return recorded;
    const nowMs = clock.nowMs();
    const draft = await work(sql, nowMs);
    if (draft.changes.length === 0) return [];
    const { next } = await readProgress(sql);
    const entry: JournalEntry = { v: 1, n: next, at: toTimestamp(nowMs), ...draft };
    if (once !== undefined) entry.once = once;
    await applyEntry(sql, entry, deps);
    for (const event of draftEvents(entry)) await outbox.add(sql, event);
    sql.addToJournal!(entry);
    return changedIds(entry);
  };

  return async (work, once) => {
    outbox.assertAuditAccepting();
    let hasProposals = false;
    const noticing: CommitWork = async (sql, nowMs) => {
      const draft = await work(sql, nowMs);
      hasProposals = draft.changes.some(isProposal);
      return draft;
    };
    const ids = await db.write((sql) => attempt(sql, noticing, once));
    failpoint('memoryd.after-commit');
    outbox.wake();
    if (hasProposals) onProposed();
    return ids;
  };
}

const isProposal = (change: Change): boolean => change.do === 'add' && change.status === 'proposed';
