// Codes by which people decide in a reply to a mail. A code is valid for one person and for what
// that mail showed of one approval, for a short time, and for one mail.
import type { ApprovalId } from '../../../wire/primitives.ts';
import type { ReplyCodeRow } from './reply-code-row.ts';
import { type ApprovaldTx, findApproval, insertRow } from './tx.ts';

/** Used and expired codes are known for this long, so that people hear what is wrong with one. */
const KEPT_MS = 7 * 86_400_000;

export type NewReplyCode = {
  approvalId: ApprovalId;
  person: string;
  /** The nonce of the view that the mail shows. */
  nonce: string;
  expiresMs: number;
};

/** The same while it is valid: a mail that is sent again has the code that it had. */
export async function issueReplyCode(tx: ApprovaldTx, wanted: NewReplyCode): Promise<ReplyCodeRow> {
  const { approvalId, person, nonce, expiresMs } = wanted;
  await sweep(tx);
  const known = await tx.sql.one<ReplyCodeRow>(
    `SELECT * FROM reply_codes
     WHERE approval_id = ? AND person = ? AND nonce = ? AND used_by IS NULL AND expires_ms > ?`,
    approvalId,
    person,
    nonce,
    tx.nowMs,
  );
  if (known !== undefined) return known;
  const row: ReplyCodeRow = {
    code: tx.newReplyCode(),
    approval_id: approvalId,
    person,
    nonce,
    expires_ms: expiresMs,
    used_by: null,
  };
  await insertRow(tx.sql, 'reply_codes', row);
  return row;
}

/** Each new code removes a few old ones, so that none has to remove them all. */
async function sweep(tx: ApprovaldTx): Promise<void> {
  const old = await tx.sql.all<{ code: string }>(
    'SELECT code FROM reply_codes WHERE expires_ms < ? ORDER BY expires_ms LIMIT 20',
    tx.nowMs - KEPT_MS,
  );
  for (const { code } of old) await tx.sql.run('DELETE FROM reply_codes WHERE code = ?', code);
}

export type CodeReply = {
  code: string;
  person: string;
  /** The approval that the answered mail was about. */
  answers: ApprovalId | null;
  mailId: string;
};

export type TakenReplyCode =
  | { ok: true; row: ReplyCodeRow }
  | { ok: false; approvalId: ApprovalId | null; why: string };

/**
 * Uses the code up for this mail; handed over again, the mail may use it again. Of a code that came
 * too late the person gets the request once more, with a new code: `remindBy` is that channel.
 */
export async function takeReplyCode(
  tx: ApprovaldTx,
  { code, person, answers, mailId }: CodeReply,
  remindBy: string,
): Promise<TakenReplyCode> {
  const row = await tx.sql.one<ReplyCodeRow>('SELECT * FROM reply_codes WHERE code = ?', code);
  // Nobody learns whether it is the code of another.
  if (row === undefined || row.person !== person)
    return { ok: false, approvalId: null, why: 'there is no such code for you' };
  const { approval_id: approvalId } = row;
  const refuse = (why: string) => ({ ok: false, approvalId, why }) as const;
  if (answers !== null && answers !== approvalId)
    return refuse('the code belongs to another request than the one that you replied to');
  if (row.used_by === mailId) return { ok: true, row };
  if (row.used_by !== null) return refuse('the code was already used; each is valid once');
  await tx.sql.run('UPDATE reply_codes SET used_by = ? WHERE code = ?', mailId, code);
  const approval = await findApproval(tx.sql, approvalId);
  if (approval.status !== 'pending') return { ok: true, row };
  const isExpired = Number(row.expires_ms) <= tx.nowMs;
  // A memory's nonce names its version, too, which memoryd checks.
  const isChanged = row.nonce.split('.')[0] !== approval.nonce;
  if (!isExpired && !isChanged) return { ok: true, row };
  await tx.notify(approval, 'requested', remindBy);
  return refuse(
    `${isChanged ? 'the request has changed since that mail' : 'the code has expired'}; ` +
      'another mail shows it as it is now, with a new code',
  );
}
