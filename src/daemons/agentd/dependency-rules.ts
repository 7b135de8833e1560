// Decides task dependencies: finds cycles, and whether a task is ready, blocked or rejected. Pure.
// Ending children with their parent is the store's job.
import type { TaskStatus } from '../../wire/agentd.ts';
import { isEnded } from './rules.ts';

export type TaskNode = {
  id: string;
  parentTaskId: string | null;
  after: readonly string[];
  status: TaskStatus;
};

/**
 * Returns the cycle that a new task would close, from the task back to itself, or undefined. A task
 * waits for its dependencies and a parent for its children, so a child that depends on its own
 * parent would wait forever. Ended tasks block nothing.
 */
export function findCycle(
  draft: Pick<TaskNode, 'id' | 'parentTaskId' | 'after'>,
  tasks: Iterable<TaskNode>,
): string[] | undefined {
  const open = new Map<string, readonly string[]>();
  const children = new Map<string, string[]>();
  for (const task of tasks) {
    if (isEnded(task.status) || task.id === draft.id) continue;
    open.set(task.id, task.after);
    if (task.parentTaskId !== null) addTo(children, task.parentTaskId, task.id);
  }
  if (draft.parentTaskId !== null) addTo(children, draft.parentTaskId, draft.id);

  const cameFrom = new Map<string, string>();
  const stack: string[] = [];
  const visit = (id: string, from: string): void => {
    if (cameFrom.has(id) || (id !== draft.id && !open.has(id))) return;
    cameFrom.set(id, from);
    stack.push(id);
  };
  for (const id of [...draft.after, ...(children.get(draft.id) ?? [])]) visit(id, draft.id);
  while (stack.length > 0 && !cameFrom.has(draft.id)) {
    const id = stack.pop()!;
    for (const next of [...open.get(id)!, ...(children.get(id) ?? [])]) visit(next, id);
  }
  return cameFrom.has(draft.id) ? traceBack(draft.id, cameFrom) : undefined;
}

function traceBack(id: string, cameFrom: ReadonlyMap<string, string>): string[] {
  const path = [id];
  for (let at = cameFrom.get(id)!; at !== id; at = cameFrom.get(at)!) path.push(at);
  return [...path, id].reverse();
}

function addTo(lists: Map<string, string[]>, key: string, value: string): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [value]);
  else list.push(value);
}

export type Readiness =
  | { status: 'ready' }
  | { status: 'blocked'; by: string[]; reason: string }
  | { status: 'rejected'; by: string; reason: string };

/** Returns `rejected` if any dependency ended without completing. */
export function decideReadiness(blockers: readonly Pick<TaskNode, 'id' | 'status'>[]): Readiness {
  const failed = blockers.find(({ status }) => isEnded(status) && status !== 'completed');
  if (failed !== undefined) {
    const reason = `its dependency ${failed.id} is ${failed.status}`;
    return { status: 'rejected', by: failed.id, reason };
  }
  const by = blockers.filter(({ status }) => status !== 'completed').map(({ id }) => id);
  return by.length === 0
    ? { status: 'ready' }
    : { status: 'blocked', by, reason: `after ${by.join(', ')}` };
}
