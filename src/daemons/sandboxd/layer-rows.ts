// The layers of task trees, as rows: the directory of each, the numbers of its own directories, the
// state that applied paths were left in, and the journal of applies.
import type { Database, Sql } from '../../platform/sql/database.ts';
import { fault } from '../../wire/errors.ts';
import type { LayerChange } from './adapters/boxfs-changes.ts';

export const LAYER_TABLES = `
CREATE TABLE layers (
  root_task_id TEXT PRIMARY KEY,
  path TEXT NOT NULL,
  directory_id TEXT,
  number BIGINT NOT NULL,
  sealed TEXT NOT NULL,
  began_ns TEXT NOT NULL,
  created_ms BIGINT NOT NULL
);
CREATE TABLE layer_bases (
  root_task_id TEXT NOT NULL,
  path TEXT NOT NULL,
  side TEXT NOT NULL,
  PRIMARY KEY (root_task_id, path)
);
CREATE TABLE layer_applies (
  root_task_id TEXT NOT NULL,
  apply_id TEXT NOT NULL,
  state TEXT NOT NULL,
  change_sha256 TEXT NOT NULL,
  changes TEXT NOT NULL,
  is_whole INTEGER NOT NULL,
  begun_ms BIGINT NOT NULL,
  done_ms BIGINT,
  PRIMARY KEY (root_task_id, apply_id)
);
CREATE INDEX layer_applies_open ON layer_applies (state)
  WHERE state IN ('applying', 'undoing');`;

/** The content of a path: the parts of a side of a change that an apply writes and compares. */
export type BaseSide = {
  type: 'file' | 'directory' | 'link' | 'other';
  mode: number;
  sha256: string | null;
  linkTarget: string | null;
} | null;

export type LayerRow = {
  rootTaskId: string;
  /** The person's directory. */
  path: string;
  /** Its device and inode; null if this user could not read them. */
  directoryId: string | null;
  /** The directory `layers/<number>` takes new changes. */
  number: number;
  /** Earlier ones that are still shown, oldest first. */
  sealed: number[];
  /** When the oldest of these directories was made: what a person changed later may conflict. */
  beganNs: bigint;
};

/**
 * `applying` and `undoing`: files are being written; finished at the next start after a crash.
 * `failed`: reverted, because a file of the person was in the way.
 */
export type ApplyState = 'applying' | 'done' | 'undoing' | 'undone' | 'failed';
export type ApplyRow = {
  rootTaskId: string;
  applyId: string;
  state: ApplyState;
  changeSha256: string;
  changes: LayerChange[];
  /** True if nothing was left in the layer. */
  isWhole: boolean;
  begunMs: number;
};
export type LayerMethods = ReturnType<typeof makeLayerMethods>;

type StoredLayer = {
  root_task_id: string;
  path: string;
  directory_id: string | null;
  number: number;
  sealed: string;
  began_ns: string;
};
type StoredApply = {
  root_task_id: string;
  apply_id: string;
  state: ApplyState;
  change_sha256: string;
  changes: string;
  is_whole: number;
  begun_ms: number;
};

const toLayer = (row: StoredLayer): LayerRow => ({
  rootTaskId: row.root_task_id,
  path: row.path,
  directoryId: row.directory_id,
  number: Number(row.number),
  sealed: JSON.parse(row.sealed) as number[],
  beganNs: BigInt(row.began_ns),
});
const toApply = (row: StoredApply): ApplyRow => ({
  rootTaskId: row.root_task_id,
  applyId: row.apply_id,
  state: row.state,
  changeSha256: row.change_sha256,
  changes: decodeChanges(row.changes),
  isWhole: Number(row.is_whole) === 1,
  begunMs: Number(row.begun_ms),
});

/** Times are left out: an apply compares contents. */
const encodeChanges = (changes: readonly LayerChange[]): string =>
  JSON.stringify(changes, (key, value: unknown) => (key === 'changedNs' ? undefined : value));

function decodeChanges(text: string): LayerChange[] {
  const changes = JSON.parse(text) as LayerChange[];
  return changes.map((change) => ({
    ...change,
    before: change.before && { ...change.before, changedNs: 0n },
    after: change.after && { ...change.after, changedNs: 0n },
  }));
}

export function makeLayerMethods(db: Database, nowMs: () => number) {
  return {
    findLayer: (rootTaskId: string): Promise<LayerRow | undefined> =>
      db.read((sql) => findLayer(sql, rootTaskId)),

    /** The first call for a task tree fixes its directory; throws `conflict` for another one. */
    addLayer: (
      layer: Pick<LayerRow, 'rootTaskId' | 'path' | 'directoryId' | 'beganNs'>,
    ): Promise<LayerRow> =>
      db.write(async (sql) => {
        const { rootTaskId, path, directoryId, beganNs } = layer;
        const found = await findLayer(sql, rootTaskId);
        if (found !== undefined && found.path !== path)
          throw fault('conflict', `the workspace of ${rootTaskId} is ${found.path}`);
        if (found !== undefined) return found;
        await sql.run(
          `INSERT INTO layers (root_task_id, path, directory_id, number, sealed, began_ns,
             created_ms) VALUES (?, ?, ?, 1, '[]', ?, ?)`,
          rootTaskId,
          path,
          directoryId,
          String(beganNs),
          nowMs(),
        );
        return { ...layer, number: 1, sealed: [] };
      }),

    /** Starts another directory for changes; the sealed ones are shown below it. */
    renewLayer: (
      rootTaskId: string,
      next: { sealed: readonly number[]; beganNs: bigint },
    ): Promise<void> => db.write((sql) => renewLayer(sql, rootTaskId, next)),

    /** The paths that an apply or undo has written, with what it wrote. */
    listBases: (rootTaskId: string): Promise<Map<string, BaseSide>> =>
      db.read(async (sql) => {
        const rows = await sql.all<{ path: string; side: string }>(
          'SELECT path, side FROM layer_bases WHERE root_task_id = ?',
          rootTaskId,
        );
        return new Map(rows.map(({ path, side }) => [path, JSON.parse(side) as BaseSide]));
      }),

    findApply: (rootTaskId: string, applyId: string): Promise<ApplyRow | undefined> =>
      db.read(async (sql) => {
        const row = await sql.one<StoredApply>(
          'SELECT * FROM layer_applies WHERE root_task_id = ? AND apply_id = ?',
          rootTaskId,
          applyId,
        );
        return row && toApply(row);
      }),

    /** Newest first, without their changes. */
    listApplies: (
      rootTaskId: string,
    ): Promise<{ applyId: string; state: ApplyState; begunMs: number }[]> =>
      db.read(async (sql) => {
        const rows = await sql.all<{ apply_id: string; state: ApplyState; begun_ms: number }>(
          `SELECT apply_id, state, begun_ms FROM layer_applies WHERE root_task_id = ?
           ORDER BY begun_ms DESC, rowid DESC`,
          rootTaskId,
        );
        return rows.map(({ apply_id, state, begun_ms }) => ({
          applyId: apply_id,
          state,
          begunMs: Number(begun_ms),
        }));
      }),

    /** Applies and undos that a crash may have interrupted. */
    listUnfinished: (): Promise<ApplyRow[]> =>
      db.read(async (sql) => {
        const rows = await sql.all<StoredApply>(
          "SELECT * FROM layer_applies WHERE state IN ('applying', 'undoing')",
        );
        return rows.map(toApply);
      }),

    /** Recorded before the first file is written. A failed one is replaced. */
    beginApply: (apply: Omit<ApplyRow, 'begunMs' | 'state'>): Promise<void> =>
      db.write(async (sql) => {
        await sql.run(
          "DELETE FROM layer_applies WHERE root_task_id = ? AND apply_id = ? AND state = 'failed'",
          apply.rootTaskId,
          apply.applyId,
        );
        await sql.run(
          `INSERT INTO layer_applies (root_task_id, apply_id, state, change_sha256, changes,
             is_whole, begun_ms) VALUES (?, ?, 'applying', ?, ?, ?, ?)`,
          apply.rootTaskId,
          apply.applyId,
          apply.changeSha256,
          encodeChanges(apply.changes),
          apply.isWhole ? 1 : 0,
          nowMs(),
        );
      }),

    /**
     * Ends an apply or undo. `renewed`: when nothing of the layer is left, its next directory
     * begins; else the written paths are remembered, so that later edits of them are noticed.
     */
    endApply: (
      apply: Pick<ApplyRow, 'rootTaskId' | 'applyId'>,
      end: {
        state: ApplyState;
        written: readonly { path: string; side: BaseSide }[];
        renewed?: { beganNs: bigint } | undefined;
      },
    ): Promise<void> =>
      db.write(async (sql) => {
        const { rootTaskId, applyId } = apply;
        await setApplyState(sql, apply, end.state);
        await sql.run(
          'UPDATE layer_applies SET done_ms = ? WHERE root_task_id = ? AND apply_id = ?',
          nowMs(),
          rootTaskId,
          applyId,
        );
        if (end.renewed !== undefined)
          await renewLayer(sql, rootTaskId, { sealed: [], beganNs: end.renewed.beganNs });
        else
          for (const { path, side } of end.written)
            await sql.run(
              `INSERT INTO layer_bases (root_task_id, path, side) VALUES (?, ?, ?)
               ON CONFLICT (root_task_id, path) DO UPDATE SET side = excluded.side`,
              rootTaskId,
              path,
              JSON.stringify(side),
            );
      }),

    beginUndo: (apply: Pick<ApplyRow, 'rootTaskId' | 'applyId'>): Promise<void> =>
      db.write(async (sql) => void (await setApplyState(sql, apply, 'undoing'))),
  };
}

async function findLayer(sql: Pick<Sql, 'one'>, id: string): Promise<LayerRow | undefined> {
  const row = await sql.one<StoredLayer>('SELECT * FROM layers WHERE root_task_id = ?', id);
  return row && toLayer(row);
}

/** A new directory holds no changes of paths that were applied before it. */
async function renewLayer(
  sql: Sql,
  rootTaskId: string,
  { sealed, beganNs }: { sealed: readonly number[]; beganNs: bigint },
): Promise<void> {
  await sql.run(
    'UPDATE layers SET number = number + 1, sealed = ?, began_ns = ? WHERE root_task_id = ?',
    JSON.stringify(sealed),
    String(beganNs),
    rootTaskId,
  );
  if (sealed.length === 0)
    await sql.run('DELETE FROM layer_bases WHERE root_task_id = ?', rootTaskId);
}

function setApplyState(
  sql: Sql,
  { rootTaskId, applyId }: Pick<ApplyRow, 'rootTaskId' | 'applyId'>,
  state: ApplyState,
): Promise<number> {
  return sql.run(
    'UPDATE layer_applies SET state = ? WHERE root_task_id = ? AND apply_id = ?',
    state,
    rootTaskId,
    applyId,
  );
}

/** With its tree. */
export async function dropLayer(sql: Sql, rootTaskId: string): Promise<void> {
  for (const table of ['layers', 'layer_bases', 'layer_applies'])
    await sql.run(`DELETE FROM ${table} WHERE root_task_id = ?`, rootTaskId);
}
