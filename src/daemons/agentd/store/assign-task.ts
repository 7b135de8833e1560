// Gives a task that has not started to an agent, and changes open tasks, within a transaction.
import type { FailurePolicy } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import { isEnded } from '../rules.ts';
import { assertNoCycle } from './cycles.ts';
import { endRun, endTask, findUnendedRuns, settle } from './end-task.ts';
import { findMatch, saveMatch } from './matches.ts';
import type { TaskRow } from './rows.ts';
import { addToTaskCount, findTask } from './task-rows.ts';
import { queueRun } from './tasks.ts';
import type { AgentdTx } from './tx.ts';
import { cancelTaskQuestions, endWaitsForReplies } from './waits.ts';

async function reassign(tx: AgentdTx, task: TaskRow, agent: string): Promise<void> {
  await addToTaskCount(tx, task.assigned_to, task.status, -1);
  await addToTaskCount(tx, agent, task.status, 1);
  await tx.sql.run(
    'UPDATE tasks SET assigned_to = ?, updated_ms = ? WHERE id = ?',
    agent,
    tx.nowMs,
    task.id,
  );
  const before = task.assigned_to;
  task.assigned_to = agent;
  if (before !== null) await endWaitsForReplies(tx, { contextId: task.context_id, agent: before });
  const queued = await findUnendedRuns(tx, task.id);
  // A started run acted as the other agent, so the new agent gets a new run.
  for (const run of queued) await endRun(tx, task, run, { outcome: 'lost', by: 'service:agentd' });
  if (queued.length > 0) await queueRun(tx, task);
}

export async function assignTask(
  tx: AgentdTx,
  task: TaskRow,
  { agent, by }: { agent: string; by: string },
): Promise<void> {
  if (isEnded(task.status))
    throw fault('ended', `${task.id} is ${task.status}`, {
      hint: `agentctl task retry ${task.id}`,
    });
  if (task.status === 'working' || task.status === 'waiting')
    throw fault('conflict', `${task.id} is being worked on by ${task.assigned_to}`, {
      hint: 'Cancel it first, or wait until it ends.',
    });
  const match = await findMatch(tx.sql, task.id);
  if (match !== undefined)
    await saveMatch(tx, task.id, { ...match, agent: agent as never, reason: 'person' });
  await reassign(tx, task, agent);
  await cancelTaskQuestions(tx, task.id);
  if (task.status === 'submitted') await settle(tx, task);
  await tx.event({
    id: `${task.id}.assigned.${tx.newId<string>('n')}`,
    event: 'task.assigned',
    principal: by,
    agent,
    task_id: task.id,
    root_task_id: task.root_task_id,
  });
}

export type TaskEdit = {
  agent?: string | undefined;
  priority?: number | undefined;
  after?: string[] | undefined;
  on_failure?: FailurePolicy | undefined;
  attempts_max?: number | undefined;
  status?: 'completed' | 'failed' | undefined;
  result?: string | undefined;
};

/**
 * An agent changes only what its own task delegated: no other task of the board, nor what those
 * wait for, and no priority above its own.
 */
export async function assertOwnSubtask(
  tx: AgentdTx,
  { id, change, ownId }: { id: string; change: TaskEdit; ownId: string },
): Promise<void> {
  const own = await findTask(tx, ownId);
  const hint =
    'Change only tasks that you delegated. A person changes others: agentctl task update.';
  if (id === ownId)
    throw fault('denied', `${id} is your own task`, { hint: 'End it with task.finish.' });
  for (const each of [id, ...(change.after ?? [])])
    if ((await findTask(tx, each)).parent_task_id !== ownId)
      throw fault('denied', `${each} is not a task that you delegated`, { hint });
  if (change.priority !== undefined && change.priority > own.priority)
    throw fault('denied', `priority ${change.priority} is above that of your own task`, {
      hint: `Give up to ${own.priority}.`,
    });
}

/** Changes what is given, in one transaction, or nothing. */
export async function changeTask(
  tx: AgentdTx,
  id: string,
  { change, by }: { change: TaskEdit; by: string },
): Promise<void> {
  const task = await findTask(tx, id);
  if (isEnded(task.status)) throw fault('ended', `${id} is ${task.status}`);
  const { agent, priority, after, on_failure, attempts_max, status, result } = change;
  if (priority !== undefined) await setPriority(tx, task, priority);
  if (on_failure !== undefined || attempts_max !== undefined)
    await tx.sql.run(
      'UPDATE tasks SET on_failure = ?, attempts_max = ?, updated_ms = ? WHERE id = ?',
      on_failure ?? task.on_failure ?? null,
      attempts_max ?? task.attempts_max ?? null,
      tx.nowMs,
      id,
    );
  if (after !== undefined) await setDependencies(tx, task, after);
  if (agent !== undefined && agent !== task.assigned_to) await assignTask(tx, task, { agent, by });
  await tx.event({
    id: `${id}.updated.${tx.newId<string>('n')}`,
    event: 'task.updated',
    principal: by,
    task_id: id,
    root_task_id: task.root_task_id,
    data: { changed: Object.keys(change).sort().join(' ') },
  });
  if (status === undefined) return;
  const text = result ?? `set to ${status} by ${by}`;
  await endTask(tx, await findTask(tx, id), {
    status,
    reason: `by ${by}`,
    result: text,
    by,
    error:
      status === 'failed'
        ? { code: 'failed', message: text.slice(0, 2_000), hint: `agentctl task retry ${id}` }
        : null,
  });
}

async function setPriority(tx: AgentdTx, task: TaskRow, priority: number): Promise<void> {
  await tx.sql.run(
    'UPDATE tasks SET priority = ?, updated_ms = ? WHERE id = ?',
    priority,
    tx.nowMs,
    task.id,
  );
  task.priority = priority;
  for (const run of await findUnendedRuns(tx, task.id))
    await tx.sql.run('UPDATE runs SET priority = ? WHERE id = ?', priority, run.id);
}

async function setDependencies(tx: AgentdTx, task: TaskRow, after: string[]): Promise<void> {
  const runs = await findUnendedRuns(tx, task.id);
  if (runs.some(({ activations }) => activations > 0))
    throw fault('conflict', `${task.id} has started`, {
      hint: 'Cancel it and add it again, with --after.',
    });
  for (const id of after) await findTask(tx, id);
  await tx.sql.run('DELETE FROM task_deps WHERE task_id = ?', task.id);
  for (const id of after)
    await tx.sql.run(
      'INSERT INTO task_deps (task_id, after_id) VALUES (?, ?) ON CONFLICT DO NOTHING',
      task.id,
      id,
    );
  await assertNoCycle(tx, { id: task.id, parentTaskId: task.parent_task_id, after });
  for (const run of runs) await endRun(tx, task, run, { outcome: 'lost', by: 'service:agentd' });
  await settle(tx, task);
}
