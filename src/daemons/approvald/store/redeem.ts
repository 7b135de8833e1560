// Redeems an approval for the call that waited for it: valid for exactly the call, run, arguments,
// diff and marks that were shown, and once.
import { toTimestamp } from '../../../platform/clock.ts';
import type { SigningKey } from '../../../platform/signed-json.ts';
import type { Redeemed, Statement } from '../../../wire/approvald/statement.ts';
import type { ChainLink } from '../../../wire/approvald.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import type { Label } from '../../../wire/primitives.ts';
import * as events from '../events.ts';
import { findUnshown, isMarked } from '../rules.ts';
import {
  type ApprovalRow,
  isActive,
  listApprovers,
  type PermitRow,
  type RequestRow,
  readChain,
  readDecisions,
  readLabels,
} from './rows.ts';
import { type ApprovaldTx, expireIfDue, findApproval, findPermit } from './tx.ts';

export type RedemptionInput = {
  id: string;
  call_id: string;
  run_id: string;
  arguments_hash: string;
  diff_hash?: string | null | undefined;
  brings?: readonly ChainLink[] | undefined;
  labels: readonly Label[];
};
type RedeemOptions = { signing: SigningKey; redeemWithinMs: number };
/** `seq`: the event that must be durable before the caller acts on the answer. */
export type RedeemResult = { answer: Redeemed; seq: number } | { refusal: Fault };

export async function redeem(
  tx: ApprovaldTx,
  input: RedemptionInput,
  options: RedeemOptions,
): Promise<RedeemResult> {
  const row = await findApproval(tx.sql, input.id);
  const request = await tx.sql.one<RequestRow>(
    'SELECT * FROM asks WHERE call_id = ?',
    input.call_id,
  );
  const mismatch = findMismatch(row, request, input);
  if (request === undefined || mismatch !== undefined)
    return recordRefusal(tx, row, input, mismatch!);
  if (request.redeemed !== null)
    return repeatRedemption(row, request.redeemed, request.redeemed_seq, input);
  await expireIfDue(tx, row);
  if (request.withdrawn_ms === null && row.status === 'pending')
    return { answer: makePending(options.signing.keyId), seq: 0 };
  const permit = await findPermit(tx.sql, row.permit_id);
  const outcome = decideOutcome(tx, { row, request, permit, input }, options.redeemWithinMs);
  const by = outcome.decision === 'canceled' ? [] : listDeciders(row, permit, outcome.decision);
  const statement = makeStatement(row, request, { decision: outcome.decision, by });
  const approved = outcome.decision === 'approved';
  const answer: Redeemed = {
    ...outcome,
    arguments: approved
      ? (JSON.parse(row.edited ?? row.arguments) as Record<string, unknown>)
      : null,
    edited: approved && row.edited !== null,
    statement,
    signature: options.signing.signJson(statement),
    key_id: options.signing.keyId,
  };
  return { answer, seq: await recordRedemption(tx, { row, request, permit, answer, statement }) };
}

type RedeemContext = {
  row: ApprovalRow;
  request: RequestRow;
  permit: PermitRow | undefined;
  input: RedemptionInput;
};
type Outcome = { decision: Statement['decision']; text: string | null };

function decideOutcome(
  tx: ApprovaldTx,
  { row, request, permit, input }: RedeemContext,
  redeemWithinMs: number,
): Outcome {
  if (request.withdrawn_ms !== null) return makeOutcome('canceled', 'the request was withdrawn');
  switch (row.status) {
    case 'rejected':
      return makeOutcome('rejected', readLastText(row) ?? 'a person rejected it');
    case 'info':
      return makeOutcome('info', readLastText(row) ?? 'a person requested more information');
    case 'expired':
      return makeOutcome('expired', 'it expired without a decision');
    case 'canceled':
      return makeOutcome('canceled', 'the request was withdrawn');
    case 'approved':
    case 'pending':
      break;
  }
  // A permit granted by this very decision is for later calls; this call was approved itself.
  const byPermit = readDecisions(row).length === 0;
  if (byPermit && (permit === undefined || !isActive(permit, tx.nowMs)))
    return makeOutcome('rejected', 'the permit that covered this was revoked or has expired');
  // A proposed memory waits for nobody, and is bound to its version.
  const mayWait = row.memory_id !== null;
  if (!mayWait && Number(row.decided_ms) + redeemWithinMs <= tx.nowMs)
    return makeOutcome('expired', 'it was approved, but not redeemed in time');
  const changed = findChange(row, input);
  return changed === undefined
    ? { decision: 'approved', text: null }
    : makeOutcome('changed', changed);
}

function findChange(row: ApprovalRow, input: RedemptionInput): string | undefined {
  if (isMarked(input.labels) && !isMarked(readLabels(row)))
    return 'the run has read text from outside since this was requested';
  // Also when a person edited the arguments: they saw this diff when they did.
  if (input.diff_hash !== undefined && input.diff_hash !== row.diff_hash)
    return 'the diff is no longer the one the person saw';
  const more = findUnshown(input.brings ?? [], readChain(row));
  if (more !== undefined) return `it would do more than the person saw: ${more.what || more.class}`;
  return undefined;
}

/**
 * Returns the recorded answer again, for a call that was interrupted. The caller may have changed
 * things since, so it must still match what was shown.
 */
function repeatRedemption(
  row: ApprovalRow,
  redeemed: string,
  seq: number | null,
  input: RedemptionInput,
): RedeemResult {
  const answer = JSON.parse(redeemed) as Redeemed;
  const changed = answer.decision === 'approved' ? findChange(row, input) : undefined;
  const now: Redeemed =
    changed === undefined
      ? answer
      : { ...makePending(answer.key_id), decision: 'changed', text: changed };
  return { answer: now, seq: Number(seq) };
}

const makeOutcome = (
  decision: Exclude<Statement['decision'], 'approved'>,
  text: string,
): Outcome => ({
  decision,
  text,
});
const readLastText = (row: ApprovalRow): string | null => readDecisions(row).at(-1)?.text ?? null;

function listDeciders(
  row: ApprovalRow,
  permit: PermitRow | undefined,
  decision: Statement['decision'],
): string[] {
  if (decision === 'approved') return listApprovers(row, permit);
  return row.decided_by?.startsWith('person:') === true ? [row.decided_by] : [];
}

function makeStatement(
  row: ApprovalRow,
  request: RequestRow,
  { decision, by }: { decision: Statement['decision']; by: string[] },
): Statement {
  return {
    v: 1,
    approval_id: row.id,
    call_id: request.call_id,
    run_id: request.run_id,
    agent: row.agent,
    task_id: row.memory_id === null ? request.task_id : null,
    action: row.action,
    decision,
    asked_hash: row.arguments_hash,
    arguments_hash: row.edited_hash ?? row.arguments_hash,
    diff_hash: row.edited === null ? row.diff_hash : null,
    by,
    permit_id: row.permit_id,
    nonce: request.nonce,
    at: toTimestamp(Number(row.decided_ms ?? request.withdrawn_ms)),
  };
}

const makePending = (keyId: string): Redeemed => ({
  decision: 'pending',
  arguments: null,
  edited: false,
  text: null,
  statement: null,
  signature: null,
  key_id: keyId,
});

async function recordRedemption(
  tx: ApprovaldTx,
  input: Omit<RedeemContext, 'input'> & { answer: Redeemed; statement: Statement },
): Promise<number> {
  const { row, request, permit, answer, statement } = input;
  const { decision, by, arguments_hash: hash } = statement;
  const seq = await tx.addEvent(events.redeemed(row, request, { decision, by, hash }));
  await tx.sql.run(
    'UPDATE asks SET redeemed_ms = ?, redeemed = ?, redeemed_seq = ?, told = ? WHERE call_id = ?',
    tx.nowMs,
    JSON.stringify(answer),
    seq,
    // memoryd acknowledges a decision when it is done.
    row.memory_id === null ? 1 : request.told,
    request.call_id,
  );
  if (decision !== 'approved' || permit === undefined || readDecisions(row).length > 0) return seq;
  await tx.sql.run('UPDATE permits SET uses = uses + 1 WHERE id = ?', permit.id);
  return tx.addEvent(events.permitUsed(permit, row, request));
}

type Mismatch = { code: string; message: string };

function findMismatch(
  row: ApprovalRow,
  request: RequestRow | undefined,
  input: RedemptionInput,
): Mismatch | undefined {
  if (request === undefined || request.approval_id !== row.id)
    return { code: 'other_call', message: `${row.id} was not requested by ${input.call_id}` };
  if (request.run_id !== input.run_id)
    return { code: 'other_run', message: `${row.id} was requested by another run` };
  if (row.arguments_hash !== input.arguments_hash)
    return { code: 'other_arguments', message: `${row.id} was requested with other arguments` };
  return undefined;
}

/** Audited, because a caller that keeps to the contract never gets here. */
async function recordRefusal(
  tx: ApprovaldTx,
  row: ApprovalRow,
  input: RedemptionInput,
  mismatch: Mismatch,
): Promise<RedeemResult> {
  const number = row.refusals + 1;
  await tx.sql.run('UPDATE approvals SET refusals = ? WHERE id = ?', number, row.id);
  await tx.addEvent(events.refused(row, input, { code: mismatch.code, number }));
  const hint = 'Request this as a new call; an approval is valid only for what was shown.';
  return { refusal: fault('denied', mismatch.message, { hint }) };
}
