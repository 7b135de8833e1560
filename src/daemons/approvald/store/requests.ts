// Handles a call's request for approval: a permit covers it, or it joins an equal pending approval,
// or it becomes a new pending approval.
import { canonicalJson, hashJson, sha256Hex } from '../../../platform/json.ts';
import { ARGUMENTS_BYTES_MAX, type AskApproval, type ChainLink } from '../../../wire/approvald.ts';
import { fault } from '../../../wire/errors.ts';
import type { ApprovalId, TaskId } from '../../../wire/primitives.ts';
import type { ApprovaldConfig } from '../config.ts';
import * as events from '../events.ts';
import { combineRisks, countApprovers, covers, toolOf } from '../rules.ts';
import {
  type ApprovalRow,
  type PermitRow,
  type RequestRow,
  readChain,
  readDecisions,
  toPermitScope,
  toRequestScope,
} from './rows.ts';
import { type ApprovaldTx, expireIfDue, findApproval, insertRow } from './tx.ts';

export type ApprovalRequestResult = {
  approval: ApprovalRow;
  status: 'pending' | 'granted' | 'ended';
};
type Limits = Pick<
  ApprovaldConfig,
  'expires_s' | 'expires_s_for' | 'pending_per_agent_max' | 'second_approver_for'
>;

export async function requestApproval(
  tx: ApprovaldTx,
  body: AskApproval,
  limits: Limits,
): Promise<ApprovalRequestResult> {
  const known = await tx.sql.one<RequestRow>('SELECT * FROM asks WHERE call_id = ?', body.call_id);
  if (known !== undefined) return repeatRequest(tx, known, body);
  const fresh = makeRow(tx, body, limits);
  const permit = await findCoveringPermit(tx, fresh);
  if (permit !== undefined)
    return { approval: await grantByPermit(tx, fresh, permit, body), status: 'granted' };
  const waiting = await findEqualPending(tx, fresh);
  if (waiting !== undefined)
    return { approval: await joinPending(tx, waiting, body), status: 'pending' };
  await assertBelowLimit(tx, fresh, limits.pending_per_agent_max);
  fresh.thread = JSON.stringify(await readThread(tx, fresh));
  await insertRow(tx.sql, 'approvals', fresh);
  await addRequest(tx, fresh, body);
  await tx.notify(fresh, 'requested');
  return { approval: fresh, status: 'pending' };
}

async function repeatRequest(
  tx: ApprovaldTx,
  known: RequestRow,
  body: AskApproval,
): Promise<ApprovalRequestResult> {
  const approval = await findApproval(tx.sql, known.approval_id);
  if (approval.arguments_hash !== body.arguments_hash || known.run_id !== body.run_id)
    throw fault('conflict', `${body.call_id} was already used for another request`, {
      hint: 'Request it with a new call; an approval is valid for the original arguments only.',
    });
  await expireIfDue(tx, approval);
  if (approval.status === 'pending') return { approval, status: 'pending' };
  const granted = approval.status === 'approved' && readDecisions(approval).length === 0;
  return { approval, status: granted ? 'granted' : 'ended' };
}

export function makeRow(tx: ApprovaldTx, body: AskApproval, limits: Limits): ApprovalRow {
  const text = canonicalJson(body.arguments);
  if (Buffer.byteLength(text) > ARGUMENTS_BYTES_MAX)
    throw fault('too_large', `the arguments are longer than ${ARGUMENTS_BYTES_MAX} bytes`);
  if (sha256Hex(text) !== body.arguments_hash)
    throw fault('bad_request', 'body arguments_hash: is not the hash of the arguments');
  const { agent, action, root_task_id, repo, diff, rollback } = body;
  const danger = { class: body.class, risk: body.risk, reversibility: body.reversibility };
  const own: ChainLink = { ...danger, part: 'call', what: action };
  const chain: [ChainLink, ...ChainLink[]] = [own, ...(body.chain ?? [])];
  const worst = combineRisks(chain);
  const labels = [...new Set(body.labels)].sort();
  const same = { agent, action, root_task_id, repo, diff, rollback, labels, chain };
  const expiresS =
    limits.expires_s_for[toolOf(action)] ?? limits.expires_s_for[worst.class] ?? limits.expires_s;
  return {
    id: tx.newId<ApprovalId>('approval'),
    status: 'pending',
    group_key: hashJson({ ...same, hash: body.arguments_hash }),
    agent,
    task_id: body.task_id,
    root_task_id,
    action,
    ...worst,
    chain: JSON.stringify(chain),
    repo,
    summary: body.summary,
    reason: body.reason,
    rules: JSON.stringify(body.rules),
    each_call: body.each_call ? 1 : 0,
    labels: JSON.stringify(labels),
    arguments: text,
    arguments_hash: body.arguments_hash,
    edited: null,
    edited_hash: null,
    diff,
    diff_hash: diff === null ? null : sha256Hex(diff),
    rollback,
    nonce: tx.newNonce(),
    approvers_needed: countApprovers(limits.second_approver_for, { action, chain }),
    said: '[]',
    thread: '[]',
    permit_id: null,
    refusals: 0,
    requested_ms: tx.nowMs,
    expires_ms: tx.nowMs + expiresS * 1000,
    decided_ms: null,
    decided_by: null,
    memory_id: null,
    memory_scope: null,
    memory: null,
  };
}

async function findCoveringPermit(
  tx: ApprovaldTx,
  row: ApprovalRow,
): Promise<PermitRow | undefined> {
  const scope = toRequestScope(row);
  const permits = await tx.sql.all<PermitRow & Pick<ApprovalRow, 'rules' | 'chain'>>(
    'SELECT p.*, a.rules, a.chain FROM permits p JOIN approvals a ON a.id = p.approval_id ' +
      'WHERE p.agent = ? AND p.revoked_ms IS NULL AND p.expires_ms > ? ORDER BY p.id',
    row.agent,
    tx.nowMs,
  );
  // A rule that did not ask when the permit was granted is not covered by it.
  const isShown = (shown: string) => {
    const known = new Set(JSON.parse(shown) as string[]);
    return scope.rules.every((rule) => known.has(rule));
  };
  const found = permits.find(
    (permit) => covers(toPermitScope(permit, readChain(permit)), scope) && isShown(permit.rules),
  );
  if (found === undefined) return undefined;
  const { rules: _, chain: __, ...permit } = found;
  return permit;
}

async function grantByPermit(
  tx: ApprovaldTx,
  fresh: ApprovalRow,
  permit: PermitRow,
  body: AskApproval,
): Promise<ApprovalRow> {
  const by = (JSON.parse(permit.granted_by) as string[]).at(-1)!;
  const row: ApprovalRow = {
    ...fresh,
    status: 'approved',
    permit_id: permit.id,
    decided_ms: tx.nowMs,
    decided_by: by,
  };
  await insertRow(tx.sql, 'approvals', row);
  await addRequest(tx, row, body);
  return row;
}

const findEqualPending = (tx: ApprovaldTx, row: ApprovalRow): Promise<ApprovalRow | undefined> =>
  tx.sql.one<ApprovalRow>(
    "SELECT * FROM approvals WHERE status = 'pending' AND group_key = ? AND expires_ms > ?",
    row.group_key,
    tx.nowMs,
  );

/** One decision now covers one more call, so the view gets a new nonce. */
async function joinPending(
  tx: ApprovaldTx,
  row: ApprovalRow,
  body: AskApproval,
): Promise<ApprovalRow> {
  row.nonce = tx.newNonce();
  await tx.sql.run('UPDATE approvals SET nonce = ? WHERE id = ?', row.nonce, row.id);
  await addRequest(tx, row, body);
  return row;
}

export async function addRequest(
  tx: ApprovaldTx,
  row: ApprovalRow,
  body: AskApproval,
): Promise<void> {
  const added: RequestRow = {
    call_id: body.call_id,
    approval_id: row.id,
    run_id: body.run_id,
    task_id: body.task_id,
    purpose: body.purpose ?? '',
    nonce: tx.newNonce(),
    asked_ms: tx.nowMs,
    withdrawn_ms: null,
    redeemed_ms: null,
    redeemed: null,
    redeemed_seq: null,
    // A call that a permit covers has no wait to end.
    told: row.status === 'pending' ? 0 : 1,
  };
  await insertRow(tx.sql, 'asks', added);
  await tx.addEvent(events.requested(row, added));
}

async function assertBelowLimit(tx: ApprovaldTx, row: ApprovalRow, max: number): Promise<void> {
  const counted = await tx.sql.one<{ n: number }>(
    // Proposed memories are counted on their own: no run waits for them.
    "SELECT COUNT(*) AS n FROM approvals WHERE status = 'pending' AND agent = ? AND memory_id IS NULL",
    row.agent,
  );
  if (Number(counted?.n ?? 0) >= max)
    throw fault('limit', `${row.agent} already has ${max} pending approvals`, {
      hint: 'Wait for decisions before requesting more.',
    });
}

type ThreadQuestion = { approval_id: ApprovalId; question: string; by: string; at: string };
const THREAD_MAX = 20;

/** Returns people's questions on earlier requests of this agent and tool in this task tree. */
async function readThread(
  tx: ApprovaldTx,
  row: { agent: string; action: string; root_task_id: TaskId },
): Promise<ThreadQuestion[]> {
  const before = await tx.sql.all<ApprovalRow>(
    // Hides agent and status from SQLite's planner: a task tree has fewer approvals.
    "SELECT * FROM approvals WHERE root_task_id = ? AND agent || '' = ? AND action = ? " +
      "AND status || '' = 'info' ORDER BY id DESC LIMIT ?",
    row.root_task_id,
    row.agent,
    row.action,
    THREAD_MAX,
  );
  return before.reverse().flatMap((approval) => {
    const question = readDecisions(approval).findLast(({ answer }) => answer === 'request-info');
    if (question === undefined) return [];
    const at = new Date(question.at_ms).toISOString();
    return [{ approval_id: approval.id, question: question.text ?? '', by: question.by, at }];
  });
}
