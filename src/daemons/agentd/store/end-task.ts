// Ends tasks within a transaction, with their runs, waits and subtasks. What happens to its
// dependents is decided by its failure policy; its creator is notified.
import type { TaskStatus } from '../../../wire/agentd.ts';
import type { Label } from '../../../wire/primitives.ts';
import { decideReadiness } from '../dependency-rules.ts';
import { isEnded } from '../rules.ts';
import { addDueEpisode } from './episodes.ts';
import { applyFailurePolicy } from './failure-policy.ts';
import { markTask } from './marks.ts';
import { insertMessage } from './messages.ts';
import { addResultNotice } from './notices.ts';
import { RUN_COLUMNS, type RunRow, type TaskRow } from './rows.ts';
import { findTask, runEventIds, setTaskStatus } from './task-rows.ts';
import { queueRun } from './tasks.ts';
import type { AgentdTx } from './tx.ts';
import {
  cancelRunWaits,
  cancelTaskQuestions,
  endWait,
  endWaitsForReplies,
  findWaitsOnChild,
} from './waits.ts';

export type Ending = {
  status: 'completed' | 'failed' | 'canceled' | 'rejected';
  reason: string | null;
  result?: string | null;
  resultRef?: string | null;
  error?: { code: string; message: string; hint: string } | null;
  rehearsal?: boolean;
  costMicrousd?: number;
  /** The run that produced the result; the task's other runs are lost. */
  winner?: string | undefined;
  by: string;
};

export async function endTask(tx: AgentdTx, row: TaskRow, ending: Ending): Promise<void> {
  // Read again, because this transaction may already have ended it.
  const task = await findTask(tx, row.id);
  if (isEnded(task.status)) return;
  await setTaskStatus(tx, task, ending.status, ending.reason);
  await tx.sql.run(
    `UPDATE tasks SET result = ?, result_ref = ?, error = ?, rehearsal = ?, cost_microusd = ?,
       ended_ms = ?, expires_ms = NULL WHERE id = ?`,
    ending.result ?? null,
    ending.resultRef ?? null,
    ending.error == null ? null : JSON.stringify(ending.error),
    ending.rehearsal === true ? 1 : task.rehearsal,
    ending.costMicrousd ?? null,
    tx.nowMs,
    task.id,
  );
  Object.assign(task, {
    ended_ms: tx.nowMs,
    result: ending.result ?? null,
    result_ref: ending.resultRef ?? null,
  });
  await addDueEpisode(tx, task);
  await addResultNotice(tx, task, ending.status);
  await endRuns(tx, task, ending);
  await cancelTaskQuestions(tx, task.id);
  await tx.event({
    id: `${task.id}.ended`,
    event: 'task.ended',
    principal: ending.by,
    task_id: task.id,
    root_task_id: task.root_task_id,
    status: ending.status,
    ...(task.assigned_to === null ? {} : { agent: task.assigned_to }),
    ...(ending.resultRef == null ? {} : { artifact: ending.resultRef }),
    data: {
      result_bytes: Buffer.byteLength(ending.result ?? ''),
      error: ending.error?.code ?? null,
    },
  });
  if (ending.status !== 'completed') await cancelChildren(tx, task);
  await notifyRequester(tx, task, ending);
  const next = ending.status === 'failed' ? await applyFailurePolicy(tx, task) : undefined;
  if (next === undefined) await settleDependents(tx, task);
  else await moveDependents(tx, task, next);
  if (task.assigned_to !== null)
    await endWaitsForReplies(tx, { contextId: task.context_id, agent: task.assigned_to });
}

export function findUnendedRuns(tx: AgentdTx, taskId: string): Promise<RunRow[]> {
  return tx.sql.all<RunRow>(
    `SELECT ${RUN_COLUMNS} FROM runs WHERE task_id = ? AND status <> 'ended'`,
    taskId,
  );
}

async function endRuns(tx: AgentdTx, task: TaskRow, ending: Ending): Promise<void> {
  const runs = await findUnendedRuns(tx, task.id);
  const outcome = ending.status === 'rejected' ? 'canceled' : ending.status;
  for (const run of runs) {
    const isWinner = ending.winner === undefined || run.id === ending.winner;
    await endRun(tx, task, run, { outcome: isWinner ? outcome : 'lost', by: ending.by });
  }
}

export async function endRun(
  tx: AgentdTx,
  task: TaskRow,
  run: RunRow,
  { outcome, by }: { outcome: string; by: string },
): Promise<void> {
  await tx.sql.run(
    "UPDATE runs SET status = 'ended', outcome = ?, lease_until_ms = NULL, ended_ms = ? WHERE id = ?",
    outcome,
    tx.nowMs,
    run.id,
  );
  await cancelRunWaits(tx, run.id);
  if (run.status === 'live') tx.endedRuns.push({ runId: run.id, fence: run.fence });
  await tx.event({
    id: `${run.id}.ended`,
    event: 'run.ended',
    principal: by,
    ...runEventIds(task, run),
    status: outcome,
  });
}

/** Descends through ended children too, because their subtasks may still run. */
async function cancelChildren(tx: AgentdTx, task: TaskRow, status = task.status): Promise<void> {
  const children = await tx.sql.all<TaskRow>(
    'SELECT * FROM tasks WHERE parent_task_id = ?',
    task.id,
  );
  for (const child of children) {
    if (isEnded(child.status)) await cancelChildren(tx, child, status);
    else
      await endTask(tx, child, {
        status: 'canceled',
        reason: `its parent ${task.id} is ${status}`,
        by: 'service:agentd',
      });
  }
}

/** Ends the waits for the task. An agent that does not wait gets the result as a message. */
async function notifyRequester(tx: AgentdTx, task: TaskRow, ending: Ending): Promise<void> {
  const waits = await findWaitsOnChild(tx, task.id);
  const answer = {
    task_id: task.id,
    agent: task.assigned_to,
    status: ending.status,
    result: ending.result ?? null,
    result_ref: ending.resultRef ?? null,
    error: ending.error ?? null,
    reason: ending.reason,
  };
  const labels = JSON.parse(task.labels) as string[];
  for (const wait of waits) {
    const why = `the result of ${task.id}`;
    await markTask(tx, wait.task_id, labels, { id: task.id, why, run_id: wait.run_id });
    await endWait(tx, wait, {
      outcome: ending.status === 'completed' ? 'completed' : 'failed',
      answer,
      by: `agent:${task.assigned_to}`,
    });
  }
  if (task.created_by.startsWith('agent:') && task.assigned_to !== null) {
    const text = truncate(ending.result ?? ending.error?.message ?? ending.reason ?? ending.status);
    await insertMessage(tx, {
      type: ending.status === 'rejected' ? 'TaskRejected' : 'TaskResult',
      contextId: task.context_id,
      taskId: task.id,
      from: `agent:${task.assigned_to}`,
      to: task.created_by,
      inReplyTo: null,
      labels: [...new Set(['agent', ...labels])] as Label[],
      parts: [{ kind: 'text', text }],
      text,
      delivered: waits.length > 0,
    });
  }
}

const truncate = (text: string) => (text.length > 16_000 ? `${text.slice(0, 16_000)}…` : text);

function findBlockedDependents(tx: AgentdTx, taskId: string): Promise<TaskRow[]> {
  // In SQLite, CROSS JOIN keeps the order: it starts with the dependents, not with blocked tasks.
  return tx.sql.all<TaskRow>(
    `SELECT t.* FROM task_deps d CROSS JOIN tasks t
     WHERE t.id = d.task_id AND d.after_id = ? AND t.status IN ('blocked', 'submitted')`,
    taskId,
  );
}

async function settleDependents(tx: AgentdTx, task: TaskRow): Promise<void> {
  for (const dependent of await findBlockedDependents(tx, task.id)) await settle(tx, dependent);
}

/** The dependents of a task that is tried again wait for the new one. */
async function moveDependents(tx: AgentdTx, task: TaskRow, next: TaskRow): Promise<void> {
  for (const dependent of await findBlockedDependents(tx, task.id)) {
    await tx.sql.run(
      'UPDATE task_deps SET after_id = ? WHERE task_id = ? AND after_id = ?',
      next.id,
      dependent.id,
      task.id,
    );
    await settle(tx, dependent);
  }
}

/** Lets a task that has an agent and has not started begin, wait or be rejected. */
export async function settle(tx: AgentdTx, task: TaskRow): Promise<void> {
  const blockers = await tx.sql.all<{ id: string; status: TaskStatus }>(
    'SELECT t.id, t.status FROM task_deps d JOIN tasks t ON t.id = d.after_id WHERE d.task_id = ?',
    task.id,
  );
  const ready = decideReadiness(blockers);
  if (ready.status === 'rejected') {
    await endTask(tx, task, {
      status: 'rejected',
      reason: ready.reason,
      by: 'service:agentd',
      error: {
        code: 'conflict',
        message: ready.reason,
        hint: 'Retry that task, then create this one again.',
      },
    });
  } else if (task.assigned_to === null) {
    // Its person is still to say which agent gets it.
  } else if (ready.status === 'ready') {
    await setTaskStatus(tx, task, 'ready', null);
    await queueRun(tx, task);
  } else {
    await setTaskStatus(tx, task, 'blocked', ready.reason);
  }
}
