// Applies the failure policy of a root task within the transaction that ends it: another try by the
// same or by the next agent, or a halt.
import { insertHalt } from './halt-rows.ts';
import { findMatch } from './matches.ts';
import type { AgentRow, TaskRow } from './rows.ts';
import { insertTask, type NewTask } from './tasks.ts';
import type { AgentdTx } from './tx.ts';

/** Resolves to the task that is the next try, if there is one. */
export async function applyFailurePolicy(
  tx: AgentdTx,
  task: TaskRow,
): Promise<TaskRow | undefined> {
  if (task.parent_task_id !== null || task.program != null) return undefined;
  if (task.on_failure === 'halt') {
    const reason = `${task.id} failed, and its failure policy is halt`;
    await insertHalt(tx, reason, 'service:agentd');
    tx.haltAfter(reason);
  }
  if (task.on_failure !== 'retry' && task.on_failure !== 'reassign') return undefined;
  const attempt = task.attempt ?? 1;
  const isTooLate = task.deadline_ms !== null && Number(task.deadline_ms) <= tx.nowMs;
  if (attempt >= (task.attempts_max ?? 1) || isTooLate) return undefined;
  if (task.on_failure === 'retry') {
    const agent = task.assigned_to!;
    if (!(await isActive(tx, agent))) return undefined;
    return insertTask(tx, buildRetry(tx, task, agent));
  }
  const match = await findMatch(tx.sql, task.id);
  if (match === undefined) return undefined;
  const tried = [...match.tried, task.assigned_to!] as typeof match.tried;
  for (const { agent } of match.candidates) {
    if (tried.includes(agent) || !(await isActive(tx, agent))) continue;
    const next = buildRetry(tx, task, agent);
    return insertTask(tx, { ...next, match: { ...match, tried, agent, reason: 'next' } });
  }
  return undefined;
}

async function isActive(tx: AgentdTx, agent: string): Promise<boolean> {
  const text = 'SELECT status FROM agents WHERE name = ?';
  return (await tx.sql.one<AgentRow>(text, agent))?.status === 'active';
}

/** With the labels of the failed one: a directory of the person's has what its runs left there. */
const buildRetry = (tx: AgentdTx, task: TaskRow, agent: string): NewTask => ({
  id: tx.newId('task'),
  parent: undefined,
  contextId: task.context_id,
  goal: task.goal,
  createdBy: task.created_by,
  owner: task.owner ?? undefined,
  agent,
  priority: task.priority,
  inputs: JSON.parse(task.inputs) as unknown[],
  limits: JSON.parse(task.limits) as Record<string, unknown>,
  delegation: task.delegation === null ? undefined : JSON.parse(task.delegation),
  after: [],
  deadlineMs: task.deadline_ms === null ? null : Number(task.deadline_ms),
  retryOf: task.id,
  onFailure: task.on_failure as NewTask['onFailure'],
  attemptsMax: task.attempts_max ?? undefined,
  attempt: (task.attempt ?? 1) + 1,
  workspace: task.workspace ?? undefined,
  workspaceMode: (task.workspace_mode ?? undefined) as NewTask['workspaceMode'],
  labels: JSON.parse(task.labels) as string[],
});
