// Marks inside a transaction: the labels of a task that say what its runs have seen. They only
// ever grow, and everything that a marked run makes or sends carries them on.
import { type Label, MARKS } from '../../../wire/primitives.ts';
import { isEnded } from '../rules.ts';
import type { TaskRow } from './rows.ts';
import type { AgentdTx } from './tx.ts';

export const spreading = (labels: readonly string[]): Label[] =>
  MARKS.filter((mark) => labels.includes(mark));

/** `by` names what brought the mark, so that the events tell where it came from. */
export async function markTask(
  tx: AgentdTx,
  taskId: string,
  labels: readonly string[],
  by: { id: string; why: string; run_id?: string; call_id?: string },
): Promise<Label[]> {
  const wanted = spreading(labels);
  if (wanted.length === 0) return [];
  const task = await tx.sql.one<TaskRow>('SELECT * FROM tasks WHERE id = ?', taskId);
  if (task === undefined || isEnded(task.status)) return [];
  const has = JSON.parse(task.labels) as string[];
  const added = wanted.filter((label) => !has.includes(label));
  if (added.length === 0) return [];
  await tx.sql.run(
    'UPDATE tasks SET labels = ? WHERE id = ?',
    JSON.stringify([...has, ...added]),
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
