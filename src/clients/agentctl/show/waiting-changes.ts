// Describes the changes of a task that wait for a person, once its agents have ended or are parked.
import type { TaskView } from '../../../wire/agentd.ts';
import { isLeftOut } from '../diff/read-changes.ts';
import type { RuntimeClient } from '../runtime.ts';
import { pluralize } from './amounts.ts';

const COUNT_MAX = 1_000;

/** Returns nothing while agents work, without a layer, and if the changes cannot be read now. */
export async function describeWaitingChanges(
  runtime: RuntimeClient,
  task: TaskView,
): Promise<string[]> {
  const isResting = task.ended_at !== null || task.status === 'waiting';
  if (task.workspace_mode !== 'layer' || !isResting) return [];
  const request = { params: { id: task.id }, query: { limit: COUNT_MAX } };
  const found = await runtime.call('agentd', 'listChanges', request).catch(() => undefined);
  if (found === undefined) return [];
  const { length } = found.changes.filter((change) => !isLeftOut(change, found.refusals));
  if (length === 0) return [];
  const what = found.next === null ? pluralize(length, 'change') : `more than ${COUNT_MAX} changes`;
  return [`${what} ${what.startsWith('1 ') ? 'waits' : 'wait'}: agentctl task diff ${task.id}`];
}
