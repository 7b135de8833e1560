// Answering: what a person says about an approval that waits. Each answer is written down; the one
// that ends it also makes the permit, when it reaches further than once.
import { canonicalJson, sha256Hex } from '../../../platform/json.ts';
import { type ApprovalReach, ARGUMENTS_BYTES_MAX } from '../../../wire/approvald.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import type { PermitId } from '../../../wire/primitives.ts';
import * as events from '../events.ts';
import {
  approversOf,
  isMarked,
  isOfOwnClass,
  isRepeat,
  narrowest,
  type Person,
  whyNotApprove,
} from '../rules.ts';
import {
  type ApprovalRow,
  type DecisionRow,
  labelsOf,
  type PermitRow,
  saidOf,
  scopeOfAsk,
} from './rows.ts';
import { type ApprovaldTx, asksOf, endApproval, findApproval, insertRow, lapse } from './tx.ts';

export type DecisionInput = {
  id: string;
  person: Person;
  /** The rule that lets this person answer. */
  rule: string;
  /** That rule wants a second person. */
  second: boolean;
  /** The nonce of what the person saw. */
  nonce: string;
} & (
  | {
      answer: 'approve';
      reach: ApprovalReach;
      permitExpiresMs: number;
      edited: Record<string, unknown> | undefined;
    }
  | { answer: 'reject' | 'request-info'; text: string | null }
  | { answer: 'escalate'; text: string | null; to: string | null }
);

/** A refusal is a value, so that what came to light on the way (it expired) is still written. */
export type DecisionResult = { row: ApprovalRow; refusal?: Fault };

export async function answer(tx: ApprovaldTx, given: DecisionInput): Promise<DecisionResult> {
  const row = await findApproval(tx.sql, given.id);
  await lapse(tx, row);
  const edited = given.answer === 'approve' ? readEdit(given, row) : undefined;
  const said: DecisionRow = {
    by: given.person.principal,
    key: given.person.key,
    answer: given.answer,
    for: given.answer === 'approve' ? given.reach : null,
    text: given.answer === 'approve' ? null : given.text,
    to: given.answer === 'escalate' ? given.to : null,
    edited_hash: edited?.hash ?? null,
    rule: given.rule,
    at_ms: tx.nowMs,
  };
  // Clicking twice is no second answer, and no mistake.
  if (isRepeat(saidOf(row), said)) return { row };
  if (row.status !== 'pending') return { row, refusal: alreadyDecidedFault(row) };
  if (given.nonce !== row.nonce) return { row, refusal: hasChanged(row) };
  const all = [...saidOf(row), said];
  switch (given.answer) {
    case 'approve':
      return approve(tx, row, all, { ...given, edited });
    case 'reject':
      return end(tx, row, all, 'rejected');
    case 'request-info':
      return end(tx, row, all, 'info');
    case 'escalate':
      return escalate(tx, row, all);
  }
}

type Approving = {
  second: boolean;
  person: Person;
  reach: ApprovalReach;
  permitExpiresMs: number;
  edited: { text: string; hash: string } | undefined;
};

async function approve(
  tx: ApprovaldTx,
  row: ApprovalRow,
  all: DecisionRow[],
  { person, second, reach, permitExpiresMs, edited }: Approving,
): Promise<DecisionResult> {
  const whyNot = whyNotApprove(all.slice(0, -1), person);
  if (whyNot !== undefined) return { row, refusal: notYours(row, whyNot) };
  const cannot = whyNotReach(row, reach, edited !== undefined);
  if (cannot !== undefined) return { row, refusal: cannot };
  if (edited !== undefined) {
    Object.assign(row, { edited: edited.text, edited_hash: edited.hash });
    await tx.sql.run(
      'UPDATE approvals SET edited = ?, edited_hash = ? WHERE id = ?',
      edited.text,
      edited.hash,
      row.id,
    );
  }
  if (second && row.approvers_needed < 2) {
    row.approvers_needed = 2;
    await tx.sql.run('UPDATE approvals SET approvers_needed = 2 WHERE id = ?', row.id);
  }
  const approvers = approversOf(all);
  if (approvers.length < row.approvers_needed) {
    await write(tx, row, all, false);
    await tx.notify(row, 'escalated');
    return { row };
  }
  const far = narrowest(approvers.map((one) => one.for ?? 'once'));
  if (far !== 'once') await grantPermit(tx, row, { scope: far, approvers, permitExpiresMs });
  return end(tx, row, all, 'approved');
}

function whyNotReach(row: ApprovalRow, reach: ApprovalReach, edits: boolean): Fault | undefined {
  if (reach === 'once') return undefined;
  const hint = 'Approve it once: --for once.';
  if (isMarked(labelsOf(row)))
    return fault('denied', 'a run that has read text from outside gets no permit', { hint });
  if (row.each_call !== 0)
    return fault('denied', `${row.action} wants a person for every call`, { hint });
  if (edits) return fault('bad_request', 'what was edited can only be approved once', { hint });
  if (reach === 'repo' && row.repo === null)
    return fault('bad_request', 'this call touches no repository', { hint });
  if (reach === 'class' && !isOfOwnClass(scopeOfAsk(row)))
    return fault('bad_request', `the class ${row.class} is not that of ${row.action} itself`, {
      hint,
    });
  return undefined;
}

function readEdit(given: DecisionInput & { answer: 'approve' }, row: ApprovalRow) {
  if (given.edited === undefined) return undefined;
  const text = canonicalJson(given.edited);
  if (Buffer.byteLength(text) > ARGUMENTS_BYTES_MAX)
    throw fault('too_large', `the arguments are longer than ${ARGUMENTS_BYTES_MAX} bytes`);
  return text === (row.edited ?? row.arguments) ? undefined : { text, hash: sha256Hex(text) };
}

async function grantPermit(
  tx: ApprovaldTx,
  row: ApprovalRow,
  given: {
    scope: 'task' | 'repo' | 'class';
    approvers: readonly DecisionRow[];
    permitExpiresMs: number;
  },
): Promise<void> {
  const { scope, approvers, permitExpiresMs } = given;
  const permit: PermitRow = {
    id: tx.newId<PermitId>('permit'),
    scope,
    agent: row.agent,
    action: scope === 'class' ? null : row.action,
    class: row.class,
    risk: row.risk,
    reversibility: row.reversibility,
    root_task_id: scope === 'task' ? row.root_task_id : null,
    repo: scope === 'repo' ? row.repo : null,
    approval_id: row.id,
    granted_by: JSON.stringify(approvers.map(({ by }) => by)),
    granted_ms: tx.nowMs,
    expires_ms: tx.nowMs + permitExpiresMs,
    revoked_ms: null,
    revoked_by: null,
    uses: 0,
  };
  await insertRow(tx.sql, 'permits', permit);
  await tx.sql.run('UPDATE approvals SET permit_id = ? WHERE id = ?', permit.id, row.id);
  row.permit_id = permit.id;
  await tx.event(events.permitGranted(permit, row));
}

async function escalate(
  tx: ApprovaldTx,
  row: ApprovalRow,
  all: DecisionRow[],
): Promise<DecisionResult> {
  const { by, key, to } = all.at(-1)!;
  if (to === by)
    return { row, refusal: fault('bad_request', 'it can only be passed on to somebody else') };
  const before = saidOf(row);
  const whyNot = whyNotApprove(before, { principal: by, key });
  if (whyNot !== undefined) return { row, refusal: notYours(row, whyNot) };
  await write(tx, row, all, false);
  await tx.notify(row, 'escalated');
  return { row };
}

async function end(
  tx: ApprovaldTx,
  row: ApprovalRow,
  all: DecisionRow[],
  status: 'approved' | 'rejected' | 'info',
): Promise<DecisionResult> {
  await write(tx, row, all, true);
  await endApproval(tx, row, { status, by: all.at(-1)!.by });
  await tx.notify(row, 'decided');
  return { row };
}

/** What was said so far is part of what the next person sees, so the nonce changes with it. */
async function write(
  tx: ApprovaldTx,
  row: ApprovalRow,
  all: DecisionRow[],
  final: boolean,
): Promise<void> {
  Object.assign(row, { said: JSON.stringify(all), nonce: tx.newNonce() });
  await tx.sql.run(
    'UPDATE approvals SET said = ?, nonce = ? WHERE id = ?',
    row.said,
    row.nonce,
    row.id,
  );
  const calls = await asksOf(tx.sql, row.id);
  await tx.event(events.decided(row, all.at(-1)!, { number: all.length, calls, final }));
}

const WHY_OVER = {
  approved: 'was approved already',
  rejected: 'was rejected already',
  info: 'was answered with a question already',
  expired: 'has expired: no answer in time is a no',
  canceled: 'is not asked for any more',
  pending: 'waits',
} as const;

function alreadyDecidedFault(row: ApprovalRow): Fault {
  const by = row.decided_by === null ? '' : ` (${row.decided_by})`;
  return fault('conflict', `${row.id} ${WHY_OVER[row.status]}${by}`, {
    hint: 'The first answer counts. The agent may ask again.',
  });
}

function notYours(row: ApprovalRow, why: string): Fault {
  return fault('denied', `${row.id}: ${why}`, {
    hint: `They answer with: agentctl --as NAME approve ${row.id}. You can still reject it.`,
  });
}

function hasChanged(row: ApprovalRow): Fault {
  return fault('conflict', `${row.id} is not what you looked at any more`, {
    hint: `Look again: agentctl approvals ${row.id}`,
  });
}
