// Creates tasks and queues their runs within a transaction.
import type { FailurePolicy, TaskStatus } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { WorkspaceMode } from '../../../wire/sandboxd/layers.ts';
import { decideReadiness, type Readiness } from '../dependency-rules.ts';
import { markTask } from './marks.ts';
import { type AgentMatch, saveMatch } from './matches.ts';
import { inheritRestore } from './restores.ts';
import { readLayers, type TaskProgram, type TaskRow } from './rows.ts';
import { addToTaskCount, findTask } from './task-rows.ts';
import { renewTurns } from './threads.ts';
import { type AgentdTx, insertRow } from './tx.ts';
import { openTaskQuestion } from './waits.ts';

export type NewTask = {
  id: string;
  parent: TaskRow | undefined;
  contextId: string;
  goal: string;
  createdBy: string;
  /** The person whose own key was used. */
  owner?: string | undefined;
  /** Null: people are asked, with the candidates of the match. */
  agent: string | null;
  priority: number;
  inputs: unknown[];
  limits: Record<string, unknown>;
  delegation: unknown;
  after: string[];
  deadlineMs: number | null;
  retryOf: string | null;
  onFailure?: FailurePolicy | undefined;
  attemptsMax?: number | undefined;
  attempt?: number;
  match?: AgentMatch | undefined;
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
  const status = task.agent === null ? 'submitted' : ready.status;
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
    reason: task.agent === null ? NO_AGENT : ready.status === 'blocked' ? ready.reason : null,
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
    on_failure: task.onFailure ?? null,
    attempts_max: task.attemptsMax ?? null,
    attempt: task.attempt ?? 1,
    cost_microusd: null,
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
  await renewTurns(tx, row.context_id, row.created_by);
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
    ...(task.agent === null ? {} : { agent: task.agent }),
    task_id: row.id,
    root_task_id: row.root_task_id,
    data: {
      goal_bytes: Buffer.byteLength(row.goal),
      parent: row.parent_task_id,
      after: task.after.length,
      ...(task.retryOf === null ? {} : { retry_of: task.retryOf, attempt: row.attempt ?? 1 }),
      ...(task.match === undefined ? {} : { match: task.match.reason }),
      ...(task.program === undefined ? {} : { program: true }),
    },
  });
  if (task.match !== undefined) await saveMatch(tx, row.id, task.match);
  if (task.agent === null) await askForAgent(tx, row, task.match);
  if (status === 'ready') await queueRun(tx, row);
  return row;
}

const NO_AGENT = 'a person is asked which agent gets it';
const CHOICES_MAX = 16;

function askForAgent(tx: AgentdTx, task: TaskRow, match: AgentMatch | undefined) {
  const choices = (match?.candidates ?? []).map(({ agent }) => agent).slice(0, CHOICES_MAX);
  const goal = task.goal.length > 1_000 ? `${task.goal.slice(0, 1_000)}…` : task.goal;
  return openTaskQuestion(tx, task, { question: `Which agent gets this task? ${goal}`, choices });
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

/** Its briefing has the results of those in its thread. */
async function markFromDependencies(tx: AgentdTx, task: TaskRow): Promise<void> {
  const found = await tx.sql.all<{ id: string; labels: string }>(
    `SELECT t.id, t.labels FROM task_deps d JOIN tasks t ON t.id = d.after_id
     WHERE d.task_id = ? AND t.context_id = ?`,
    task.id,
    task.context_id,
  );
  for (const { id, labels } of found)
    await markTask(tx, task.id, JSON.parse(labels) as string[], { id, why: `the result of ${id}` });
}

export async function queueRun(tx: AgentdTx, task: TaskRow): Promise<string> {
  await markFromDependencies(tx, task);
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
