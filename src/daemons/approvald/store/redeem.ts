// Redeeming: a call uses the answer it waited for. What a person approved holds for exactly the
// call, run, arguments, diff and marks that were shown, and is given out once.

import { toTimestamp } from '../../../platform/clock.ts';
import type { SigningKey } from '../../../platform/signed-json.ts';
import type { ChainLink, Redeemed, Statement } from '../../../wire/approvald.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import type { Label } from '../../../wire/primitives.ts';
import * as events from '../events.ts';
import { isMarked, unshown } from '../rules.ts';
import {
  type ApprovalRow,
  approvedBy,
  chainOf,
  isActive,
  labelsOf,
  type PermitRow,
  type RequestRow,
  saidOf,
} from './rows.ts';
import { type ApprovaldTx, findApproval, findPermit, lapse } from './tx.ts';

export type Redeeming = {
  id: string;
  call_id: string;
  run_id: string;
  arguments_hash: string;
  diff_hash?: string | null | undefined;
  brings?: readonly ChainLink[] | undefined;
  labels: readonly Label[];
};
type RedeemOptions = { signing: SigningKey; redeemWithinMs: number };
/** `seq`: the event that must be durable before anybody acts on it. */
export type RedeemResult = { answer: Redeemed; seq: number } | { refusal: Fault };

export async function redeem(
  tx: ApprovaldTx,
  given: Redeeming,
  means: RedeemOptions,
): Promise<RedeemResult> {
  const row = await findApproval(tx.sql, given.id);
  const ask = await tx.sql.one<RequestRow>('SELECT * FROM asks WHERE call_id = ?', given.call_id);
  const wrong = whatDiffers(row, ask, given);
  if (ask === undefined || wrong !== undefined) return refuse(tx, row, given, wrong!);
  if (ask.redeemed !== null) return redeemedBefore(row, ask.redeemed, ask.redeemed_seq, given);
  await lapse(tx, row);
  if (ask.withdrawn_ms === null && row.status === 'pending')
    return { answer: pending(means.signing.keyId), seq: 0 };
  const permit = await findPermit(tx.sql, row.permit_id);
  const outcome = findMismatch(tx, { row, ask, permit, given }, means.redeemWithinMs);
  const by = outcome.decision === 'canceled' ? [] : peopleOf(row, permit, outcome.decision);
  const statement = statementOf(row, ask, { decision: outcome.decision, by });
  const approved = outcome.decision === 'approved';
  const answer: Redeemed = {
    ...outcome,
    arguments: approved
      ? (JSON.parse(row.edited ?? row.arguments) as Record<string, unknown>)
      : null,
    edited: approved && row.edited !== null,
    statement,
    signature: means.signing.signJson(statement),
    key_id: means.signing.keyId,
  };
  return { answer, seq: await keep(tx, { row, ask, permit, answer, statement }) };
}

type Judged = {
  row: ApprovalRow;
  ask: RequestRow;
  permit: PermitRow | undefined;
  given: Redeeming;
};
type Outcome = { decision: Statement['decision']; text: string | null };

function findMismatch(
  tx: ApprovaldTx,
  { row, ask, permit, given }: Judged,
  redeemWithinMs: number,
): Outcome {
  if (ask.withdrawn_ms !== null) return no('canceled', 'nobody asks for this any more');
  switch (row.status) {
    case 'rejected':
      return no('rejected', lastText(row) ?? 'a person said no');
    case 'info':
      return no('info', lastText(row) ?? 'a person wants to know more');
    case 'expired':
      return no('expired', 'nobody answered in time, and no answer is a no');
    case 'canceled':
      return no('canceled', 'nobody asks for this any more');
    case 'approved':
    case 'pending':
      break;
  }
  // A permit given by this very answer is for later calls; this call has the person's own word.
  const byPermit = saidOf(row).length === 0;
  if (byPermit && (permit === undefined || !isActive(permit, tx.nowMs)))
    return no('rejected', 'the permit that covered this was revoked or has expired');
  if (Number(row.decided_ms) + redeemWithinMs <= tx.nowMs)
    return no('expired', 'it was approved, but not used in time');
  const changed = whatChanged(row, given);
  return changed === undefined ? { decision: 'approved', text: null } : no('changed', changed);
}

function whatChanged(row: ApprovalRow, given: Redeeming): string | undefined {
  if (isMarked(given.labels) && !isMarked(labelsOf(row)))
    return 'the run has read text from outside since this was asked';
  // Also when a person edited the arguments: they did so looking at this.
  if (given.diff_hash !== undefined && given.diff_hash !== row.diff_hash)
    return 'what it would change is not what the person saw any more';
  const more = unshown(given.brings ?? [], chainOf(row));
  if (more !== undefined) return `it would do more than the person saw: ${more.what || more.class}`;
  return undefined;
}

/**
 * The same answer, for a call that was cut off. Whoever gets it could have changed things since, so
 * it must still be about what was shown.
 */
function redeemedBefore(
  row: ApprovalRow,
  redeemed: string,
  seq: number | null,
  given: Redeeming,
): RedeemResult {
  const answer = JSON.parse(redeemed) as Redeemed;
  const changed = answer.decision === 'approved' ? whatChanged(row, given) : undefined;
  const now: Redeemed =
    changed === undefined
      ? answer
      : { ...pending(answer.key_id), decision: 'changed', text: changed };
  return { answer: now, seq: Number(seq) };
}

const no = (decision: Exclude<Statement['decision'], 'approved'>, text: string): Outcome => ({
  decision,
  text,
});
const lastText = (row: ApprovalRow): string | null => saidOf(row).at(-1)?.text ?? null;

function peopleOf(
  row: ApprovalRow,
  permit: PermitRow | undefined,
  decision: Statement['decision'],
): string[] {
  if (decision === 'approved') return approvedBy(row, permit);
  return row.decided_by?.startsWith('person:') === true ? [row.decided_by] : [];
}

function statementOf(
  row: ApprovalRow,
  ask: RequestRow,
  { decision, by }: { decision: Statement['decision']; by: string[] },
): Statement {
  return {
    v: 1,
    approval_id: row.id,
    call_id: ask.call_id,
    run_id: ask.run_id,
    agent: row.agent,
    task_id: ask.task_id,
    action: row.action,
    decision,
    asked_hash: row.arguments_hash,
    arguments_hash: row.edited_hash ?? row.arguments_hash,
    diff_hash: row.edited === null ? row.diff_hash : null,
    by,
    permit_id: row.permit_id,
    nonce: ask.nonce,
    at: toTimestamp(Number(row.decided_ms ?? ask.withdrawn_ms)),
  };
}

const pending = (keyId: string): Redeemed => ({
  decision: 'pending',
  arguments: null,
  edited: false,
  text: null,
  statement: null,
  signature: null,
  key_id: keyId,
});

async function keep(
  tx: ApprovaldTx,
  given: Omit<Judged, 'given'> & { answer: Redeemed; statement: Statement },
): Promise<number> {
  const { row, ask, permit, answer, statement } = given;
  const { decision, by, arguments_hash: hash } = statement;
  const seq = await tx.event(events.redeemed(row, ask, { decision, by, hash }));
  await tx.sql.run(
    'UPDATE asks SET redeemed_ms = ?, redeemed = ?, redeemed_seq = ?, told = 1 WHERE call_id = ?',
    tx.nowMs,
    JSON.stringify(answer),
    seq,
    ask.call_id,
  );
  if (decision !== 'approved' || permit === undefined || saidOf(row).length > 0) return seq;
  await tx.sql.run('UPDATE permits SET uses = uses + 1 WHERE id = ?', permit.id);
  return tx.event(events.permitUsed(permit, row, ask));
}

type Mismatch = { code: string; message: string };

function whatDiffers(
  row: ApprovalRow,
  ask: RequestRow | undefined,
  given: Redeeming,
): Mismatch | undefined {
  if (ask === undefined || ask.approval_id !== row.id)
    return { code: 'other_call', message: `${given.call_id} did not ask for ${row.id}` };
  if (ask.run_id !== given.run_id)
    return { code: 'other_run', message: `${row.id} was asked for by another run` };
  if (row.arguments_hash !== given.arguments_hash)
    return { code: 'other_arguments', message: `${row.id} was asked for with other arguments` };
  return undefined;
}

/** Written down: nobody who keeps to the contract comes here. */
async function refuse(
  tx: ApprovaldTx,
  row: ApprovalRow,
  given: Redeeming,
  why: Mismatch,
): Promise<RedeemResult> {
  const number = row.refusals + 1;
  await tx.sql.run('UPDATE approvals SET refusals = ? WHERE id = ?', number, row.id);
  await tx.event(events.refused(row, given, { code: why.code, number }));
  const hint = 'An approval holds for exactly what was shown; ask for this as a new call.';
  return { refusal: fault('denied', why.message, { hint }) };
}
