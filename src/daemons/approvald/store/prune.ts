// Prunes the approvals of task trees that agentd pruned, and the permits that only they referred
// to. Their ids stay as tombstones.
import type { PruneAnswer } from '../../../wire/prune.ts';
import type { ApprovalRow } from './rows.ts';
import type { ApprovaldTx } from './tx.ts';

/** An approval stays while it is pending, and while a permit that it granted is in force. */
export async function pruneApprovals(tx: ApprovaldTx, rootTaskId: string): Promise<PruneAnswer> {
  const rows = await tx.sql.all<ApprovalRow>(
    'SELECT * FROM approvals WHERE root_task_id = ?',
    rootTaskId,
  );
  const answer = { rows: 0, bytes: 0, left: 0 };
  const permits = new Set<string>();
  for (const row of rows) {
    const granted = await tx.sql.all<{ id: string; active: number }>(
      `SELECT id, CASE WHEN revoked_ms IS NULL AND expires_ms > ? THEN 1 ELSE 0 END AS active
       FROM permits WHERE approval_id = ?`,
      tx.nowMs,
      row.id,
    );
    if (row.status === 'pending' || granted.some(({ active }) => Number(active) === 1)) {
      answer.left++;
      continue;
    }
    for (const { id } of granted) permits.add(id);
    if (row.permit_id !== null) permits.add(row.permit_id);
    answer.rows += 1 + (await tx.sql.run('DELETE FROM asks WHERE approval_id = ?', row.id));
    answer.bytes += row.arguments.length + (row.diff?.length ?? 0) + row.thread.length;
    await tx.sql.run('DELETE FROM reply_codes WHERE approval_id = ?', row.id);
    await tx.sql.run('DELETE FROM approvals WHERE id = ?', row.id);
    await bury(tx, row.id, rootTaskId);
  }
  for (const id of permits) answer.rows += await prunePermit(tx, id, rootTaskId);
  return answer;
}

/** A permit stays while it is in force, and while an approval refers to it. */
async function prunePermit(tx: ApprovaldTx, id: string, rootTaskId: string): Promise<number> {
  const deleted = await tx.sql.run(
    `DELETE FROM permits WHERE id = ? AND (revoked_ms IS NOT NULL OR expires_ms <= ?)
       AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.permit_id = permits.id)
       AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.id = permits.approval_id)`,
    id,
    tx.nowMs,
  );
  if (deleted > 0) await bury(tx, id, rootTaskId);
  return deleted;
}

const bury = (tx: ApprovaldTx, id: string, rootTaskId: string): Promise<number> =>
  tx.sql.run(
    'INSERT INTO tombstones (id, root_task_id, pruned_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
    id,
    rootTaskId,
    tx.nowMs,
  );
