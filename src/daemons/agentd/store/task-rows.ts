// Finds a task's row, and sets its status together with the counts per agent and status.
import type { TaskStatus } from '../../../wire/agentd.ts';
import type { RunRow, TaskRow } from './rows.ts';
import { missingFault } from './tombstones.ts';
import type { AgentdTx } from './tx.ts';

export async function findTask(tx: Pick<AgentdTx, 'sql'>, id: string): Promise<TaskRow> {
  const row = await tx.sql.one<TaskRow>('SELECT * FROM tasks WHERE id = ?', id);
  if (row === undefined)
    throw await missingFault(tx.sql, { name: 'task', id, hint: 'See agentctl task list.' });
  return row;
}

/** Returns the ids that events about a run carry. */
export const runEventIds = (task: TaskRow, run: RunRow) => ({
  agent: run.agent,
  task_id: task.id,
  root_task_id: task.root_task_id,
  run_id: run.id,
});

export async function addToTaskCount(
  tx: AgentdTx,
  agent: string | null,
  status: string,
  by: number,
): Promise<void> {
  await tx.sql.run(
    'INSERT INTO task_counts (agent, status, n) VALUES (?, ?, ?) ON CONFLICT (agent, status) DO UPDATE SET n = task_counts.n + ?',
    agent ?? '',
    status,
    by,
    by,
  );
}

export async function setTaskStatus(
  tx: AgentdTx,
  task: TaskRow,
  status: TaskStatus,
  reason: string | null,
): Promise<void> {
  if (task.status !== status) {
    await addToTaskCount(tx, task.assigned_to, task.status, -1);
    await addToTaskCount(tx, task.assigned_to, status, 1);
  }
  await tx.sql.run(
    'UPDATE tasks SET status = ?, reason = ?, updated_ms = ? WHERE id = ?',
    status,
    reason,
    tx.nowMs,
    task.id,
  );
  task.status = status;
  task.reason = reason;
}
