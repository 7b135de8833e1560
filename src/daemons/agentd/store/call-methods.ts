// The store's methods for requests of runs and people: delegation, results, messages, answers,
// artifacts. Each is one transaction, and each call of a run takes effect once.
import { type IdempotencyKey, runOnce } from '../../../platform/sql/idempotency.ts';
import { fault } from '../../../wire/errors.ts';
import type { Label } from '../../../wire/primitives.ts';
import type { WaitKind } from '../../../wire/toold.ts';
import { assertOwnSubtask, assignTask, changeTask } from './assign-task.ts';
import { endTask } from './end-task.ts';
import { markTask } from './marks.ts';
import { insertMessage } from './messages.ts';
import { addToArtifactSize } from './prune-artifact.ts';
import type { ArtifactRow, RunRow, WaitRow } from './rows.ts';
import { findLiveRun, findRun } from './runs.ts';
import type { AgentdStore, NewArtifact, RunCall } from './store.ts';
import { assertActive, insertCheckedTask } from './task-methods.ts';
import { findTask } from './task-rows.ts';
import {
  EXCHANGE_ASKER,
  refuseTurn,
  renewTurns,
  settleExchange,
  takeTurn,
  toRefusal,
} from './threads.ts';
import { type AgentdTx, type AgentdWriteTx, insertRow } from './tx.ts';
import { assertCanReply, endWait, findRoot, findWait, openWait, type WaitEnding } from './waits.ts';

export const callKey = (call: RunCall): IdempotencyKey => ({
  scope: `run-call ${call.runId}`,
  key: call.part === undefined ? call.callId : `${call.callId}/${call.part}`,
  requestHash: call.requestHash,
});
/** A recorded call returns its recorded result, even if the run has a newer activation. */
export const onceForRun = <T>(
  write: AgentdWriteTx,
  call: RunCall,
  work: (tx: AgentdTx, run: RunRow) => Promise<T>,
): Promise<T> =>
  write((tx) =>
    runOnce(tx.sql, callKey(call), tx.nowMs, async () =>
      work(tx, await findLiveRun(tx, call.runId, call.fence)),
    ),
  );

export function makeCallMethods(
  write: AgentdWriteTx,
): Pick<
  AgentdStore,
  | 'delegate'
  | 'updateSubtask'
  | 'finish'
  | 'sendFromRun'
  | 'send'
  | 'openWait'
  | 'answerWait'
  | 'endApprovalWait'
  | 'endMailWait'
  | 'putArtifact'
  | 'recordArtifactRead'
  | 'recordProposal'
  | 'mark'
> {
  /** Ends the wait that a call opened for what this daemon does under this id. */
  const endServiceWait = (
    of: { kind: WaitKind; id: string; run_id: string; call_id: string },
    ending: WaitEnding,
  ): Promise<boolean> =>
    write(async (tx) => {
      const run = await findRun(tx, of.run_id);
      const waits = await tx.sql.all<WaitRow>(
        'SELECT * FROM waits WHERE run_id = ? AND call_id = ? AND question = ?',
        of.run_id,
        of.call_id,
        of.id,
      );
      const wait = waits.find(({ kind }) => kind === of.kind);
      if (wait === undefined) return run.status === 'ended';
      await endWait(tx, wait, ending);
      return true;
    });

  return {
    delegate: (call, task, wait, { childrenMax, limits }) =>
      onceForRun(write, call, async (tx, run) => {
        await assertChildrenBelow(tx, run.task_id, childrenMax);
        const { contextId, createdBy: from, goal: text } = task;
        const turn = await takeTurn(tx, {
          contextId,
          from,
          to: `agent:${task.agent}`,
          text,
          limits,
        });
        if ('refused' in turn) {
          const { refused } = turn;
          await refuseTurn(tx, {
            callId: call.callId,
            run,
            contextId,
            refused,
            questionExpiresMs: undefined,
          });
          return toRefusal(refused, null);
        }
        const row = await insertCheckedTask(tx, task);
        await insertMessage(tx, {
          type: 'TaskRequest',
          contextId: row.context_id,
          taskId: row.id,
          from: row.created_by,
          to: `agent:${row.assigned_to}`,
          inReplyTo: null,
          labels: JSON.parse(row.labels) as Label[],
          parts: [{ kind: 'text', text: row.goal }],
          text: row.goal,
          delivered: true,
        });
        if (wait === undefined) return { task: row, wait: null };
        return {
          task: row,
          wait: await openWait(tx, {
            run,
            callId: call.callId,
            kind: 'child',
            by: [`agent:${row.assigned_to}`],
            childTaskId: row.id,
            ...wait,
          }),
        };
      }),
    updateSubtask: (call, id, change) =>
      onceForRun(write, call, async (tx, run) => {
        await assertOwnSubtask(tx, { id, change, ownId: run.task_id });
        if (change.agent !== undefined) await assertActive(tx, change.agent);
        await changeTask(tx, id, { change, by: `agent:${run.agent}` });
        return findTask(tx, id);
      }),
    finish: (call, ending) =>
      onceForRun(write, call, async (tx, run) => {
        await endTask(tx, await findTask(tx, run.task_id), { ...ending, winner: run.id });
        // The requesting process still waits for the response; it exits by itself.
        const others = tx.endedRuns.filter((ended) => ended.runId !== run.id);
        tx.endedRuns.splice(0, tx.endedRuns.length, ...others);
        return findTask(tx, run.task_id);
      }),
    sendFromRun: (call, message, wait, { questionExpiresMs, ...exchange }) =>
      onceForRun(write, call, async (tx, run) => {
        const taken = await takeTurn(tx, { ...message, ...exchange });
        if ('refused' in taken) {
          const { contextId } = message;
          const { refused } = taken;
          const asked = await refuseTurn(tx, {
            callId: call.callId,
            run,
            contextId,
            refused,
            questionExpiresMs,
          });
          return toRefusal(refused, asked);
        }
        if (wait !== undefined) await assertCanReply(tx, message);
        const turn =
          taken.turn === undefined
            ? undefined
            : {
                n: taken.turn,
                max: exchange.limits.turnsMax,
                awaits_reply: wait !== undefined,
              };
        const row = await insertMessage(tx, { ...message, turn });
        if (wait === undefined) return { message: row, wait: null };
        return {
          message: row,
          wait: await openWait(tx, {
            run,
            callId: call.callId,
            kind: 'message',
            by: [message.to],
            from: message.to,
            messageId: row.id,
            expiresMs: wait.expiresMs,
          }),
        };
      }),
    send: (message, once) =>
      write((tx) => runOnce(tx.sql, once, tx.nowMs, () => insertMessage(tx, message))),
    openWait: (call, wait) =>
      onceForRun(write, call, (tx, run) => openWait(tx, { ...wait, run, callId: call.callId })),
    answerWait: (id, answer, by) =>
      write(async (tx) => {
        const wait = await findWait(tx, id);
        if (wait.status !== 'open')
          throw fault('conflict', `${id} has already ended (${wait.outcome})`, {
            hint: 'See agentctl questions for open ones.',
          });
        if (wait.kind !== 'question')
          throw fault(
            'conflict',
            `${id} is not a question; it waits for ${wait.kind === 'child' ? 'a task' : `a ${wait.kind}`}`,
          );
        const choices = JSON.parse(wait.choices) as string[];
        if (choices.length > 0 && !choices.includes(answer))
          throw fault('bad_request', `the answer must be one of: ${choices.join(' · ')}`);
        await endWait(tx, wait, { outcome: 'answered', answer: { text: answer }, by });
        const { context_id: thread } = await findTask(tx, wait.task_id);
        if (wait.from_principal === EXCHANGE_ASKER)
          await settleExchange(tx, thread, { answer, by });
        else await renewTurns(tx, thread, by);
        if (wait.run_id === '') {
          await assertActive(tx, answer);
          await assignTask(tx, await findTask(tx, wait.task_id), { agent: answer, by });
        }
        return wait;
      }),
    endApprovalWait: ({ approvalId, run_id, call_id, outcome, decision, by }) =>
      endServiceWait(
        { kind: 'approval', id: approvalId, run_id, call_id },
        { outcome, answer: { approval_id: approvalId, decision }, by },
      ),
    endMailWait: ({ mailId, run_id, call_id, outcome }) =>
      endServiceWait(
        { kind: 'mail', id: mailId, run_id, call_id },
        { outcome: 'answered', answer: outcome, by: 'service:maild' },
      ),
    putArtifact: (artifact, call, once) =>
      write((tx) =>
        runOnce(tx.sql, call === undefined ? once : callKey(call), tx.nowMs, async () => {
          if (call !== undefined) await findLiveRun(tx, call.runId, call.fence);
          return insertArtifact(tx, artifact, call);
        }),
      ),
    recordArtifactRead: (call, artifact) =>
      onceForRun(write, call, async (tx, run) => {
        await tx.event({
          id: `${call.callId}.read`,
          event: 'artifact.read',
          principal: `agent:${run.agent}`,
          task_id: run.task_id,
          ...(await findRoot(tx, run.task_id)),
          run_id: run.id,
          call_id: call.callId,
          artifact: artifact.id,
        });
        await markByCall(tx, call, run, artifact.labels, `artifact ${artifact.id}`);
        return null;
      }),
    recordProposal: (call, { kind, name, sha256, approvalId }) =>
      onceForRun(write, call, async (tx, run) => {
        await tx.event({
          id: `${call.callId}.accepted`,
          event: kind === 'persona' ? 'persona.changed' : 'skill.changed',
          principal: `agent:${run.agent}`,
          agent: run.agent,
          task_id: run.task_id,
          ...(await findRoot(tx, run.task_id)),
          run_id: run.id,
          call_id: call.callId,
          data: { name, sha256, approval: approvalId },
        });
        return null;
      }),
    mark: (call, labels, why) =>
      onceForRun(write, call, (tx, run) => markByCall(tx, call, run, labels, why)),
  };
}

const markByCall = (
  tx: AgentdTx,
  { callId }: RunCall,
  run: RunRow,
  labels: readonly Label[],
  why: string,
): Promise<Label[]> =>
  markTask(tx, run.task_id, labels, { id: callId, why, run_id: run.id, call_id: callId });

/** Counted in the same transaction, because calls of one step are concurrent. */
async function assertChildrenBelow(
  tx: AgentdTx,
  taskId: string,
  childrenMax: number,
): Promise<void> {
  const counted = await tx.sql.one<{ n: number }>(
    'SELECT COUNT(*) AS n FROM tasks WHERE parent_task_id = ?',
    taskId,
  );
  if (Number(counted?.n ?? 0) >= childrenMax)
    throw fault('limit', `a task may have up to ${childrenMax} subtasks`);
}

async function insertArtifact(
  tx: AgentdTx,
  a: NewArtifact,
  call: RunCall | undefined,
): Promise<ArtifactRow> {
  const row: ArtifactRow = {
    id: a.id,
    name: a.name,
    mime_type: a.mimeType,
    size_bytes: a.sizeBytes,
    object_hash: a.hash,
    created_by: a.createdBy,
    task_id: a.taskId,
    context_id: a.contextId,
    labels: JSON.stringify(a.labels),
    created_ms: tx.nowMs,
  };
  await insertRow(tx.sql, 'artifacts', row);
  await addToArtifactSize(tx, row.created_by, 1, a.sizeBytes);
  await tx.sql.run('DELETE FROM unused_objects WHERE hash = ?', row.object_hash);
  await tx.event({
    id: `${row.id}.stored`,
    event: 'artifact.stored',
    principal: row.created_by,
    artifact: row.id,
    data: { sha256: row.object_hash, bytes: row.size_bytes },
    ...(row.task_id === null ? {} : { task_id: row.task_id, ...(await findRoot(tx, row.task_id)) }),
    ...(call === undefined ? {} : { run_id: call.runId, call_id: call.callId }),
  });
  return row;
}
