// The layers that subtasks have for themselves, as rows: each is above what the layer of the parent
// was at that moment.
import type { Database, Sql } from '../../platform/sql/database.ts';
import { dropOriginals } from './layer-original-rows.ts';
import {
  findLayer,
  type LayerRow,
  type OwnLayer,
  type StoredLayer,
  toLayer,
} from './layer-rows.ts';

export type LayerForkMethods = ReturnType<typeof makeLayerForkMethods>;
export type NewFork = Pick<LayerRow, 'rootTaskId' | 'path' | 'directoryId' | 'beganNs'> & {
  own: OwnLayer;
};

export function makeLayerForkMethods(db: Database, nowMs: () => number) {
  return {
    /** Keeps what was written so far below; the next directory takes what follows. */
    sealLayer: ({ rootTaskId, number, sealed }: LayerRow): Promise<void> =>
      db.write(async (sql) => {
        await sql.run(
          'UPDATE layers SET number = ?, sealed = ? WHERE root_task_id = ? AND number = ?',
          number + 1,
          JSON.stringify([...sealed, number]),
          rootTaskId,
          number,
        );
      }),

    /** Resolves to the one that was recorded first. */
    addFork: (fork: NewFork): Promise<LayerRow> =>
      db.write(async (sql) => {
        const { rootTaskId, path, directoryId, beganNs, own } = fork;
        const found = await findLayer(sql, rootTaskId);
        if (found !== undefined) return found;
        await sql.run(
          `INSERT INTO layers (root_task_id, path, directory_id, number, sealed, began_ns,
             created_ms, tree_id, parent_id, base) VALUES (?, ?, ?, 1, '[]', ?, ?, ?, ?, ?)`,
          rootTaskId,
          path,
          directoryId,
          String(beganNs),
          nowMs(),
          own.treeId,
          own.parentId,
          JSON.stringify(own.base),
        );
        return { ...fork, number: 1, sealed: [], copies: null };
      }),

    listForks: (treeId: string): Promise<LayerRow[]> =>
      db.read((sql) => listOwnLayers(sql, treeId)),
  };
}

/** With its tree: those of its subtasks, too. */
export async function dropLayer(sql: Sql, rootTaskId: string): Promise<void> {
  const own = await listOwnLayers(sql, rootTaskId);
  for (const id of [rootTaskId, ...own.map((row) => row.rootTaskId)])
    for (const table of ['layers', 'layer_bases', 'layer_applies', 'layer_kept'])
      await sql.run(`DELETE FROM ${table} WHERE root_task_id = ?`, id);
  await dropOriginals(sql, rootTaskId);
}

/** The layers that subtasks of the tree have. */
async function listOwnLayers(sql: Pick<Sql, 'all'>, treeId: string): Promise<LayerRow[]> {
  const rows = await sql.all<StoredLayer>('SELECT * FROM layers WHERE tree_id = ?', treeId);
  return rows.map(toLayer);
}
