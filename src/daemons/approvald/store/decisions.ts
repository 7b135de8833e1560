// Records people's decisions on pending approvals. The decision that ends an approval also creates
// the permit, when its reach is more than once.
import { canonicalJson, sha256Hex } from '../../../platform/json.ts';
import {
  type ApprovalReach,
  ARGUMENTS_BYTES_MAX,
  type DecisionChannel,
} from '../../../wire/approvald.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import type { Label, PermitId } from '../../../wire/primitives.ts';
import * as events from '../events.ts';
import {
  findObstacle,
  isMarked,
  isOwnClass,
  isRepeat,
  type Person,
  pickNarrowest,
  selectApprovals,
} from '../rules.ts';
import {
  type ApprovalRow,
  type DecisionRow,
  type PermitRow,
  readDecisions,
  readLabels,
  toRequestScope,
} from './rows.ts';
import {
  type ApprovaldTx,
  endApproval,
  expireIfDue,
  findApproval,
  insertRow,
  listRequests,
} from './tx.ts';

/** A proposed memory as a person decides on it. */
export type SeenProposal = { labels: readonly Label[]; arguments: Record<string, unknown> };

export type DecisionInput = {
  id: string;
  person: Person;
  /** The rule that lets this person decide. */
  rule: string;
  /** That rule requires a second person. */
  second: boolean;
  channel: DecisionChannel;
  /** The nonce of the view that the person saw. */
  nonce: string;
  /** For a proposed memory: its marks, and the version that the person saw or worded. */
  proposal?: SeenProposal | undefined;
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

/** A refusal is a value, so that the transaction (which may record an expiry) still commits. */
export type DecisionResult = { row: ApprovalRow; refusal?: Fault };

export async function recordDecision(
  tx: ApprovaldTx,
  input: DecisionInput,
): Promise<DecisionResult> {
  const row = await findApproval(tx.sql, input.id);
  await expireIfDue(tx, row);
  const edited = input.answer === 'approve' ? readEdit(input, row) : undefined;
  const decision: DecisionRow = {
    by: input.person.principal,
    key: input.person.key,
    answer: input.answer,
    for: input.answer === 'approve' ? input.reach : null,
    text: input.answer === 'approve' ? null : input.text,
    to: input.answer === 'escalate' ? input.to : null,
    edited_hash: edited?.hash ?? null,
    rule: input.rule,
    channel: input.channel,
    at_ms: tx.nowMs,
  };
  // A double click is neither a second decision nor an error.
  if (isRepeat(readDecisions(row), decision)) return { row };
  if (row.status !== 'pending') return { row, refusal: alreadyDecidedFault(row) };
  if (input.nonce !== row.nonce) return { row, refusal: viewChangedFault(row) };
  if (input.proposal !== undefined) await keepLabels(tx, row, input.proposal.labels);
  const all = [...readDecisions(row), decision];
  switch (input.answer) {
    case 'approve':
      return approve(tx, row, all, { ...input, edited });
    case 'reject':
      return endApprovalAs(tx, row, all, 'rejected');
    case 'request-info':
      return endApprovalAs(tx, row, all, 'info');
    case 'escalate':
      return escalate(tx, row, all);
  }
}

type ApproveInput = {
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
  { person, second, reach, permitExpiresMs, edited }: ApproveInput,
): Promise<DecisionResult> {
  const obstacle = findObstacle(all.slice(0, -1), person);
  if (obstacle !== undefined) return { row, refusal: notAllowedFault(row, obstacle) };
  const refusal = reachFault(row, reach, edited !== undefined);
  if (refusal !== undefined) return { row, refusal };
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
  const approvers = selectApprovals(all);
  if (approvers.length < row.approvers_needed) {
    await writeDecision(tx, row, all, false);
    await tx.notify(row, 'escalated');
    return { row };
  }
  const scope = pickNarrowest(approvers.map((approval) => approval.for ?? 'once'));
  if (scope !== 'once') await grantPermit(tx, row, { scope, approvers, permitExpiresMs });
  return endApprovalAs(tx, row, all, 'approved');
}

function reachFault(row: ApprovalRow, reach: ApprovalReach, edits: boolean): Fault | undefined {
  if (reach === 'once') return undefined;
  const hint = 'Approve it once: --for once.';
  if (isMarked(readLabels(row)))
    return fault('denied', 'a run that has read text from outside cannot get a permit', { hint });
  if (row.each_call !== 0)
    return fault('denied', `${row.action} requires approval of every call`, { hint });
  if (edits) return fault('bad_request', 'edited arguments can only be approved once', { hint });
  if (reach === 'repo' && row.repo === null)
    return fault('bad_request', 'this call has no repository', { hint });
  if (reach === 'class' && !isOwnClass(toRequestScope(row)))
    return fault('bad_request', `the class ${row.class} is not that of ${row.action} itself`, {
      hint,
    });
  return undefined;
}

/** A person who words a proposal anew may have marked it. */
async function keepLabels(
  tx: ApprovaldTx,
  row: ApprovalRow,
  labels: readonly Label[],
): Promise<void> {
  row.labels = JSON.stringify([...new Set(labels)].sort());
  await tx.sql.run('UPDATE approvals SET labels = ? WHERE id = ?', row.labels, row.id);
}

function readEdit(input: DecisionInput & { answer: 'approve' }, row: ApprovalRow) {
  const edited = input.proposal?.arguments ?? input.edited;
  if (edited === undefined) return undefined;
  const text = canonicalJson(edited);
  if (Buffer.byteLength(text) > ARGUMENTS_BYTES_MAX)
    throw fault('too_large', `the arguments are longer than ${ARGUMENTS_BYTES_MAX} bytes`);
  // Repeated once it is decided, the edit is still one.
  const before = row.status === 'pending' ? (row.edited ?? row.arguments) : row.arguments;
  return text === before ? undefined : { text, hash: sha256Hex(text) };
}

async function grantPermit(
  tx: ApprovaldTx,
  row: ApprovalRow,
  input: {
    scope: 'task' | 'repo' | 'class';
    approvers: readonly DecisionRow[];
    permitExpiresMs: number;
  },
): Promise<void> {
  const { scope, approvers, permitExpiresMs } = input;
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
  await tx.addEvent(events.permitGranted(permit, row));
}

async function escalate(
  tx: ApprovaldTx,
  row: ApprovalRow,
  all: DecisionRow[],
): Promise<DecisionResult> {
  const { by, key, to } = all.at(-1)!;
  if (to === by)
    return { row, refusal: fault('bad_request', 'it can only be escalated to another person') };
  const obstacle = findObstacle(readDecisions(row), { principal: by, key });
  if (obstacle !== undefined) return { row, refusal: notAllowedFault(row, obstacle) };
  await writeDecision(tx, row, all, false);
  await tx.notify(row, 'escalated');
  return { row };
}

async function endApprovalAs(
  tx: ApprovaldTx,
  row: ApprovalRow,
  all: DecisionRow[],
  status: 'approved' | 'rejected' | 'info',
): Promise<DecisionResult> {
  await writeDecision(tx, row, all, true);
  await endApproval(tx, row, { status, by: all.at(-1)!.by });
  await tx.notify(row, 'decided');
  return { row };
}

/** Earlier decisions are part of the next person's view, so the nonce changes with each. */
async function writeDecision(
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
  const calls = await listRequests(tx.sql, row.id);
  await tx.addEvent(events.decided(row, all.at(-1)!, { number: all.length, calls, final }));
}

const STATUS_TEXT = {
  approved: 'is already approved',
  rejected: 'is already rejected',
  info: 'was already answered with a question',
  expired: 'has expired',
  canceled: 'is canceled',
  pending: 'is pending',
} as const;

function alreadyDecidedFault(row: ApprovalRow): Fault {
  const by = row.decided_by === null ? '' : ` (${row.decided_by})`;
  return fault('conflict', `${row.id} ${STATUS_TEXT[row.status]}${by}`, {
    hint: 'Let the agent request it again; the first decision stands.',
  });
}

function notAllowedFault(row: ApprovalRow, why: string): Fault {
  return fault('denied', `${row.id}: ${why}`, {
    hint: `Let them run: agentctl --as NAME approve ${row.id}. You can still reject it.`,
  });
}

function viewChangedFault(row: ApprovalRow): Fault {
  return fault('conflict', `${row.id} has changed since you looked at it`, {
    hint: `Look again: agentctl approvals ${row.id}`,
  });
}
