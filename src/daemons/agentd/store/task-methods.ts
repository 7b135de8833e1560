// The store's methods for agents and tasks; each is one transaction.
import { runOnce } from '../../../platform/sql/idempotency.ts';
import type { TaskInput, TaskStatus } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import { findCycle, type TaskNode } from '../dependency-rules.ts';
import { isEnded } from '../rules.ts';
import { agentNotFound, applyAgents, listAgentNames, putAgent, setAgentStatus } from './agents.ts';
import type { AgentRow, TaskRow } from './rows.ts';
import type { AgentdStore } from './store.ts';
import { findTask } from './task-rows.ts';
import { endTask, insertTask, type NewTask, queueRun, reassign } from './tasks.ts';
import { missingFault } from './tombstones.ts';
import type { AgentdTx, AgentdWriteTx } from './tx.ts';

const CYCLE_NODES_MAX = 5_000;

export function makeAgentMethods(
  write: AgentdWriteTx,
): Pick<AgentdStore, 'applyAgents' | 'putAgent' | 'setAgentStatus'> {
  return {
    applyAgents: (set) => write((tx) => applyAgents(tx, set)),
    putAgent: (agent, by) => write((tx) => putAgent(tx, agent, by)),
    setAgentStatus: (name, status, by) => write((tx) => setAgentStatus(tx, name, status, by)),
  };
}

export function makeTaskMethods(
  write: AgentdWriteTx,
): Pick<AgentdStore, 'createTask' | 'addRun' | 'cancelTask' | 'assignTask'> {
  return {
    createTask: (task, once) =>
      write((tx) => runOnce(tx.sql, once, tx.nowMs, () => insertCheckedTask(tx, task))),
    addRun: (taskId) =>
      write(async (tx) => {
        const task = await findTask(tx, taskId);
        if (isEnded(task.status)) throw fault('ended', `${taskId} is ${task.status}`);
        if (task.program != null) throw fault('conflict', `${taskId} is a program`);
        return queueRun(tx, task);
      }),
    cancelTask: (id, reason, by) =>
      write(async (tx) => {
        const task = await findTask(tx, id);
        if (isEnded(task.status)) throw fault('ended', `${id} is already ${task.status}`);
        await endTask(tx, task, {
          status: 'canceled',
          reason,
          by,
          error: {
            code: 'canceled',
            message: reason,
            hint: 'Create or retry the task if it is still needed.',
          },
        });
        return findTask(tx, id);
      }),
    assignTask: (id, agent, by) =>
      write(async (tx) => {
        const task = await findTask(tx, id);
        if (isEnded(task.status))
          throw fault('ended', `${id} is ${task.status}`, { hint: `agentctl task retry ${id}` });
        if (task.status === 'working' || task.status === 'waiting')
          throw fault('conflict', `${id} is being worked on by ${task.assigned_to}`, {
            hint: 'Cancel it first, or wait until it ends.',
          });
        await assertActive(tx, agent);
        await reassign(tx, task, agent);
        await tx.event({
          id: `${id}.assigned.${tx.newId<string>('n')}`,
          event: 'task.assigned',
          principal: by,
          agent,
          task_id: id,
          root_task_id: task.root_task_id,
        });
        return findTask(tx, id);
      }),
  };
}

async function assertActive(tx: AgentdTx, agent: string): Promise<void> {
  const row = await tx.sql.one<AgentRow>('SELECT * FROM agents WHERE name = ?', agent);
  if (row === undefined || row.status === 'removed')
    throw agentNotFound(agent, await listAgentNames(tx.sql));
  if (row.status !== 'active')
    throw fault('agent_paused', `agent ${agent} is ${row.status}`, {
      hint: `agentctl resume ${agent}`,
    });
}

export async function insertCheckedTask(tx: AgentdTx, task: NewTask): Promise<TaskRow> {
  await assertActive(tx, task.agent);
  await assertInputsExist(tx, task.inputs as TaskInput[]);
  if (task.parent !== undefined) {
    const parent = await findTask(tx, task.parent.id);
    if (isEnded(parent.status)) throw fault('ended', `the parent ${parent.id} is ${parent.status}`);
    await assertNoCycle(tx, { id: task.id, parentTaskId: parent.id, after: task.after });
  }
  return insertTask(tx, task);
}

/** They were checked before; one may have been pruned since. */
async function assertInputsExist(tx: AgentdTx, inputs: readonly TaskInput[]): Promise<void> {
  for (const { kind, id = '' } of inputs) {
    if (kind !== 'artifact_ref') continue;
    const artifactId = id.replace(/^artifact:\/\//, '');
    const found = await tx.sql.one('SELECT id FROM artifacts WHERE id = ?', artifactId);
    if (found === undefined) throw await missingFault(tx.sql, { name: 'artifact', id: artifactId });
  }
}

/** Tasks in a dependency cycle would wait forever. */
async function assertNoCycle(
  tx: AgentdTx,
  draft: { id: string; parentTaskId: string | null; after: string[] },
): Promise<void> {
  if (draft.after.length === 0 || draft.parentTaskId === null) return;
  const nodes = new Map<string, TaskNode>();
  const queue = [...draft.after, draft.parentTaskId];
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
