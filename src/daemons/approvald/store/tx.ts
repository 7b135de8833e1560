// A transaction of approvald's store: statements, its time, its events and notices; and the steps
// that several transactions share.
import type { Clock } from '../../../platform/clock.ts';
import type { NewId, Random } from '../../../platform/ids.ts';
import type { Outbox } from '../../../platform/outbox.ts';
import type { Database, Sql } from '../../../platform/sql/database.ts';
import { isPrivate } from '../../../policy/private-scopes.ts';
import type { EventDraft } from '../../../wire/events.ts';
import * as events from '../events.ts';
import type { Notice, NoticeKind } from '../notices.ts';
import { makeNotice } from '../notices.ts';
import {
  type ApprovalRow,
  type CountedRow,
  type PermitRow,
  type RequestRow,
  toApprovalSummary,
} from './rows.ts';
import { missingFault } from './tombstones.ts';

export type ApprovaldTx = {
  sql: Sql;
  nowMs: number;
  newId: NewId;
  newNonce(): string;
  /** Short enough to be typed, and too long to be guessed. */
  newReplyCode(): string;
  /** Resolves to the event's sequence number. */
  addEvent(draft: EventDraft): Promise<number>;
  /** `only`: this channel, if it is there. */
  notify(row: ApprovalRow, kind: NoticeKind, only?: string): Promise<void>;
};
export type ApprovaldWriteTx = <T>(work: (tx: ApprovaldTx) => Promise<T>) => Promise<T>;

export type ApprovaldTxOptions = {
  db: Database;
  outbox: Pick<Outbox, 'add' | 'wake'>;
  clock: Clock;
  newId: NewId;
  random: Random;
  /** The channels to send notices to. */
  targets: readonly string[];
  onCommitted(): void;
};

export function makeWriteTx(options: ApprovaldTxOptions): ApprovaldWriteTx {
  const { db, outbox, clock, newId, random, targets } = options;
  return async (work) => {
    const value = await db.write((sql) => {
      const tx: ApprovaldTx = {
        sql,
        nowMs: clock.nowMs(),
        newId,
        newNonce: () => Buffer.from(random(18)).toString('base64url'),
        newReplyCode: () => formatReplyCode(random(10)),
        addEvent: (draft) => outbox.add(sql, draft),
        async notify(row, kind, only) {
          // Channels are shared; what one person keeps for themselves is in their list only.
          if (row.memory_scope !== null && isPrivate(row.memory_scope)) return;
          const to = targets.filter((target) => only === undefined || target === only);
          if (to.length === 0) return;
          const counted = await findCountedRow(sql, row.id);
          const notice = makeNotice(kind, toApprovalSummary(counted!), tx.nowMs);
          for (const target of to) await insertNotice(tx, target, notice);
        },
      };
      return work(tx);
    });
    outbox.wake();
    options.onCommitted();
    return value;
  };
}

/** 32 characters that are not mistaken for others. */
const CODE_CHARS = 'abcdefghijkmnpqrstuvwxyz23456789';

function formatReplyCode(random: Uint8Array): string {
  const text = [...random].map((byte) => CODE_CHARS[byte % CODE_CHARS.length]).join('');
  return `${text.slice(0, 5)}-${text.slice(5)}`;
}

const insertNotice = (tx: ApprovaldTx, target: string, notice: Notice): Promise<number> =>
  tx.sql.run(
    'INSERT INTO notices (id, target, body, attempts, next_ms) VALUES (?, ?, ?, 0, ?)',
    tx.newId('notice'),
    target,
    JSON.stringify(notice),
    tx.nowMs,
  );

export async function insertRow(sql: Sql, table: string, row: object): Promise<void> {
  const names = Object.keys(row);
  await sql.run(
    `INSERT INTO ${table} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`,
    ...(Object.values(row) as (string | number | null)[]),
  );
}

const COUNTED_SQL =
  'SELECT a.*, (SELECT COUNT(*) FROM asks k WHERE k.approval_id = a.id) AS calls, ' +
  'p.granted_by AS permit_granted_by FROM approvals a LEFT JOIN permits p ON p.id = a.permit_id';

export const findCountedRow = (sql: Sql, id: string): Promise<CountedRow | undefined> =>
  sql.one<CountedRow>(`${COUNTED_SQL} WHERE a.id = ?`, id);
export const listCountedRows = (
  sql: Sql,
  where: string,
  ...values: (string | number)[]
): Promise<CountedRow[]> => sql.all<CountedRow>(`${COUNTED_SQL} ${where}`, ...values);

export async function findApproval(sql: Sql, id: string): Promise<ApprovalRow> {
  const row = await sql.one<ApprovalRow>('SELECT * FROM approvals WHERE id = ?', id);
  if (row === undefined)
    throw await missingFault(sql, { name: 'approval', id, hint: 'See agentctl approvals.' });
  return row;
}

export const listRequests = (sql: Sql, id: string): Promise<RequestRow[]> =>
  sql.all<RequestRow>('SELECT * FROM asks WHERE approval_id = ? ORDER BY asked_ms, call_id', id);

export const findPermit = (sql: Sql, id: string | null): Promise<PermitRow | undefined> =>
  id === null
    ? Promise.resolve(undefined)
    : sql.one<PermitRow>('SELECT * FROM permits WHERE id = ?', id);

export async function endApproval(
  tx: ApprovaldTx,
  row: ApprovalRow,
  ending: { status: ApprovalRow['status']; by: string },
): Promise<void> {
  const changed = await tx.sql.run(
    "UPDATE approvals SET status = ?, decided_ms = ?, decided_by = ? WHERE id = ? AND status = 'pending'",
    ending.status,
    tx.nowMs,
    ending.by,
    row.id,
  );
  if (changed !== 1) throw new Error(`${row.id} is no longer pending`);
  Object.assign(row, { status: ending.status, decided_ms: tx.nowMs, decided_by: ending.by });
}

/** Expires the approval if it is due; resolves to true if it expired just now. */
export async function expireIfDue(tx: ApprovaldTx, row: ApprovalRow): Promise<boolean> {
  if (row.status !== 'pending' || Number(row.expires_ms) > tx.nowMs) return false;
  await endApproval(tx, row, { status: 'expired', by: 'service:approvald' });
  await tx.addEvent(events.expired(row));
  await tx.notify(row, 'expired');
  return true;
}
