// Opens and ends waits within a transaction. A parked run has no process; when the last wait that
// it needs has ended, it is queued.
import type { MessageTurn } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { WaitKind } from '../../../wire/toold.ts';
import { isEnded } from '../rules.ts';
import { markTask } from './marks.ts';
import { addQuestionNotice } from './notices.ts';
import type { RunRow, TaskRow, WaitRow } from './rows.ts';
import { findTask, runEventIds, setTaskStatus } from './task-rows.ts';
import { missingFault } from './tombstones.ts';
import { type AgentdTx, insertRow } from './tx.ts';

export type NewWait = {
  run: Pick<RunRow, 'id' | 'task_id' | 'agent'>;
  callId: string;
  kind: WaitKind;
  by: string[];
  question?: string;
  choices?: string[];
  childTaskId?: string;
  from?: string;
  messageId?: string;
  dueMs?: number;
  expiresMs?: number;
};

/** Events carry the root task, so that they can be queried by tree. */
export async function findRoot(
  tx: Pick<AgentdTx, 'sql'>,
  taskId: string,
): Promise<{ root_task_id?: string }> {
  const text = 'SELECT root_task_id FROM tasks WHERE id = ?';
  return (await tx.sql.one<{ root_task_id: string }>(text, taskId)) ?? {};
}

export async function openWait(tx: AgentdTx, wait: NewWait): Promise<WaitRow> {
  const next = Math.min(
    wait.dueMs ?? Number.MAX_SAFE_INTEGER,
    wait.expiresMs ?? Number.MAX_SAFE_INTEGER,
  );
  const row: WaitRow = {
    id: tx.newId('wait'),
    run_id: wait.run.id,
    task_id: wait.run.task_id,
    call_id: wait.callId,
    kind: wait.kind,
    ended_by: JSON.stringify(wait.by),
    question: wait.question ?? null,
    choices: JSON.stringify(wait.choices ?? []),
    child_task_id: wait.childTaskId ?? null,
    from_principal: wait.from ?? null,
    message_id: wait.messageId ?? null,
    due_ms: wait.dueMs ?? null,
    expires_ms: wait.expiresMs ?? null,
    next_ms: next === Number.MAX_SAFE_INTEGER ? null : next,
    status: 'open',
    needed: 0,
    outcome: null,
    answer: null,
    answered_by: null,
    opened_ms: tx.nowMs,
    ended_ms: null,
  };
  await insertRow(tx.sql, 'waits', row);
  if (row.kind === 'question') await addQuestionNotice(tx, row.id, row.task_id);
  await tx.event({
    id: `${row.id}.opened`,
    event: 'wait.opened',
    task_id: row.task_id,
    ...(await findRoot(tx, row.task_id)),
    ...(row.run_id === ''
      ? {}
      : { agent: wait.run.agent, run_id: row.run_id, call_id: row.call_id }),
    status: row.kind,
  });
  return row;
}

export type WaitEnding = {
  outcome: 'answered' | 'completed' | 'failed' | 'expired' | 'canceled';
  answer: Record<string, unknown> | null;
  by: string;
};

export async function endWait(tx: AgentdTx, wait: WaitRow, ending: WaitEnding): Promise<void> {
  if (wait.status !== 'open') return;
  const answer = ending.answer === null ? null : JSON.stringify(ending.answer);
  await tx.sql.run(
    "UPDATE waits SET status = 'ended', outcome = ?, answer = ?, answered_by = ?, ended_ms = ?, next_ms = NULL WHERE id = ?",
    ending.outcome,
    answer,
    ending.by,
    tx.nowMs,
    wait.id,
  );
  Object.assign(wait, {
    status: 'ended',
    outcome: ending.outcome,
    answer,
    answered_by: ending.by,
    ended_ms: tx.nowMs,
  });
  await tx.event({
    id: `${wait.id}.ended`,
    event: 'wait.ended',
    principal: ending.by,
    task_id: wait.task_id,
    ...(await findRoot(tx, wait.task_id)),
    ...(wait.run_id === '' ? {} : { run_id: wait.run_id, call_id: wait.call_id }),
    status: ending.outcome,
    data: { kind: wait.kind, answer_bytes: answer?.length ?? 0 },
  });
  if (ending.outcome !== 'canceled' && wait.run_id !== '') await wakeIfDone(tx, wait.run_id);
}

async function wakeIfDone(tx: AgentdTx, runId: string): Promise<void> {
  const open = await tx.sql.one(
    "SELECT id FROM waits WHERE run_id = ? AND status = 'open' AND needed = 1",
    runId,
  );
  if (open !== undefined) return;
  const changed = await tx.sql.run(
    `UPDATE runs SET status = 'queued', not_before_ms = 0, crashes = 0, queued_ms = ?
     WHERE id = ? AND status = 'parked'`,
    tx.nowMs,
    runId,
  );
  if (changed === 0) return;
  const task = await tx.sql.one<TaskRow>(
    'SELECT t.* FROM runs r JOIN tasks t ON t.id = r.task_id WHERE r.id = ?',
    runId,
  );
  if (task !== undefined && !isEnded(task.status)) await setTaskStatus(tx, task, 'ready', null);
}

const WAITING_FOR: Record<string, string> = {
  child: 'a subtask',
  question: "a person's answer",
  approval: 'an approval',
  message: 'a reply',
  timer: 'a timer',
  mail: 'a mail to be sent',
  input: 'input',
  auth: 'a sign-in',
};

/** Returns false, without parking, if every wait has already ended. */
export async function parkRun(tx: AgentdTx, run: RunRow, callIds: string[]): Promise<boolean> {
  const kinds = new Set<string>();
  for (const callId of callIds) {
    const waits = await tx.sql.all<WaitRow>(
      "SELECT * FROM waits WHERE run_id = ? AND call_id = ? AND status = 'open'",
      run.id,
      callId,
    );
    for (const wait of waits) {
      kinds.add(WAITING_FOR[wait.kind] ?? wait.kind);
      await tx.sql.run('UPDATE waits SET needed = 1 WHERE id = ?', wait.id);
    }
  }
  if (kinds.size === 0) return false;
  await tx.sql.run(
    "UPDATE runs SET status = 'parked', lease_until_ms = NULL, crashes = 0 WHERE id = ?",
    run.id,
  );
  const task = await findTask(tx, run.task_id);
  const reason = `waiting for ${[...kinds].join(' and ')}`;
  await setTaskStatus(tx, task, 'waiting', reason);
  await tx.event({
    id: `${run.id}.parked.${run.fence}`,
    event: 'run.parked',
    ...runEventIds(task, run),
    data: { fence: run.fence, waits: callIds.length },
  });
  await tx.event({
    id: `${task.id}.waiting.${run.id}.${run.fence}`,
    event: 'task.waiting',
    ...runEventIds(task, run),
    status: reason,
  });
  return true;
}

export async function findWait(tx: Pick<AgentdTx, 'sql'>, id: string): Promise<WaitRow> {
  const row = await tx.sql.one<WaitRow>('SELECT * FROM waits WHERE id = ?', id);
  if (row === undefined)
    throw await missingFault(tx.sql, { name: 'wait', id, hint: 'See agentctl questions.' });
  return row;
}

export function findWaitsOnChild(tx: AgentdTx, taskId: string): Promise<WaitRow[]> {
  return tx.sql.all<WaitRow>(
    "SELECT * FROM waits WHERE child_task_id = ? AND status = 'open'",
    taskId,
  );
}

/** Ends waits for a message from this sender in this thread. Returns false if there were none. */
export async function endWaitsForMessage(
  tx: AgentdTx,
  message: {
    id: string;
    from: string;
    to: string;
    contextId: string;
    inReplyTo: string | null;
    text: string;
    labels: readonly string[];
    turn?: MessageTurn | undefined;
  },
): Promise<boolean> {
  const waits = await tx.sql.all<WaitRow>(
    `SELECT w.* FROM waits w JOIN runs r ON r.id = w.run_id JOIN tasks t ON t.id = w.task_id
     WHERE w.status = 'open' AND w.kind = 'message'
       AND w.from_principal = ? AND r.agent = ? AND t.context_id = ?`,
    message.from,
    message.to.replace(/^agent:/, ''),
    message.contextId,
  );
  const matching = waits.filter(
    (wait) => message.inReplyTo === null || wait.message_id === message.inReplyTo,
  );
  for (const wait of matching) {
    const why = `a message from ${message.from}`;
    await markTask(tx, wait.task_id, message.labels, { id: message.id, why, run_id: wait.run_id });
    await endWait(tx, wait, {
      outcome: 'answered',
      answer: {
        message_id: message.id,
        from: message.from,
        text: message.text,
        ...(message.turn === undefined ? {} : { turn: message.turn }),
      },
      by: message.from,
    });
  }
  return matching.length > 0;
}

const WAITS_FOR_MESSAGES = `SELECT w.* FROM waits w JOIN tasks t ON t.id = w.task_id
  WHERE w.status = 'open' AND w.kind = 'message' AND w.from_principal = ? AND t.context_id = ?`;

const findOpenTask = (tx: AgentdTx, contextId: string, agent: string) =>
  tx.sql.one<{ id: string }>(
    'SELECT id FROM tasks WHERE context_id = ? AND assigned_to = ? AND ended_ms IS NULL LIMIT 1',
    contextId,
    agent,
  );

/** Throws if an agent would wait for a reply that cannot come. */
export async function assertCanReply(
  tx: AgentdTx,
  message: { contextId: string; from: string; to: string; inReplyTo: string | null },
): Promise<void> {
  const { contextId, from, to, inReplyTo } = message;
  if (!to.startsWith('agent:')) return;
  const name = to.slice('agent:'.length);
  if ((await findOpenTask(tx, contextId, name)) === undefined)
    throw fault('conflict', `${to} has no open task in this thread, so it cannot reply`, {
      hint: 'Give it a task with task.delegate, or send the message without wait_reply.',
    });
  // A reply to something else would leave both waiting for each other.
  for (const wait of await tx.sql.all<WaitRow>(WAITS_FOR_MESSAGES, from, contextId)) {
    const isEnded = inReplyTo === null || wait.message_id === inReplyTo;
    if (isEnded || (await findTask(tx, wait.task_id)).assigned_to !== name) continue;
    throw fault('conflict', `${to} waits for your reply to ${wait.message_id}`, {
      hint: `Reply to it first: in_reply_to ${wait.message_id}.`,
    });
  }
}

/** Ends the waits in a thread for replies of an agent that has no open task there any more. */
export async function endWaitsForReplies(
  tx: AgentdTx,
  { contextId, agent }: { contextId: string; agent: string },
): Promise<void> {
  const from = `agent:${agent}`;
  const waits = await tx.sql.all<WaitRow>(WAITS_FOR_MESSAGES, from, contextId);
  if (waits.length === 0 || (await findOpenTask(tx, contextId, agent)) !== undefined) return;
  for (const wait of waits)
    await endWait(tx, wait, { outcome: 'failed', answer: { from }, by: 'service:agentd' });
}

export async function cancelRunWaits(tx: AgentdTx, runId: string): Promise<void> {
  const waits = await tx.sql.all<WaitRow>(
    "SELECT * FROM waits WHERE run_id = ? AND status = 'open'",
    runId,
  );
  for (const wait of waits)
    await endWait(tx, wait, { outcome: 'canceled', answer: null, by: 'service:agentd' });
}

/** Asks people which agent gets a task. No run waits for the answer. */
export function openTaskQuestion(
  tx: AgentdTx,
  task: TaskRow,
  { question, choices }: { question: string; choices: string[] },
): Promise<WaitRow> {
  const run = { id: '', task_id: task.id, agent: '' };
  const by = ['person:*'];
  return openWait(tx, { run, callId: '', kind: 'question', by, question, choices });
}

/** Cancels agentd's own questions about a task. */
export async function cancelTaskQuestions(tx: AgentdTx, taskId: string): Promise<void> {
  const waits = await tx.sql.all<WaitRow>(
    "SELECT * FROM waits WHERE task_id = ? AND run_id = '' AND status = 'open'",
    taskId,
  );
  for (const wait of waits)
    await endWait(tx, wait, { outcome: 'canceled', answer: null, by: 'service:agentd' });
}
