// The store's methods for agents and tasks; each is one transaction.
import { runOnce } from '../../../platform/sql/idempotency.ts';
import type { TaskInput } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import { isEnded } from '../rules.ts';
import { agentNotFound, applyAgents, listAgentNames, putAgent, setAgentStatus } from './agents.ts';
import { assignTask, changeTask } from './assign-task.ts';
import { assertNoCycle } from './cycles.ts';
import { endTask } from './end-task.ts';
import { insertMessage } from './messages.ts';
import type { AgentRow, TaskRow } from './rows.ts';
import type { AgentdStore } from './store.ts';
import { findTask } from './task-rows.ts';
import { insertTask, type NewTask, queueRun } from './tasks.ts';
import { missingFault } from './tombstones.ts';
import type { AgentdTx, AgentdWriteTx } from './tx.ts';

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
): Pick<
  AgentdStore,
  'createTask' | 'createTasks' | 'addRun' | 'cancelTask' | 'assignTask' | 'updateTask'
> {
  return {
    createTask: (task, once) =>
      write((tx) => runOnce(tx.sql, once, tx.nowMs, () => insertCheckedTask(tx, task))),
    createTasks: (tasks, messages, once) =>
      write((tx) =>
        runOnce(tx.sql, once, tx.nowMs, async () => {
          const rows: TaskRow[] = [];
          for (const task of tasks) rows.push(await insertCheckedTask(tx, task));
          for (const message of messages) await insertMessage(tx, message);
          return rows;
        }),
      ),
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
        await assertActive(tx, agent);
        await assignTask(tx, task, { agent, by });
        return findTask(tx, id);
      }),
    updateTask: (id, change, by) =>
      write(async (tx) => {
        if (change.agent !== undefined) await assertActive(tx, change.agent);
        await changeTask(tx, id, { change, by });
        return findTask(tx, id);
      }),
  };
}

export async function assertActive(tx: AgentdTx, agent: string): Promise<void> {
  const row = await tx.sql.one<AgentRow>('SELECT * FROM agents WHERE name = ?', agent);
  if (row === undefined || row.status === 'removed')
    throw agentNotFound(agent, await listAgentNames(tx.sql));
  if (row.status !== 'active')
    throw fault('agent_paused', `agent ${agent} is ${row.status}`, {
      hint: `agentctl resume ${agent}`,
    });
}

export async function insertCheckedTask(tx: AgentdTx, task: NewTask): Promise<TaskRow> {
  if (task.agent !== null) await assertActive(tx, task.agent);
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
