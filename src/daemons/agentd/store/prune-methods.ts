// The store's methods for retention: what is old enough, pruning it, and what is left to do.
import type { Database, Sql } from '../../../platform/sql/database.ts';
import { fault } from '../../../wire/errors.ts';
import { findTree } from './kept-trees.ts';
import { inspectTree, type PruneTreeInput, type PruneTreeResult, pruneTree } from './prune-tree.ts';
import { readLayers, type TaskRow } from './rows.ts';
import { findTask } from './task-rows.ts';
import { findTombstone, type PruneRow } from './tombstones.ts';
import type { AgentdWriteTx } from './tx.ts';

/** A root task that has ended; others of its tree may not have. */
export type EndedTree = { rootTaskId: string; endedMs: number };
/** A pruned tree of which other daemons may still have data. */
export type OpenPrune = { id: number; rootTaskId: string; taskIds: string[]; runIds: string[] };

export type PruneMethods = {
  /** Oldest first, by the end of the root task. */
  listEndedTrees(query: {
    endedBeforeMs: number;
    after?: EndedTree | undefined;
    limit: number;
  }): Promise<EndedTree[]>;
  /** Resolves to undefined if the root task has not ended. Throws if there is none. */
  findEndedTree(rootTaskId: string): Promise<EndedTree | undefined>;
  /** The agents and labels of a tree's tasks, for policy. */
  describeTree(rootTaskId: string): Promise<{ agents: string[]; labels: string[] }>;
  /** Resolves to who holds a tree, if anybody does. */
  findHold(rootTaskId: string): Promise<string | undefined>;
  /** The labels of the tasks that work on a layer that a subtask has for itself, or above it. */
  listLayerLabels(rootTaskId: string, layerTaskId: string): Promise<string[]>;
  pruneTree(input: PruneTreeInput): Promise<PruneTreeResult>;
  /** Resolves to the result that pruneTree would have. */
  inspectTree(input: PruneTreeInput): Promise<PruneTreeResult>;
  findOpenPrune(rootTaskId: string): Promise<OpenPrune | undefined>;
  listOpenPrunes(after: number, limit: number): Promise<OpenPrune[]>;
  closePrune(id: number): Promise<void>;
  findTombstone(id: string): Promise<PruneRow | undefined>;
  countTasksByAgent(): Promise<{ agent: string; count: number }[]>;
  /** Resolves to how many prunes lost their tombstones. */
  expireTombstones(prunedBeforeMs: number, limit: number): Promise<number>;
};

const NOT_A_START = { mayStart: false };

export function makePruneMethods(db: Database, write: AgentdWriteTx): PruneMethods {
  return {
    listEndedTrees: ({ endedBeforeMs, after, limit }) =>
      db.read(async (sql) => {
        const rows = await sql.all<{ id: string; ended_ms: number }>(
          `SELECT id, ended_ms FROM tasks
           WHERE depth = 0 AND ended_ms IS NOT NULL AND ended_ms < ?
             AND (ended_ms, id) > (?, ?)
           ORDER BY ended_ms, id LIMIT ?`,
          endedBeforeMs,
          after?.endedMs ?? -1,
          after?.rootTaskId ?? '',
          limit,
        );
        return rows.map(({ id, ended_ms }) => ({ rootTaskId: id, endedMs: Number(ended_ms) }));
      }),
    findEndedTree: (rootTaskId) =>
      db.read(async (sql) => {
        const { ended_ms: endedMs, parent_task_id } = await findTask({ sql }, rootTaskId);
        if (parent_task_id !== null)
          throw fault('bad_request', `${rootTaskId} is a subtask; name its root task`);
        return endedMs === null ? undefined : { rootTaskId, endedMs: Number(endedMs) };
      }),
    describeTree: (rootTaskId) =>
      db.read(async (sql) => {
        const rows = await sql.all<{ assigned_to: string | null; labels: string }>(
          'SELECT DISTINCT assigned_to, labels FROM tasks WHERE root_task_id = ?',
          rootTaskId,
        );
        const labels = rows.flatMap((row) => JSON.parse(row.labels) as string[]);
        const agents = rows.flatMap(({ assigned_to }) => assigned_to ?? []);
        return { agents: [...new Set(agents)].sort(), labels: [...new Set(labels)].sort() };
      }),
    findHold: (rootTaskId) =>
      db.read(async (sql) => (await findTree({ sql }, rootTaskId))?.kept_by ?? undefined),
    listLayerLabels: (rootTaskId, layerTaskId) =>
      db.read(async (sql) => {
        const rows = await sql.all<Pick<TaskRow, 'labels' | 'layers'>>(
          'SELECT labels, layers FROM tasks WHERE root_task_id = ? AND layers IS NOT NULL',
          rootTaskId,
        );
        const own = rows.filter((row) => readLayers(row).includes(layerTaskId));
        return [...new Set(own.flatMap(({ labels }) => JSON.parse(labels) as string[]))].sort();
      }),
    pruneTree: (input) => write((tx) => pruneTree(tx, input), NOT_A_START),
    inspectTree: (input) => db.read((sql) => inspectTree({ sql }, input)),
    findOpenPrune: (rootTaskId) =>
      db.read(async (sql) => {
        const stone = await findTombstone(sql, rootTaskId);
        return stone === undefined || stone.is_open === 0
          ? undefined
          : readOpenPrune(sql, Number(stone.id), rootTaskId);
      }),
    listOpenPrunes: (after, limit) =>
      db.read(async (sql) => {
        const rows = await sql.all<{ id: number; root_task_id: string }>(
          'SELECT id, root_task_id FROM prunes WHERE is_open = 1 AND id > ? ORDER BY id LIMIT ?',
          after,
          limit,
        );
        const prunes: OpenPrune[] = [];
        for (const row of rows)
          prunes.push(await readOpenPrune(sql, Number(row.id), row.root_task_id));
        return prunes;
      }),
    closePrune: (id) =>
      write(async (tx) => {
        await tx.sql.run('UPDATE prunes SET is_open = 0 WHERE id = ? AND is_open = 1', id);
      }, NOT_A_START),
    findTombstone: (id) => db.read((sql) => findTombstone(sql, id)),
    countTasksByAgent: () =>
      db.read(async (sql) => {
        const rows = await sql.all<{ agent: string; n: number }>(
          'SELECT agent, SUM(n) AS n FROM task_counts GROUP BY agent',
        );
        return rows.map(({ agent, n }) => ({ agent, count: Number(n) }));
      }),
    expireTombstones: (prunedBeforeMs, limit) =>
      write(async (tx) => {
        const old = await tx.sql.all<{ id: number }>(
          `SELECT id FROM prunes WHERE is_open = 0 AND pruned_ms < ? ORDER BY pruned_ms LIMIT ?`,
          prunedBeforeMs,
          limit,
        );
        for (const { id } of old) {
          await tx.sql.run('DELETE FROM tombstones WHERE prune_id = ?', id);
          await tx.sql.run('DELETE FROM prunes WHERE id = ?', id);
        }
        return old.length;
      }, NOT_A_START),
  };
}

async function readOpenPrune(sql: Sql, id: number, rootTaskId: string): Promise<OpenPrune> {
  const stones = await sql.all<{ id: string }>(
    'SELECT id FROM tombstones WHERE prune_id = ? ORDER BY id',
    id,
  );
  const listKind = (kind: string) =>
    stones.map((stone) => stone.id).filter((name) => name.startsWith(`${kind}_`));
  return { id, rootTaskId, taskIds: listKind('task'), runIds: listKind('run') };
}
