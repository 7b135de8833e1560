// approvald's store: each method is one transaction. The larger ones are implemented in the files
// beside this one.
import type { SigningKey } from '../../../platform/signed-json.ts';
import type { Value } from '../../../platform/sql/database.ts';
import type { AskProposal } from '../../../wire/approvald/proposals.ts';
import type { AskApproval } from '../../../wire/approvald.ts';
import type { PruneAnswer } from '../../../wire/prune.ts';
import type { ApprovaldConfig } from '../config.ts';
import * as events from '../events.ts';
import { type DecisionInput, type DecisionResult, recordDecision } from './decisions.ts';
import { pruneProposals, requestProposal, withdrawProposals } from './proposals.ts';
import { pruneApprovals } from './prune.ts';
import { type RedeemResult, type RedemptionInput, redeem } from './redeem.ts';
import type { ReplyCodeRow } from './reply-code-row.ts';
import {
  type CodeReply,
  issueReplyCode,
  type NewReplyCode,
  type TakenReplyCode,
  takeReplyCode,
} from './reply-codes.ts';
import { type ApprovalRequestResult, requestApproval } from './requests.ts';
import type { ApprovalRow, CountedRow, PermitRow, RequestRow } from './rows.ts';
import { expireTombstones, missingFault } from './tombstones.ts';
import {
  type ApprovaldTxOptions,
  endApproval,
  expireIfDue,
  findApproval,
  findCountedRow,
  findPermit,
  listCountedRows,
  listRequests,
  makeWriteTx,
} from './tx.ts';

export type ApprovaldStore = ReturnType<typeof makeStore>;
export type ApprovalFilter = {
  status?: string | undefined;
  task_id?: string | undefined;
  root_task_id?: string | undefined;
  agent?: string | undefined;
};
/** A call whose wait agentd has still to end. */
export type PendingNotification = Pick<RequestRow, 'call_id' | 'run_id' | 'approval_id'> &
  Pick<ApprovalRow, 'status' | 'decided_by' | 'expires_ms' | 'memory_id' | 'arguments'>;
export type DueNotice = { id: string; target: string; body: string; attempts: number };

const FILTERS = ['status', 'task_id', 'root_task_id', 'agent'] as const;

export function makeStore(
  options: ApprovaldTxOptions & {
    config: ApprovaldConfig;
    signing: SigningKey;
    /** The channel whose notices people reply to. */
    replyTarget: string;
  },
) {
  const { db, config, signing } = options;
  const write = makeWriteTx(options);
  const redeemWithinMs = config.redeem_within_s * 1000;

  return {
    requestApproval: (body: AskApproval): Promise<ApprovalRequestResult> =>
      write((tx) => requestApproval(tx, body, config)),
    decide: (input: DecisionInput): Promise<DecisionResult> =>
      write((tx) => recordDecision(tx, input)),
    recordDenial: (
      row: ApprovalRow,
      denied: { by: string; answer: DecisionInput['answer']; rule: string },
    ): Promise<number> =>
      write((tx) =>
        tx.addEvent(events.decisionDenied(row, { id: tx.newId<string>('denied'), ...denied })),
      ),
    redeem: (input: RedemptionInput): Promise<RedeemResult> =>
      write((tx) => redeem(tx, input, { signing, redeemWithinMs })),

    /** Withdraws calls; an approval that no call waits for any longer is canceled. */
    withdraw: (which: { run_id: string; call_id?: string | undefined }): Promise<number> =>
      write(async (tx) => {
        const open = await tx.sql.all<RequestRow>(
          'SELECT * FROM asks WHERE run_id = ? AND withdrawn_ms IS NULL AND redeemed_ms IS NULL',
          which.run_id,
        );
        const mine = open.filter(({ call_id }) => (which.call_id ?? call_id) === call_id);
        for (const { call_id, approval_id } of mine) {
          await tx.sql.run(
            'UPDATE asks SET withdrawn_ms = ?, told = 1 WHERE call_id = ?',
            tx.nowMs,
            call_id,
          );
          const row = await findApproval(tx.sql, approval_id);
          const requests = await listRequests(tx.sql, approval_id);
          const isWaiting = requests.some(({ withdrawn_ms }) => withdrawn_ms === null);
          if (row.status !== 'pending' || isWaiting) continue;
          await endApproval(tx, row, { status: 'canceled', by: 'service:agentd' });
          await tx.addEvent(events.expired(row));
        }
        return mine.length;
      }),

    pruneTree: (rootTaskId: string): Promise<PruneAnswer> =>
      write((tx) => pruneApprovals(tx, rootTaskId)),
    expireTombstones: (beforeMs: number): Promise<number> =>
      write(
        async (tx) =>
          (await pruneProposals(tx, beforeMs)) + (await expireTombstones(tx.sql, beforeMs)),
      ),

    issueReplyCode: (wanted: NewReplyCode): Promise<ReplyCodeRow> =>
      write((tx) => issueReplyCode(tx, wanted)),
    takeReplyCode: (reply: CodeReply): Promise<TakenReplyCode> =>
      write((tx) => takeReplyCode(tx, reply, options.replyTarget)),

    requestProposal: (body: AskProposal): ReturnType<typeof requestProposal> =>
      write((tx) => requestProposal(tx, body, config)),
    withdrawProposals: (memoryIds: readonly string[]): Promise<number> =>
      write((tx) => withdrawProposals(tx, memoryIds)),
    findMemoryScope: (id: string): Promise<string | undefined> =>
      db.read(async (sql) => {
        const row = await sql.one<{ memory_scope: string | null }>(
          'SELECT memory_scope FROM approvals WHERE id = ?',
          id,
        );
        return row?.memory_scope ?? undefined;
      }),
    /** The memories that wait. */
    listPendingProposals: (limit: number): Promise<string[]> =>
      db.read(async (sql) => {
        const rows = await sql.all<{ memory_id: string }>(
          "SELECT memory_id FROM approvals WHERE status = 'pending' AND memory_id IS NOT NULL LIMIT ?",
          limit,
        );
        return rows.map(({ memory_id }) => memory_id);
      }),

    /** Expires approvals that are due; resolves to the next expiry. */
    expireDue: (): Promise<number | undefined> =>
      write(async (tx) => {
        const due = await tx.sql.all<ApprovalRow>(
          "SELECT * FROM approvals WHERE status = 'pending' AND expires_ms <= ? LIMIT 500",
          tx.nowMs,
        );
        for (const row of due) await expireIfDue(tx, row);
        const next = await tx.sql.one<{ at: number | null }>(
          "SELECT MIN(expires_ms) AS at FROM approvals WHERE status = 'pending'",
        );
        return next?.at == null ? undefined : Number(next.at);
      }),

    revokePermit: (id: string, by: string): Promise<PermitRow> =>
      write(async (tx) => {
        const row = await findPermit(tx.sql, id);
        if (row === undefined)
          throw await missingFault(tx.sql, {
            name: 'permit',
            id,
            hint: 'See agentctl permit list.',
          });
        if (row.revoked_ms !== null) return row;
        await tx.sql.run(
          'UPDATE permits SET revoked_ms = ?, revoked_by = ? WHERE id = ?',
          tx.nowMs,
          by,
          id,
        );
        await tx.addEvent(events.permitRevoked(row, by));
        return { ...row, revoked_ms: tx.nowMs, revoked_by: by };
      }),

    getApproval: (id: string): Promise<{ row: CountedRow; asks: RequestRow[] }> =>
      db.read(async (sql) => {
        await findApproval(sql, id);
        return { row: (await findCountedRow(sql, id))!, asks: await listRequests(sql, id) };
      }),

    /** Newest first. */
    listApprovals: (
      filter: ApprovalFilter,
      page: { before: string | undefined; limit: number },
    ): Promise<CountedRow[]> => {
      const where = ['1 = 1'];
      const values: (string | number)[] = [];
      const isOfTask = filter.task_id !== undefined || filter.root_task_id !== undefined;
      for (const name of FILTERS) {
        const value = filter[name];
        if (value === undefined) continue;
        const isTask = name === 'task_id' || name === 'root_task_id';
        // Hides the other columns from SQLite's planner, which might read all rows of an agent.
        where.push(isOfTask && !isTask ? `a.${name} || '' = ?` : `a.${name} = ?`);
        values.push(value);
      }
      if (page.before !== undefined) {
        where.push('a.id < ?');
        values.push(page.before);
      }
      const text = `WHERE ${where.join(' AND ')} ORDER BY a.id DESC LIMIT ?`;
      return db.read((sql) => listCountedRows(sql, text, ...values, page.limit));
    },

    /** By the scope of the memory; null: of calls. */
    countPending: (): Promise<{ memory_scope: string | null; n: number }[]> =>
      db.read((sql) =>
        sql.all(
          "SELECT memory_scope, COUNT(*) AS n FROM approvals WHERE status = 'pending' GROUP BY memory_scope",
        ),
      ),

    /** Newest first. */
    listPermits: (page: {
      before: string | undefined;
      limit: number;
      active: boolean | undefined;
      nowMs: number;
    }): Promise<PermitRow[]> => {
      const where = ['1 = 1'];
      const values: Value[] = [];
      if (page.active !== undefined) {
        const active = '(revoked_ms IS NULL AND expires_ms > ?)';
        where.push(page.active ? active : `NOT ${active}`);
        values.push(page.nowMs);
      }
      if (page.before !== undefined) {
        where.push('id < ?');
        values.push(page.before);
      }
      const text = `SELECT * FROM permits WHERE ${where.join(' AND ')} ORDER BY id DESC LIMIT ?`;
      return db.read((sql) => sql.all<PermitRow>(text, ...values, page.limit));
    },

    listUnsent: (): Promise<PendingNotification[]> =>
      db.read((sql) =>
        sql.all<PendingNotification>(
          'SELECT k.call_id, k.run_id, k.approval_id, a.status, a.decided_by, a.expires_ms, a.memory_id, a.arguments ' +
            'FROM asks k JOIN approvals a ON a.id = k.approval_id ' +
            "WHERE k.told = 0 AND a.status <> 'pending' LIMIT 500",
        ),
      ),
    markNotified: (callId: string): Promise<number> =>
      db.write((sql) => sql.run('UPDATE asks SET told = 1 WHERE call_id = ?', callId)),
    /** Runs with a pending approval. */
    listWaitingRuns: (): Promise<string[]> =>
      db.read(async (sql) => {
        const rows = await sql.all<{ run_id: string }>(
          'SELECT DISTINCT k.run_id FROM asks k JOIN approvals a ON a.id = k.approval_id ' +
            "WHERE a.status = 'pending' AND k.withdrawn_ms IS NULL AND a.memory_id IS NULL",
        );
        return rows.map(({ run_id }) => run_id);
      }),

    listDueNotices: (nowMs: number): Promise<DueNotice[]> =>
      db.read((sql) =>
        sql.all<DueNotice>(
          'SELECT id, target, body, attempts FROM notices WHERE next_ms <= ? ORDER BY id LIMIT 50',
          nowMs,
        ),
      ),
    findNextNoticeMs: (): Promise<number | undefined> =>
      db.read(async (sql) => {
        const next = await sql.one<{ at: number | null }>('SELECT MIN(next_ms) AS at FROM notices');
        return next?.at == null ? undefined : Number(next.at);
      }),
    deleteNotice: (id: string): Promise<number> =>
      db.write((sql) => sql.run('DELETE FROM notices WHERE id = ?', id)),
    postponeNotice: (id: string, nextMs: number): Promise<number> =>
      db.write((sql) =>
        sql.run('UPDATE notices SET attempts = attempts + 1, next_ms = ? WHERE id = ?', nextMs, id),
      ),
  };
}
