// Finds the one owner of the next move in a thread: the agent that works, or whoever it waits for.
import type { Sql } from '../../../platform/sql/database.ts';
import type { NextMove } from '../../../wire/agentd.ts';
import type { TaskRow, WaitRow } from './rows.ts';

type TaskMove = Pick<
  TaskRow,
  'id' | 'root_task_id' | 'context_id' | 'created_by' | 'assigned_to' | 'status'
>;

const COLUMNS = 'id, root_task_id, context_id, created_by, assigned_to, status';
const ANYBODY = 'person:*';

const asPerson = (principal: string): string =>
  principal.startsWith('person:') ? principal : ANYBODY;

export async function findNextMove(sql: Sql, contextId: string): Promise<NextMove | undefined> {
  const open = await sql.all<TaskMove>(
    `SELECT ${COLUMNS} FROM tasks WHERE context_id = ? AND depth = 0 AND ended_ms IS NULL
     ORDER BY id LIMIT 100`,
    contextId,
  );
  // A blocked one moves when another of them does.
  const task = open.find(({ status }) => status !== 'blocked') ?? open[0];
  if (task !== undefined) return followTask(sql, task, new Set());
  const last = await sql.one<TaskMove>(
    `SELECT ${COLUMNS} FROM tasks WHERE context_id = ? AND depth = 0 ORDER BY id DESC LIMIT 1`,
    contextId,
  );
  return last && { owner: asPerson(last.created_by), task_id: last.id, why: 'has the result' };
}

async function followTask(sql: Sql, task: TaskMove, seen: Set<string>): Promise<NextMove> {
  const agent = `agent:${task.assigned_to}`;
  seen.add(task.id);
  if (task.status === 'submitted')
    return { ...(await askedPerson(sql, task)), why: 'is asked which agent gets it' };
  if (task.status === 'blocked') {
    const before = await findBlocker(sql, task.id);
    if (before !== undefined && !seen.has(before.id)) return followTask(sql, before, seen);
  }
  if (task.status === 'waiting') {
    const wait = await sql.one<WaitRow>(
      `SELECT * FROM waits WHERE task_id = ? AND status = 'open' AND needed = 1
       ORDER BY id LIMIT 1`,
      task.id,
    );
    if (wait !== undefined) return followWait(sql, task, { wait, seen });
  }
  return { owner: agent, task_id: task.id, why: 'works' };
}

async function followWait(
  sql: Sql,
  task: TaskMove,
  { wait, seen }: { wait: WaitRow; seen: Set<string> },
): Promise<NextMove> {
  const agent = `agent:${task.assigned_to}`;
  if (wait.kind === 'question')
    return { ...(await askedPerson(sql, task)), why: `is asked: ${wait.id}` };
  if (wait.kind === 'approval')
    return { ...(await askedPerson(sql, task)), why: `decides on ${wait.question}` };
  const child = wait.child_task_id === null ? undefined : await findById(sql, wait.child_task_id);
  if (child !== undefined && !seen.has(child.id)) return followTask(sql, child, seen);
  const from = wait.from_principal ?? '';
  if (from.startsWith('person:')) return { owner: from, task_id: task.id, why: 'is to reply' };
  const other = await findTaskOf(sql, task.context_id, from.replace(/^agent:/, ''));
  if (wait.kind === 'message' && other !== undefined && !seen.has(other.id))
    return followTask(sql, other, seen);
  const why = wait.kind === 'timer' ? 'waits for a timer' : 'waits';
  return { owner: agent, task_id: task.id, why };
}

async function askedPerson(sql: Sql, task: TaskMove) {
  const root = (await findById(sql, task.root_task_id)) ?? task;
  return { owner: asPerson(root.created_by), task_id: task.id };
}

const findById = (sql: Sql, id: string): Promise<TaskMove | undefined> =>
  sql.one<TaskMove>(`SELECT ${COLUMNS} FROM tasks WHERE id = ?`, id);

const findTaskOf = (sql: Sql, contextId: string, agent: string): Promise<TaskMove | undefined> =>
  sql.one<TaskMove>(
    `SELECT ${COLUMNS} FROM tasks WHERE context_id = ? AND assigned_to = ? AND ended_ms IS NULL
     ORDER BY id LIMIT 1`,
    contextId,
    agent,
  );

const findBlocker = (sql: Sql, taskId: string): Promise<TaskMove | undefined> =>
  sql.one<TaskMove>(
    `SELECT ${COLUMNS.replace(/\w+/g, 't.$&')} FROM task_deps d JOIN tasks t ON t.id = d.after_id
     WHERE d.task_id = ? AND t.ended_ms IS NULL ORDER BY t.id LIMIT 1`,
    taskId,
  );
