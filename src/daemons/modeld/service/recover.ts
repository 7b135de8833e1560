// After a crash: attempts that have no outcome may have reached a model or not. They are charged
// what was held for them, marked unknown, and the audit log is told; asked again, the call begins a
// new attempt.
import type { Database } from '../../../platform/sql/database.ts';
import { fault } from '../../../wire/errors.ts';
import { type BudgetKey, budgetsOf, dayOf } from '../rules/budget.ts';
import { type CallRow, runningCalls } from '../store/calls.ts';
import type { Outcome } from '../store/entries.ts';
import type { Journal } from '../store/journal.ts';
import { unknownEvent } from './events.ts';

/** Returns how many there were. */
export async function settleLeftCalls({
  db,
  journal,
  nowMs,
}: {
  db: Database;
  journal: Journal;
  nowMs: () => number;
}): Promise<number> {
  const rows = await db.read(runningCalls);
  await Promise.all(rows.map((row) => journal.outcome(unknownOutcome(row, nowMs()))));
  return rows.length;
}

function unknownOutcome(row: CallRow, nowMs: number): Outcome {
  const charged = { tokens: row.reserved_tokens, costMicrousd: row.reserved_cost };
  const keys = budgetsOfRow(row);
  const reason = fault('unavailable', `modeld stopped while ${row.call_id} was under way`);
  return {
    seq: row.seq,
    callId: row.call_id,
    status: 'unknown',
    provider: row.provider,
    upstreamModel: row.upstream_model,
    stopReason: null,
    usage: null,
    charged,
    response: null,
    error: reason.toBody(),
    tries: row.tries,
    endedMs: nowMs,
    spent: keys.map((key) => ({ key, ...charged })),
    event: unknownEvent(row),
  };
}

/** Who paid for a call that was written down. */
export function budgetsOfRow(row: CallRow): BudgetKey[] {
  return budgetsOf({
    runId: row.run_id,
    agent: row.agent,
    taskId: row.task_id,
    rootTaskId: row.root_task_id,
    day: dayOf(row.created_ms),
  });
}
