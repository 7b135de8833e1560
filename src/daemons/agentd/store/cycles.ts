// Refuses dependency cycles within a transaction.
import type { TaskStatus } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import { findCycle, type TaskNode } from '../dependency-rules.ts';
import { findTask } from './task-rows.ts';
import type { AgentdTx } from './tx.ts';

const CYCLE_NODES_MAX = 5_000;

/** Tasks in a dependency cycle would wait forever. */
export async function assertNoCycle(
  tx: AgentdTx,
  draft: { id: string; parentTaskId: string | null; after: string[] },
): Promise<void> {
  if (draft.after.length === 0) return;
  const nodes = new Map<string, TaskNode>();
  const queue = [...draft.after];
  if (draft.parentTaskId !== null) queue.push(draft.parentTaskId);
  for (const id of queue) {
    if (nodes.has(id)) continue;
    const row = await findTask(tx, id);
    const deps = await tx.sql.all<{ after_id: string }>(
      'SELECT after_id FROM task_deps WHERE task_id = ?',
      id,
    );
    const children = await tx.sql.all<{ id: string }>(
      'SELECT id FROM tasks WHERE parent_task_id = ? AND ended_ms IS NULL',
      id,
    );
    const after = deps.map((dep) => dep.after_id);
    nodes.set(id, {
      id,
      parentTaskId: row.parent_task_id,
      after,
      status: row.status as TaskStatus,
    });
    queue.push(...after, ...children.map((child) => child.id));
    if (nodes.size > CYCLE_NODES_MAX)
      throw fault('limit', `more than ${CYCLE_NODES_MAX} connected tasks to check for cycles`);
  }
  const cycle = findCycle(draft, nodes.values());
  if (cycle !== undefined) throw fault('cycle', `dependency cycle: ${cycle.join(' → ')}`);
}
