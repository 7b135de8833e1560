// Prunes a part of a task tree before the tree itself: its workspace, its homes or its model
// contexts. Recorded here first; the daemon that has the part then removes it. Until it has, it
// lists the part, and the next pass asks again.
import type { Database } from '../../../platform/sql/database.ts';
import { findKeptReason, type KeptTree } from './kept-trees.ts';
import type { PruneTreeInput } from './prune-tree.ts';
import { findTombstone } from './tombstones.ts';
import type { AgentdTx, AgentdWriteTx } from './tx.ts';

export type PartKind = 'workspaces' | 'homes' | 'model_contexts';
export type PrunePartInput = PruneTreeInput & { kind: PartKind };
export type PartIds = { rootTaskId: string; taskIds: string[]; runIds: string[] };
export type PrunePartResult = { tree: PartIds } | { kept: KeptTree };
/** `isPruned`: only its tombstone is left, and `endedMs` is when it was pruned. */
export type PartTree = { rootTaskId: string; endedMs: number; isPruned: boolean };

export type PrunePartMethods = {
  /** Resolves to undefined if the root task has not ended, or never was. */
  findPartTree(rootTaskId: string): Promise<PartTree | undefined>;
  findTreeOfRun(runId: string): Promise<PartTree | undefined>;
  /** Has an event once; a repeat resolves to the same. */
  prunePart(input: PrunePartInput): Promise<PrunePartResult>;
  /** Resolves to the result that prunePart would have. */
  inspectPart(input: PrunePartInput): Promise<PrunePartResult>;
};

export function makePrunePartMethods(db: Database, write: AgentdWriteTx): PrunePartMethods {
  const findTree = (rootTaskId: string): Promise<PartTree | undefined> =>
    db.read(async (sql) => {
      const row = await sql.one<{ ended_ms: number | null }>(
        'SELECT ended_ms FROM tasks WHERE id = ? AND depth = 0',
        rootTaskId,
      );
      if (row?.ended_ms != null)
        return { rootTaskId, endedMs: Number(row.ended_ms), isPruned: false };
      const stone = row === undefined ? await findTombstone(sql, rootTaskId) : undefined;
      return stone && { rootTaskId, endedMs: Number(stone.pruned_ms), isPruned: true };
    });
  return {
    findPartTree: findTree,
    async findTreeOfRun(runId) {
      const root = await db.read((sql) =>
        sql.one<{ id: string }>(
          `SELECT t.root_task_id AS id FROM runs r JOIN tasks t ON t.id = r.task_id WHERE r.id = ?`,
          runId,
        ),
      );
      return root && findTree(root.id);
    },
    prunePart: (input) => write((tx) => prunePart(tx, input), { mayStart: false }),
    inspectPart: (input) => db.read((sql) => inspectPart({ sql }, input)),
  };
}

async function inspectPart(
  tx: Pick<AgentdTx, 'sql'>,
  { rootTaskId, endedBeforeMs }: PrunePartInput,
): Promise<PrunePartResult> {
  const kept = await findKeptReason(tx, rootTaskId, endedBeforeMs);
  if (kept !== undefined) return { kept };
  const list = async (text: string): Promise<string[]> =>
    (await tx.sql.all<{ id: string }>(text, rootTaskId)).map(({ id }) => id);
  return {
    tree: {
      rootTaskId,
      taskIds: await list('SELECT id FROM tasks WHERE root_task_id = ?'),
      runIds: await list(
        'SELECT id FROM runs WHERE task_id IN (SELECT id FROM tasks WHERE root_task_id = ?)',
      ),
    },
  };
}

async function prunePart(tx: AgentdTx, input: PrunePartInput): Promise<PrunePartResult> {
  const { rootTaskId: root, kind } = input;
  const result = await inspectPart(tx, input);
  if ('kept' in result) return result;
  const column = `${kind}_ms`;
  const isNew = await tx.sql.run(
    `INSERT INTO pruned_parts (root_task_id, ${column}) VALUES (?, ?)
     ON CONFLICT (root_task_id) DO UPDATE SET ${column} = excluded.${column}
     WHERE pruned_parts.${column} IS NULL`,
    root,
    tx.nowMs,
  );
  if (isNew > 0)
    await tx.event({
      id: `${root}.pruned.${kind}`,
      event: 'data.pruned',
      principal: input.by,
      task_id: root,
      root_task_id: root,
      status: kind,
      ...(input.rules === '' ? {} : { policy: input.rules.slice(0, 512) }),
      data: { cause: input.cause.slice(0, 500) },
    });
  return result;
}
