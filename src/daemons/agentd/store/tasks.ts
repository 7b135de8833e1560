// Creates, reassigns and ends tasks within a transaction. Ending a task also ends its runs, waits
// and subtasks, settles its dependents and notifies its creator.
import type { TaskStatus } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { Label } from '../../../wire/primitives.ts';
import type { WorkspaceMode } from '../../../wire/sandboxd/layers.ts';
import { decideReadiness, type Readiness } from '../dependency-rules.ts';
import { isEnded } from '../rules.ts';
import { addDueEpisode } from './episodes.ts';
import { markTask } from './marks.ts';
import { insertMessage } from './messages.ts';
import { addResultNotice } from './notices.ts';
import { inheritRestore } from './restores.ts';
import { RUN_COLUMNS, type RunRow, readLayers, type TaskProgram, type TaskRow } from './rows.ts';
import { addToTaskCount, findTask, runEventIds, setTaskStatus } from './task-rows.ts';
import { type AgentdTx, insertRow } from './tx.ts';
import { cancelRunWaits, endWait, findWaitsOnChild } from './waits.ts';

export type NewTask = {
  id: string;
  parent: TaskRow | undefined;
  contextId: string;
  goal: string;
  createdBy: string;
  /** The person whose own key was used. */
  owner?: string | undefined;
  agent: string;
  priority: number;
  inputs: unknown[];
  limits: Record<string, unknown>;
  delegation: unknown;
  after: string[];
  deadlineMs: number | null;
  retryOf: string | null;
  /** Only for a root task; subtasks use its workspace. */
  workspace?: string | undefined;
  /** A subtask has a layer for itself, which was made before it. */
  ownsLayer?: boolean;
  workspaceMode?: WorkspaceMode | undefined;
  program?: TaskProgram | undefined;
  labels: string[];
};

export async function insertTask(tx: AgentdTx, task: NewTask): Promise<TaskRow> {
  const ready = await checkReadiness(tx, task.after);
  const { status } = ready;
  const row: TaskRow = {
    id: task.id,
    parent_task_id: task.parent?.id ?? null,
    root_task_id: task.parent?.root_task_id ?? task.id,
    context_id: task.contextId,
    depth: (task.parent?.depth ?? -1) + 1,
    goal: task.goal,
    created_by: task.createdBy,
    assigned_to: task.agent,
    status,
    reason: ready.status === 'blocked' ? ready.reason : null,
    priority: task.priority,
    inputs: JSON.stringify(task.inputs),
    limits: JSON.stringify(task.limits),
    delegation:
      task.delegation === undefined || task.delegation === null
        ? null
        : JSON.stringify(task.delegation),
    deadline_ms: task.deadlineMs,
    expires_ms: task.deadlineMs,
    retry_of: task.retryOf,
    ...workspaceColumns(task),
    program: task.program === undefined ? null : JSON.stringify(task.program),
    owner: task.owner ?? null,
    result: null,
    result_ref: null,
    error: null,
    labels: JSON.stringify(task.labels),
    rehearsal: 0,
    created_ms: tx.nowMs,
    updated_ms: tx.nowMs,
    ended_ms: null,
  };
  await insertRow(tx.sql, 'tasks', row);
  await inheritRestore(tx, row);
  await addToTaskCount(tx, row.assigned_to, status, 1);
  for (const after of task.after)
    await tx.sql.run(
      'INSERT INTO task_deps (task_id, after_id) VALUES (?, ?) ON CONFLICT DO NOTHING',
      row.id,
      after,
    );
  await tx.event({
    id: `${row.id}.created`,
    event: 'task.created',
    principal: row.created_by,
    agent: task.agent,
    task_id: row.id,
    root_task_id: row.root_task_id,
    data: {
      goal_bytes: Buffer.byteLength(row.goal),
      parent: row.parent_task_id,
      after: task.after.length,
      ...(task.program === undefined ? {} : { program: true }),
    },
  });
  if (status === 'ready') await queueRun(tx, row);
  return row;
}

const workspaceColumns = ({ id, parent, workspace, workspaceMode, ownsLayer }: NewTask) => {
  const { workspace: path, workspace_mode: mode } = parent ?? {
    workspace: workspace ?? null,
    workspace_mode: workspaceMode,
  };
  const above = parent === undefined ? [] : readLayers(parent);
  const layers = ownsLayer === true ? [...above, id] : above;
  return {
    workspace: path,
    workspace_mode: path === null ? null : (mode ?? null),
    layers: layers.length === 0 ? null : JSON.stringify(layers),
  };
};

/** Throws if a dependency ended without completing. */
async function checkReadiness(
  tx: AgentdTx,
  after: string[],
): Promise<Exclude<Readiness, { status: 'rejected' }>> {
  const blockers: { id: string; status: TaskStatus }[] = [];
  for (const id of after)
    blockers.push({ id, status: (await findTask(tx, id)).status as TaskStatus });
  const ready = decideReadiness(blockers);
  if (ready.status === 'rejected')
    throw fault('conflict', ready.reason, { hint: 'Retry that task first, or omit it.' });
  return ready;
}

export async function queueRun(tx: AgentdTx, task: TaskRow): Promise<string> {
  const id = tx.newId<string>('run');
  await tx.sql.run(
    `INSERT INTO runs (id, task_id, agent, priority, fence, status, outcome, activations,
       crashes, not_before_ms, lease_until_ms, briefing, created_ms, queued_ms, ended_ms, program)
     VALUES (?, ?, ?, ?, 0, 'queued', NULL, 0, 0, 0, NULL, NULL, ?, ?, NULL, ?)`,
    id,
    task.id,
    task.assigned_to,
    task.priority,
    tx.nowMs,
    tx.nowMs,
    task.program == null ? 0 : 1,
  );
  return id;
}

export async function reassign(tx: AgentdTx, task: TaskRow, agent: string): Promise<void> {
  await addToTaskCount(tx, task.assigned_to, task.status, -1);
  await addToTaskCount(tx, agent, task.status, 1);
  await tx.sql.run(
    'UPDATE tasks SET assigned_to = ?, updated_ms = ? WHERE id = ?',
    agent,
    tx.nowMs,
    task.id,
  );
  task.assigned_to = agent;
  const queued = await findUnendedRuns(tx, task.id);
  // A started run acted as the other agent, so the new agent gets a new run.
  for (const run of queued) await endRun(tx, task, run, { outcome: 'lost', by: 'service:agentd' });
  if (queued.length > 0) await queueRun(tx, task);
}

export type Ending = {
  status: 'completed' | 'failed' | 'canceled' | 'rejected';
  reason: string | null;
  result?: string | null;
  resultRef?: string | null;
  error?: { code: string; message: string; hint: string } | null;
  rehearsal?: boolean;
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
    'UPDATE tasks SET result = ?, result_ref = ?, error = ?, rehearsal = ?, ended_ms = ?, expires_ms = NULL WHERE id = ?',
    ending.result ?? null,
    ending.resultRef ?? null,
    ending.error == null ? null : JSON.stringify(ending.error),
    ending.rehearsal === true ? 1 : task.rehearsal,
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
  await settleDependents(tx, task);
}

function findUnendedRuns(tx: AgentdTx, taskId: string): Promise<RunRow[]> {
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

async function endRun(
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

async function settleDependents(tx: AgentdTx, task: TaskRow): Promise<void> {
  // In SQLite, CROSS JOIN keeps the order: it starts with the dependents, not with blocked tasks.
  const rows = await tx.sql.all<TaskRow>(
    `SELECT t.* FROM task_deps d CROSS JOIN tasks t
     WHERE t.id = d.task_id AND d.after_id = ? AND t.status = 'blocked'`,
    task.id,
  );
  for (const dependent of rows) {
    const blockers = await tx.sql.all<{ id: string; status: TaskStatus }>(
      'SELECT t.id, t.status FROM task_deps d JOIN tasks t ON t.id = d.after_id WHERE d.task_id = ?',
      dependent.id,
    );
    const ready = decideReadiness(blockers);
    if (ready.status === 'rejected') {
      await endTask(tx, dependent, {
        status: 'rejected',
        reason: ready.reason,
        by: 'service:agentd',
        error: {
          code: 'conflict',
          message: ready.reason,
          hint: 'Retry that task, then create this one again.',
        },
      });
    } else if (ready.status === 'ready') {
      await setTaskStatus(tx, dependent, 'ready', null);
      await queueRun(tx, dependent);
    }
  }
}
