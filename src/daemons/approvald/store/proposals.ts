// Handles memoryd's requests for decisions on proposed memories. They belong to no run or task:
// each is one approval, until a person decides, it expires, or the memory no longer waits.
import { deriveId } from '../../../platform/ids.ts';
import { hashJson } from '../../../platform/json.ts';
import type { AskProposal, ProposedMemory } from '../../../wire/approvald/proposals.ts';
import { fault } from '../../../wire/errors.ts';
import type { AgentName, ApprovalId, CallId, RunId, TaskId } from '../../../wire/primitives.ts';
import type { ApprovaldConfig } from '../config.ts';
import * as events from '../events.ts';
import { addRequest, makeRow } from './requests.ts';
import type { ApprovalRow, RequestRow } from './rows.ts';
import { type ApprovaldTx, endApproval, expireIfDue, findApproval, insertRow } from './tx.ts';

export const MEMORY_WRITE = 'memory.write';
/** Stands for the agent where a person proposes. */
const NOBODY = 'nobody';
const PRUNED_MAX = 1_000;

type VersionOfMemory = Pick<AskProposal, 'memory_id' | 'version'>;

/** Approvals are for calls of runs; a proposal has the ids of one that no agent can use. */
export const toCallIds = ({ memory_id, version }: VersionOfMemory) => ({
  call_id: deriveId<CallId>('call', memory_id, version),
  run_id: deriveId<RunId>('run', memory_id, version),
});

/** Ids, and no text: this is what is approved. */
export const toArguments = ({ memory_id, version, class: kind, scope }: ProposedMemory) => ({
  memory_id,
  version,
  class: kind,
  scope,
});

export async function requestProposal(
  tx: ApprovaldTx,
  asked: AskProposal,
  config: ApprovaldConfig,
): Promise<{ approval_id: ApprovalId; status: 'pending' | 'ended' }> {
  const known = await tx.sql.one<RequestRow>(
    'SELECT * FROM asks WHERE call_id = ?',
    toCallIds(asked).call_id,
  );
  if (known !== undefined) {
    const row = await findApproval(tx.sql, known.approval_id);
    await expireIfDue(tx, row);
    if (row.status !== 'canceled')
      return { approval_id: row.id, status: row.status === 'pending' ? 'pending' : 'ended' };
    // Withdrawn by mistake, as after a restore: it waits again.
    await tx.sql.run('DELETE FROM asks WHERE call_id = ?', known.call_id);
  }
  await withdrawProposals(tx, [asked.memory_id]);
  const row = toRow(tx, asked, config);
  if (!asked.is_named) await assertBelowLimit(tx, row, config.pending_per_agent_max);
  await insertRow(tx.sql, 'approvals', row);
  await addRequest(tx, row, toRequest(asked));
  await tx.notify(row, 'requested');
  return { approval_id: row.id, status: 'pending' };
}

/** In place of a task, so that its rows are found by themselves; nobody sees it. */
const standInForTask = (id: string) => ({ task_id: id as TaskId, root_task_id: id as TaskId });

function toRequest(asked: AskProposal) {
  const { by, class: kind, scope, labels, rules, reason } = asked;
  const given = toArguments(asked);
  const isRisky = labels.some((label) => label === 'secret' || label === 'personal');
  return {
    ...toCallIds(asked),
    agent: (by.startsWith('agent:') ? by.slice('agent:'.length) : NOBODY) as AgentName,
    ...standInForTask(asked.memory_id),
    action: MEMORY_WRITE,
    class: MEMORY_WRITE,
    risk: isRisky ? ('high' as const) : ('medium' as const),
    reversibility: 'reversible' as const,
    repo: null,
    summary: `${by} proposes a ${kind} memory of ${scope}`,
    arguments: given,
    arguments_hash: hashJson(given),
    diff: null,
    rollback: `agentctl memory forget ${asked.memory_id}`,
    labels,
    rules,
    reason,
    each_call: true,
  };
}

function toRow(tx: ApprovaldTx, asked: AskProposal, config: ApprovaldConfig): ApprovalRow {
  const { memory_id, version, class: kind, scope, by, run_id, task_id } = asked;
  const memory: ProposedMemory = { memory_id, version, class: kind, scope, by, run_id, task_id };
  return {
    ...makeRow(tx, toRequest(asked), { ...config, expires_s: config.proposal_expires_s }),
    memory_id,
    memory_scope: scope,
    memory: JSON.stringify(memory),
  };
}

async function assertBelowLimit(tx: ApprovaldTx, row: ApprovalRow, max: number): Promise<void> {
  const counted = await tx.sql.one<{ n: number }>(
    "SELECT COUNT(*) AS n FROM approvals WHERE status = 'pending' AND agent = ? AND memory_id IS NOT NULL",
    row.agent,
  );
  if (Number(counted?.n ?? 0) >= max)
    throw fault('limit', `${row.agent} already has ${max} pending proposals`, {
      hint: 'They are requested as others are decided.',
    });
}

/** Cancels those that are pending; resolves to how many were. */
export async function withdrawProposals(
  tx: ApprovaldTx,
  memoryIds: readonly string[],
): Promise<number> {
  let withdrawn = 0;
  for (const id of memoryIds) {
    const rows = await tx.sql.all<ApprovalRow>('SELECT * FROM approvals WHERE memory_id = ?', id);
    for (const row of rows.filter(({ status }) => status === 'pending')) {
      await tx.sql.run(
        'UPDATE asks SET withdrawn_ms = ?, told = 1 WHERE approval_id = ?',
        tx.nowMs,
        row.id,
      );
      await endApproval(tx, row, { status: 'canceled', by: 'service:memoryd' });
      await tx.addEvent(events.expired(row));
      withdrawn++;
    }
  }
  return withdrawn;
}

/** No task tree prunes them: those that memoryd has done go with the tombstones of their time. */
export async function pruneProposals(tx: ApprovaldTx, beforeMs: number): Promise<number> {
  const rows = await tx.sql.all<ApprovalRow>(
    'SELECT * FROM approvals WHERE memory_id IS NOT NULL AND decided_ms < ? ORDER BY decided_ms LIMIT ?',
    beforeMs,
    PRUNED_MAX,
  );
  for (const { id } of rows) {
    await tx.sql.run('DELETE FROM asks WHERE approval_id = ?', id);
    await tx.sql.run('DELETE FROM approvals WHERE id = ?', id);
  }
  return rows.length;
}
