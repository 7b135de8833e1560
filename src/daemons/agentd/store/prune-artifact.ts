// Prunes artifacts from agentd's tables: the row becomes a tombstone, and the blob, if no other
// artifact refers to it, is noted for removal.

import type { KeptTree } from './kept-trees.ts';
import type { ArtifactRow, TaskRow } from './rows.ts';
import { time } from './rows.ts';
import { findTombstone, insertPrune } from './tombstones.ts';
import type { AgentdTx } from './tx.ts';

export type PruneArtifactInput = {
  id: string;
  cause: string;
  by: string;
  /** The rules that allowed it, for the event. */
  rules: string;
};
export type PruneArtifactResult = { bytes: number; hash: string } | { kept: KeptTree };

export async function pruneArtifact(
  tx: AgentdTx,
  input: PruneArtifactInput,
): Promise<PruneArtifactResult | undefined> {
  const found = await inspectArtifact(tx, input.id);
  if (found === undefined || 'kept' in found) return found;
  const { row, rootTaskId } = found;
  const pruneId = await insertPrune(tx.sql, {
    kind: 'artifacts',
    cause: input.cause,
    root_task_id: rootTaskId,
    pruned_ms: tx.nowMs,
    is_open: 0,
  });
  await tx.sql.run('INSERT INTO tombstones (id, prune_id) VALUES (?, ?)', row.id, pruneId);
  await tx.sql.run('DELETE FROM artifacts WHERE id = ?', row.id);
  await tx.sql.run('DELETE FROM shared_artifacts WHERE artifact_id = ?', row.id);
  if (!(await isObjectUsed(tx, row.object_hash)))
    await tx.sql.run(
      'INSERT INTO unused_objects (hash) VALUES (?) ON CONFLICT DO NOTHING',
      row.object_hash,
    );
  const bytes = Number(row.size_bytes);
  await addToArtifactSize(tx, row.created_by, -1, -bytes);
  await tx.event({
    id: `${row.id}.pruned`,
    event: 'data.pruned',
    principal: input.by,
    artifact: row.id,
    ...(row.task_id === null ? {} : { task_id: row.task_id }),
    ...(rootTaskId === null ? {} : { root_task_id: rootTaskId }),
    status: 'artifacts',
    ...(input.rules === '' ? {} : { policy: input.rules.slice(0, 512) }),
    data: {
      sha256: row.object_hash,
      bytes,
      stored_at: time(row.created_ms),
      cause: input.cause.slice(0, 500),
    },
  });
  return { bytes, hash: row.object_hash };
}

type FoundArtifact = { row: ArtifactRow; rootTaskId: string | null };

/** Resolves to undefined if there is no such artifact. */
export async function inspectArtifact(
  tx: Pick<AgentdTx, 'sql'>,
  id: string,
): Promise<FoundArtifact | { kept: KeptTree } | undefined> {
  const row = await tx.sql.one<ArtifactRow>('SELECT * FROM artifacts WHERE id = ?', id);
  if (row === undefined) return undefined;
  const rootTaskId = row.task_id === null ? null : await findRootOf(tx, row.task_id);
  const kept = (await findLiveUse(tx, row)) ?? (await findHold(tx, row, rootTaskId));
  return kept === undefined ? { row, rootTaskId } : { kept };
}

/** The root of a task, also if it was pruned. */
async function findRootOf(tx: Pick<AgentdTx, 'sql'>, taskId: string): Promise<string | null> {
  const task = await tx.sql.one<TaskRow>('SELECT * FROM tasks WHERE id = ?', taskId);
  return task?.root_task_id ?? (await findTombstone(tx.sql, taskId))?.root_task_id ?? null;
}

/** A live task sees the artifacts of its thread and those among its inputs. */
async function findLiveUse(
  { sql }: Pick<AgentdTx, 'sql'>,
  row: ArtifactRow,
): Promise<KeptTree | undefined> {
  const inThread =
    row.context_id === null
      ? undefined
      : await sql.one<{ id: string }>(
          'SELECT id FROM tasks WHERE context_id = ? AND ended_ms IS NULL LIMIT 1',
          row.context_id,
        );
  const asInput =
    inThread ??
    (await sql.one<{ id: string }>(
      `SELECT id FROM tasks WHERE ended_ms IS NULL AND inputs <> '[]' AND inputs LIKE ? LIMIT 1`,
      `%${row.id}%`,
    ));
  return asInput && { reason: 'used', detail: `${asInput.id} can read it` };
}

/** A held tree keeps its own artifacts, its inputs and its results. */
async function findHold(
  { sql }: Pick<AgentdTx, 'sql'>,
  row: ArtifactRow,
  rootTaskId: string | null,
): Promise<KeptTree | undefined> {
  const own = await sql.one<{ kept_by: string }>(
    'SELECT kept_by FROM kept_trees WHERE root_task_id = ?',
    rootTaskId,
  );
  const named =
    own ??
    (await sql.one<{ kept_by: string }>(
      // SQLite reads the tables of a CROSS JOIN in this order.
      `SELECT k.kept_by FROM kept_trees k CROSS JOIN tasks t
       WHERE t.root_task_id = k.root_task_id AND (t.inputs LIKE ? OR t.result_ref LIKE ?) LIMIT 1`,
      `%${row.id}%`,
      `%${row.id}%`,
    ));
  return named && { reason: 'held', detail: `held by ${named.kept_by}` };
}

export async function isObjectUsed({ sql }: Pick<AgentdTx, 'sql'>, hash: string): Promise<boolean> {
  const found = await sql.one('SELECT id FROM artifacts WHERE object_hash = ? LIMIT 1', hash);
  return found !== undefined;
}

export async function addToArtifactSize(
  tx: AgentdTx,
  createdBy: string,
  count: number,
  bytes: number,
): Promise<void> {
  await tx.sql.run(
    `INSERT INTO artifact_sizes (created_by, n, bytes) VALUES (?, ?, ?)
     ON CONFLICT (created_by) DO UPDATE SET n = artifact_sizes.n + excluded.n,
       bytes = artifact_sizes.bytes + excluded.bytes`,
    createdBy,
    count,
    bytes,
  );
}
