// Marks tasks within a transaction. Marks are only ever added, and everything that a marked run
// creates or sends carries them.
import { type Label, MARKS } from '../../../wire/primitives.ts';
import { isEnded } from '../rules.ts';
import type { TaskRow } from './rows.ts';
import type { AgentdTx } from './tx.ts';

export const filterMarks = (labels: readonly string[]): Label[] =>
  MARKS.filter((mark) => labels.includes(mark));

/** Returns the added marks. `by` names their source, for the event. */
export async function markTask(
  tx: AgentdTx,
  taskId: string,
  labels: readonly string[],
  by: { id: string; why: string; run_id?: string; call_id?: string },
): Promise<Label[]> {
  const marks = filterMarks(labels);
  if (marks.length === 0) return [];
  const task = await tx.sql.one<TaskRow>('SELECT * FROM tasks WHERE id = ?', taskId);
  if (task === undefined || isEnded(task.status)) return [];
  const existing = JSON.parse(task.labels) as string[];
  const added = marks.filter((label) => !existing.includes(label));
  if (added.length === 0) return [];
  await tx.sql.run(
    'UPDATE tasks SET labels = ? WHERE id = ?',
    JSON.stringify([...existing, ...added]),
    taskId,
  );
  const { id, why, ...source } = by;
  await tx.event({
    id: `${taskId}.marked.${added.join('+')}.${id}`,
    event: 'run.marked',
    task_id: taskId,
    root_task_id: task.root_task_id,
    ...(task.assigned_to === null ? {} : { agent: task.assigned_to }),
    ...source,
    status: added.join(','),
    data: { why },
  });
  return added;
}
