// Stores and delivers messages within a transaction. They are numbered per pair, so each is
// delivered once and in order. Deliveries are recorded per step, so a replayed step gets the same
// messages.
import type { MessageTurn } from '../../../wire/agentd.ts';
import type { Label } from '../../../wire/primitives.ts';
import { markTask } from './marks.ts';
import { addMessageNotice } from './notices.ts';
import type { MessageRow, RunRow, TaskRow } from './rows.ts';
import { runEventIds } from './task-rows.ts';
import { renewTurns } from './threads.ts';
import { type AgentdTx, insertRow } from './tx.ts';
import { endWaitsForMessage, findRoot } from './waits.ts';

export type NewMessage = {
  type: string;
  contextId: string;
  taskId: string | null;
  from: string;
  to: string;
  inReplyTo: string | null;
  labels: Label[];
  parts: unknown[];
  text: string;
  /** Already delivered another way, such as by the result of a wait. */
  delivered: boolean;
  /** Between agents. */
  turn?: MessageTurn | undefined;
};

export async function insertMessage(tx: AgentdTx, message: NewMessage): Promise<MessageRow> {
  const lastSeq = await findLastSeq(tx, message);
  const id = tx.newId<string>('msg');
  const answered = await endWaitsForMessage(tx, { ...message, id });
  const row: MessageRow = {
    id,
    type: message.type,
    context_id: message.contextId,
    task_id: message.taskId,
    from_principal: message.from,
    to_principal: message.to,
    in_reply_to: message.inReplyTo,
    labels: JSON.stringify(message.labels),
    parts: JSON.stringify(message.parts),
    pair_seq: lastSeq + 1,
    sent_ms: tx.nowMs,
    delivered_ms: message.delivered || answered ? tx.nowMs : null,
    turn: message.turn === undefined ? null : JSON.stringify(message.turn),
  };
  await insertRow(tx.sql, 'messages', row);
  await renewTurns(tx, message.contextId, message.from);
  await addMessageNotice(tx, id, row.to_principal);
  await tx.event({
    id: `${id}.sent`,
    event: 'message.sent',
    principal: message.from,
    ...(message.taskId === null
      ? {}
      : { task_id: message.taskId, ...(await findRoot(tx, message.taskId)) }),
    status: message.type,
    data: { to: message.to, bytes: row.parts.length, pair_seq: row.pair_seq },
  });
  return row;
}

/** The last number of the pair, also if its messages were pruned. */
async function findLastSeq(tx: AgentdTx, { from, to }: NewMessage): Promise<number> {
  const found = await tx.sql.all<{ n: number | null }>(
    `SELECT MAX(pair_seq) AS n FROM messages WHERE from_principal = ? AND to_principal = ?
     UNION ALL
     SELECT last_seq AS n FROM message_pairs WHERE from_principal = ? AND to_principal = ?`,
    from,
    to,
    from,
    to,
  );
  return Math.max(0, ...found.map(({ n }) => Number(n ?? 0)));
}

/**
 * An agent may have several runs in one thread; a result goes to the run that delegated the task.
 */
const WAITING_FOR_RUN = `
SELECT m.id, m.labels, m.from_principal FROM messages m LEFT JOIN tasks t ON t.id = m.task_id
  LEFT JOIN tasks asked ON asked.id = t.parent_task_id AND asked.assigned_to = ?
WHERE m.to_principal = ? AND m.context_id = ? AND m.delivered_ms IS NULL
  AND (m.type NOT IN ('TaskResult', 'TaskRejected') OR asked.id IS NULL OR asked.id = ?)
ORDER BY m.id LIMIT 100`;

export async function deliverInbox(
  tx: AgentdTx,
  run: RunRow,
  task: TaskRow,
  step: number,
): Promise<MessageRow[]> {
  const fresh = await tx.sql.run(
    'INSERT INTO inbox_steps (run_id, step) VALUES (?, ?) ON CONFLICT DO NOTHING',
    run.id,
    step,
  );
  if (fresh > 0) {
    const waiting = await tx.sql.all<{ id: string; labels: string; from_principal: string }>(
      WAITING_FOR_RUN,
      run.agent,
      `agent:${run.agent}`,
      task.context_id,
      task.id,
    );
    // A new step is progress, so earlier crashes no longer count.
    await tx.sql.run('UPDATE runs SET crashes = 0 WHERE id = ? AND crashes > 0', run.id);
    for (const { id, labels, from_principal: from } of waiting) {
      await tx.sql.run(
        'UPDATE messages SET delivered_ms = ?, delivered_run = ?, delivered_step = ? WHERE id = ?',
        tx.nowMs,
        run.id,
        step,
        id,
      );
      await tx.event({
        id: `${id}.delivered`,
        event: 'message.delivered',
        ...runEventIds(task, run),
        data: { message: id, step },
      });
      const why = `a message from ${from}`;
      await markTask(tx, task.id, JSON.parse(labels) as string[], { id, why, run_id: run.id });
    }
  }
  return tx.sql.all<MessageRow>(
    'SELECT * FROM messages WHERE delivered_run = ? AND delivered_step = ? ORDER BY id',
    run.id,
    step,
  );
}
