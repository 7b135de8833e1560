// Records that the state was restored from a backup, and flags the task trees that were open: they
// may have acted after the backup, in ways that no record has.
import { toTimestamp } from '../../../platform/clock.ts';
import type { RestoreRecord } from '../../../platform/restore-record.ts';
import type { Sql } from '../../../platform/sql/database.ts';
import type { AgentdTx } from './tx.ts';

const OPEN_ROOTS =
  'SELECT DISTINCT root_task_id FROM tasks ' +
  "WHERE status IN ('blocked', 'ready', 'working', 'waiting')";

/** Returns how many trees were open; undefined if it was recorded before. */
export async function recordRestore(
  tx: AgentdTx,
  restore: RestoreRecord,
): Promise<number | undefined> {
  const { backup } = restore;
  const isNew = await tx.sql.run(
    'INSERT INTO restores (backup, taken_ms, applied_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
    backup,
    Date.parse(restore.taken_at),
    tx.nowMs,
  );
  if (isNew === 0) return undefined;
  // A tree that an earlier restore flagged counts from this one on.
  const trees = await tx.sql.run(
    `INSERT INTO restored_trees (root_task_id, backup, changed)
     SELECT root_task_id, ?, 0 FROM (${OPEN_ROOTS}) AS open WHERE true
     ON CONFLICT (root_task_id) DO UPDATE SET backup = excluded.backup`,
    backup,
  );
  for (const root of restore.changed_trees)
    await tx.sql.run('UPDATE restored_trees SET changed = 1 WHERE root_task_id = ?', root);
  await tx.event({
    id: `${backup}.restored.${tx.nowMs}`,
    event: 'runtime.restored',
    principal: 'service:agentd',
    data: {
      backup,
      taken_at: restore.taken_at,
      events: restore.events,
      root: restore.root,
      manifest_sha256: restore.manifest_sha256,
      open_trees: trees,
    },
  });
  return trees;
}

/** A retry does again what its task did, so it is as unsure of what happened. */
export async function inheritRestore(
  { sql }: AgentdTx,
  task: { id: string; root_task_id: string; retry_of: string | null },
): Promise<void> {
  if (task.retry_of === null || task.root_task_id !== task.id) return;
  await sql.run(
    `INSERT INTO restored_trees (root_task_id, backup, changed)
     SELECT ?, r.backup, 0 FROM tasks t JOIN restored_trees r ON r.root_task_id = t.root_task_id
     WHERE t.id = ?`,
    task.id,
    task.retry_of,
  );
}

export type RestoredTree = { backup: string; takenAt: string; changed: boolean };

export async function findRestoredTree(
  sql: Sql,
  rootTaskId: string,
): Promise<RestoredTree | undefined> {
  const row = await sql.one<{ backup: string; taken_ms: number; changed: number }>(
    `SELECT t.backup, r.taken_ms, t.changed FROM restored_trees t JOIN restores r USING (backup)
     WHERE t.root_task_id = ?`,
    rootTaskId,
  );
  if (row === undefined) return undefined;
  const { backup, taken_ms, changed } = row;
  return { backup, takenAt: toTimestamp(Number(taken_ms)), changed: changed === 1 };
}
