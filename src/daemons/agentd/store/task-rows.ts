// Finds a task's row and sets its status, with the counts per agent and status that go with it.
import type { TaskStatus } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { TaskRow } from './rows.ts';
import type { AgentdTx } from './tx.ts';

export async function findTask(tx: Pick<AgentdTx, 'sql'>, id: string): Promise<TaskRow> {
  const row = await tx.sql.one<TaskRow>('SELECT * FROM tasks WHERE id = ?', id);
  if (row === undefined)
    throw fault('not_found', `there is no task ${id}`, { hint: 'See agentctl task list.' });
  return row;
}

export async function countTask(
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

export async function setStatus(
  tx: AgentdTx,
  task: TaskRow,
  status: TaskStatus,
  reason: string | null,
): Promise<void> {
  if (task.status !== status) {
    await countTask(tx, task.assigned_to, task.status, -1);
    await countTask(tx, task.assigned_to, status, 1);
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
