// Prunes the contexts of runs, or their calls with everything that belongs to them. A run's row
// stays, as a tombstone for its calls.
import { toTimestamp } from '../../../platform/clock.ts';
import type { Sql } from '../../../platform/sql/database.ts';
import type { SqlNow } from '../../../platform/sql/sqlite.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import type { RunId } from '../../../wire/primitives.ts';
import type { PruneAnswer, PruneBody } from '../../../wire/prune.ts';
import {
  listUncounted,
  readCallParts,
  readCounted,
  readRunCalls,
  releaseParts,
} from './part-uses.ts';

/** Removes the messages, parameters and responses of a run; its calls and their usage stay. */
export function pruneContexts(sql: SqlNow, runId: string, nowMs: number): PruneAnswer {
  const calls = readRunCalls(sql, runId);
  const isCounted = (calls.at(-1)?.seq ?? 0) <= readCounted(sql);
  const uncounted = isCounted ? listUncounted(sql) : undefined;
  if (uncounted === undefined) return { rows: 0, bytes: 0, left: 1 };
  const bytes = releaseParts(sql, calls, uncounted);
  sql.run(
    "UPDATE model_calls SET context = x'', params = '', response = NULL WHERE run_id = ?",
    runId,
  );
  sql.run('UPDATE runs SET contexts_pruned_ms = ? WHERE run_id = ?', nowMs, runId);
  return { rows: calls.length, bytes, left: 0 };
}

/** Removes everything of a run but its tombstone. Sums of usage stay as they are. */
export function pruneCalls(
  sql: SqlNow,
  { runId, rootTaskId }: { runId: string; rootTaskId: string },
  nowMs: number,
): PruneAnswer {
  const answer = pruneContexts(sql, runId, nowMs);
  if (answer.left > 0) return answer;
  const call = sql.one<{ task_id: string | null }>(
    'SELECT task_id FROM model_calls WHERE run_id = ? LIMIT 1',
    runId,
  );
  sql.run('DELETE FROM model_calls WHERE run_id = ?', runId);
  sql.run('DELETE FROM run_labels WHERE run_id = ?', runId);
  sql.run(
    `UPDATE runs SET admitted = 0, body = '', pruned_ms = ?, pruned_task_id = ?
     WHERE run_id = ? AND pruned_ms IS NULL`,
    nowMs,
    call?.task_id ?? rootTaskId,
    runId,
  );
  return answer;
}

/** Removes calls that people made, without a run, before this time. */
export function prunePeoplesCalls(
  sql: SqlNow,
  query: { beforeMs: number; limit: number },
  nowMs: number,
): PruneAnswer {
  const calls = sql.all<{ seq: number; call_id: string }>(
    `SELECT seq, call_id FROM model_calls WHERE run_id IS NULL AND created_ms < ?
     ORDER BY created_ms LIMIT ?`,
    query.beforeMs,
    query.limit,
  );
  const counted = readCounted(sql);
  const isCounted = calls.every(({ seq }) => seq <= counted);
  const uncounted = isCounted ? listUncounted(sql) : undefined;
  if (uncounted === undefined) return { rows: 0, bytes: 0, left: 0 };
  let bytes = 0;
  for (const { seq, call_id } of calls) {
    bytes += releaseParts(sql, readCallParts(sql, seq), uncounted);
    sql.run('DELETE FROM model_calls WHERE seq = ?', seq);
    sql.run(
      'INSERT INTO pruned_calls (call_id, pruned_ms) VALUES (?, ?) ON CONFLICT DO NOTHING',
      call_id,
      nowMs,
    );
  }
  return { rows: calls.length, bytes, left: calls.length === query.limit ? 1 : 0 };
}

/** Runs that have ended and whose contexts are still there, oldest first. */
export const listContextRuns = (sql: Sql, after: string, limit: number) =>
  sql.all<{ run_id: RunId }>(
    `SELECT run_id FROM runs WHERE contexts_pruned_ms IS NULL AND admitted = 0 AND run_id > ?
     ORDER BY run_id LIMIT ?`,
    after,
    limit,
  );

const EXPIRED_MAX = 1_000;

export function expireTombstones(sql: SqlNow, beforeMs: number): number {
  const runs = sql.all<{ run_id: string }>(
    'SELECT run_id FROM runs WHERE pruned_ms IS NOT NULL AND pruned_ms < ? LIMIT ?',
    beforeMs,
    EXPIRED_MAX,
  );
  for (const { run_id } of runs) sql.run('DELETE FROM runs WHERE run_id = ?', run_id);
  const calls = sql.all<{ call_id: string }>(
    'SELECT call_id FROM pruned_calls WHERE pruned_ms < ? LIMIT ?',
    beforeMs,
    EXPIRED_MAX,
  );
  for (const { call_id } of calls) sql.run('DELETE FROM pruned_calls WHERE call_id = ?', call_id);
  return runs.length + calls.length;
}

/** The budgets of tasks; those of the site, of days and of agents stay. */
export function pruneTaskBudgets(sql: SqlNow, tree: PruneBody): void {
  for (const id of new Set([tree.root_task_id, ...tree.task_ids])) {
    sql.run("DELETE FROM budget_limits WHERE subject = 'task' AND name = ?", id);
    sql.run("DELETE FROM budget_spent WHERE subject = 'task' AND name = ?", id);
  }
}

type PrunedRun = { pruned_task_id: string; pruned_ms: number };
const SELECT = 'SELECT pruned_task_id, pruned_ms FROM runs';

/** The fault for a call that was pruned; undefined if it never existed. */
export async function findPrunedCall(sql: Sql, callId: string): Promise<Fault | undefined> {
  const run = await sql.one<PrunedRun>(
    `${SELECT} WHERE substr(run_id, 11) = ? AND pruned_ms IS NOT NULL`,
    callId.slice(-20),
  );
  if (run !== undefined) return prunedFault(`model call ${callId}`, run);
  const own = await sql.one<{ pruned_ms: number }>(
    'SELECT pruned_ms FROM pruned_calls WHERE call_id = ?',
    callId,
  );
  if (own === undefined) return undefined;
  const at = toTimestamp(own.pruned_ms);
  return fault('pruned', `model call ${callId} was pruned on ${at.slice(0, 10)}`, {
    details: { pruned_at: at },
    hint: 'The log still has its events: agentctl audit tail.',
  });
}

/** The same for all calls of a run or a task. */
export async function findPrunedRun(
  sql: Sql,
  { runId, taskId }: { runId?: string | undefined; taskId?: string | undefined },
): Promise<Fault | undefined> {
  const [column, id] = runId === undefined ? ['pruned_task_id', taskId] : ['run_id', runId];
  if (id === undefined) return undefined;
  const run = await sql.one<PrunedRun>(
    `${SELECT} WHERE ${column} = ? AND pruned_ms IS NOT NULL`,
    id,
  );
  return run && prunedFault(`the model calls of ${id}`, run);
}

function prunedFault(what: string, { pruned_task_id: task, pruned_ms }: PrunedRun): Fault {
  const at = toTimestamp(pruned_ms);
  return fault('pruned', `${what} was pruned on ${at.slice(0, 10)}, with its task`, {
    details: { task_id: task, pruned_at: at },
    hint: `The log still has its events: agentctl audit task ${task}`,
  });
}
