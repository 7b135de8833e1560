// The layers of task trees, as rows: the directory of each, the numbers of its own directories, the
// state that applied paths were left in, and the journal of applies.
import type { Database, Sql } from '../../platform/sql/database.ts';
import { fault } from '../../wire/errors.ts';
import type { ChangeSide, LayerChange } from './adapters/boxfs-changes.ts';
import { decodeChanges, encodeChanges } from './layer-change-rows.ts';
import type { CommitPlan, LeftBranch } from './layer-commits.ts';
import { type CopySizes, cutCopies } from './layer-copy-rows.ts';

/** The content of a path: the parts of a side of a change that an apply writes and compares. */
export type BaseSide = {
  type: 'file' | 'directory' | 'link' | 'other';
  mode: number;
  sha256: string | null;
  linkTarget: string | null;
} | null;

/** One directory that takes changes, of this layer or of another of the tree. */
export type UpperKey = { rootTaskId: string; number: number };

/** The place of a layer that a subtask has for itself. */
export type OwnLayer = {
  /** The root task of the tree. */
  treeId: string;
  /** The layer that its changes are applied to. */
  parentId: string;
  /** The parts of that one when this one was made, oldest first. */
  base: UpperKey[];
};

export type LayerRow = {
  /** The topmost task that works on it. */
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
  /** Null: it is that of the whole tree. */
  own: OwnLayer | null;
  /** The numbers of directories that have a copy, and its bytes; null: the layer is an overlay. */
  copies: CopySizes | null;
};

/** The layer that an apply has emptied, until another apply or a discard. */
export type KeptLayer = Pick<LayerRow, 'number' | 'sealed' | 'beganNs'> & { applyId: string };

/**
 * `applying` and `undoing`: files are being written; finished at the next start after a crash.
 * `failed`: reverted, because a file of the person was in the way.
 */
export type ApplyState = 'applying' | 'done' | 'undoing' | 'undone' | 'failed';
/** `counts`: the commits of each ref, in the order of the plan's updates. */
export type RecordedCommits = { plan: CommitPlan; counts: number[]; left?: LeftBranch[] };
export type ApplyRow = {
  rootTaskId: string;
  applyId: string;
  state: ApplyState;
  changeSha256: string;
  changes: AppliedChange[];
  /** True if nothing was left in the layer. */
  isWhole: boolean;
  /** `beganNs` of the layer whose changes these are; null: it is not known. */
  layerBeganNs: bigint | null;
  /** Refs of the person's repository that move after the files; null: none. */
  commits: RecordedCommits | null;
  begunMs: number;
};
export type AppliedChange = LayerChange & {
  /** The layer's side, if `after` is that merged with the person's text. */
  agents?: ChangeSide | undefined;
  /** The person let it replace what she had changed. */
  isOverwriting?: boolean;
};
type ApplyKey = Pick<ApplyRow, 'rootTaskId' | 'applyId'>;
export type LayerMethods = ReturnType<typeof makeLayerMethods>;

export type StoredLayer = {
  root_task_id: string;
  path: string;
  directory_id: string | null;
  number: number;
  sealed: string;
  began_ns: string;
  tree_id: string | null;
  parent_id: string | null;
  base: string | null;
  copies: string | null;
};
type StoredApply = {
  root_task_id: string;
  apply_id: string;
  state: ApplyState;
  change_sha256: string;
  changes: string;
  is_whole: number;
  begun_ms: number;
  layer_began_ns: string | null;
  commits: string | null;
};
type StoredKept = {
  apply_id: string;
  number: number;
  sealed: string;
  began_ns: string;
  bases: string;
};

const toKept = (row: StoredKept): KeptLayer => ({
  applyId: row.apply_id,
  number: Number(row.number),
  sealed: JSON.parse(row.sealed) as number[],
  beganNs: BigInt(row.began_ns),
});
const toOwn = ({ tree_id: treeId, parent_id, base }: StoredLayer): OwnLayer | null =>
  treeId === null
    ? null
    : { treeId, parentId: parent_id!, base: JSON.parse(base!) as OwnLayer['base'] };
export const toLayer = (row: StoredLayer): LayerRow => ({
  rootTaskId: row.root_task_id,
  path: row.path,
  directoryId: row.directory_id,
  number: Number(row.number),
  sealed: JSON.parse(row.sealed) as number[],
  beganNs: BigInt(row.began_ns),
  own: toOwn(row),
  copies: row.copies === null ? null : (JSON.parse(row.copies) as CopySizes),
});
const toApply = (row: StoredApply): ApplyRow => ({
  rootTaskId: row.root_task_id,
  applyId: row.apply_id,
  state: row.state,
  changeSha256: row.change_sha256,
  changes: decodeChanges(row.changes),
  isWhole: Number(row.is_whole) === 1,
  layerBeganNs: row.layer_began_ns === null ? null : BigInt(row.layer_began_ns),
  commits: row.commits === null ? null : (JSON.parse(row.commits) as RecordedCommits),
  begunMs: Number(row.begun_ms),
});

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
        return { ...layer, number: 1, sealed: [], own: null, copies: null };
      }),

    /** Starts another directory for changes; the sealed ones are shown below it. */
    renewLayer: (
      rootTaskId: string,
      next: { sealed: readonly number[]; beganNs: bigint },
    ): Promise<void> => db.write((sql) => renewLayer(sql, rootTaskId, next)),

    /** The paths that an apply or undo has written, with what it wrote. */
    listBases: (rootTaskId: string): Promise<Map<string, BaseSide>> =>
      db.read((sql) => listBases(sql, rootTaskId)),

    findKept: (rootTaskId: string): Promise<KeptLayer | undefined> =>
      db.read(async (sql) => {
        const found = await findKept(sql, rootTaskId);
        return found && toKept(found);
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
             is_whole, layer_began_ns, commits, begun_ms)
           VALUES (?, ?, 'applying', ?, ?, ?, ?, ?, ?)`,
          apply.rootTaskId,
          apply.applyId,
          apply.changeSha256,
          encodeChanges(apply.changes),
          apply.isWhole ? 1 : 0,
          apply.layerBeganNs === null ? null : String(apply.layerBeganNs),
          apply.commits === null ? null : JSON.stringify(apply.commits),
          nowMs(),
        );
      }),

    /**
     * Ends an apply or undo. `renewed`: when nothing of the layer is left, its next directory
     * begins, and it is kept; else the written paths are remembered, so that later edits of them
     * are noticed. `isReturned`: the kept layer of the apply is the current one again.
     */
    endApply: (
      apply: ApplyKey,
      end: {
        state: ApplyState;
        written: readonly { path: string; side: BaseSide }[];
        renewed?: { beganNs: bigint } | undefined;
        isReturned?: boolean;
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
          return renewAndKeep(sql, apply, { sealed: [], beganNs: end.renewed.beganNs });
        if (end.isReturned === true) await returnLayer(sql, apply);
        else if (end.state === 'done') await dropKept(sql, rootTaskId);
        await setBases(sql, rootTaskId, end.written);
      }),

    beginUndo: (apply: ApplyKey): Promise<void> =>
      db.write(async (sql) => void (await setApplyState(sql, apply, 'undoing'))),
  };
}

export async function findLayer(sql: Pick<Sql, 'one'>, id: string): Promise<LayerRow | undefined> {
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
  await dropKept(sql, rootTaskId);
}

async function listBases(
  sql: Pick<Sql, 'all'>,
  rootTaskId: string,
): Promise<Map<string, BaseSide>> {
  const rows = await sql.all<{ path: string; side: string }>(
    'SELECT path, side FROM layer_bases WHERE root_task_id = ?',
    rootTaskId,
  );
  return new Map(rows.map(({ path, side }) => [path, JSON.parse(side) as BaseSide]));
}

async function setBases(
  sql: Sql,
  rootTaskId: string,
  written: readonly { path: string; side: BaseSide }[],
): Promise<void> {
  for (const { path, side } of written)
    await sql.run(
      `INSERT INTO layer_bases (root_task_id, path, side) VALUES (?, ?, ?)
       ON CONFLICT (root_task_id, path) DO UPDATE SET side = excluded.side`,
      rootTaskId,
      path,
      JSON.stringify(side),
    );
}

const findKept = (sql: Pick<Sql, 'one'>, rootTaskId: string): Promise<StoredKept | undefined> =>
  sql.one<StoredKept>('SELECT * FROM layer_kept WHERE root_task_id = ?', rootTaskId);

const dropKept = (sql: Sql, rootTaskId: string): Promise<number> =>
  sql.run('DELETE FROM layer_kept WHERE root_task_id = ?', rootTaskId);

async function renewAndKeep(
  sql: Sql,
  { rootTaskId, applyId }: ApplyKey,
  next: { sealed: readonly number[]; beganNs: bigint },
): Promise<void> {
  const { number, sealed, beganNs } = (await findLayer(sql, rootTaskId))!;
  const bases = await listBases(sql, rootTaskId);
  await renewLayer(sql, rootTaskId, next);
  await sql.run(
    `INSERT INTO layer_kept (root_task_id, apply_id, number, sealed, began_ns, bases)
     VALUES (?, ?, ?, ?, ?, ?)`,
    rootTaskId,
    applyId,
    number,
    JSON.stringify(sealed),
    String(beganNs),
    JSON.stringify([...bases]),
  );
}

/** Sides that undos of earlier applies have written since count more than the kept ones. */
async function returnLayer(sql: Sql, { rootTaskId, applyId }: ApplyKey): Promise<void> {
  const kept = await findKept(sql, rootTaskId);
  if (kept?.apply_id !== applyId) throw fault('internal', `the layer of ${applyId} is not kept`);
  const bases = new Map(JSON.parse(kept.bases) as [string, BaseSide][]);
  for (const path of (await listBases(sql, rootTaskId)).keys()) bases.delete(path);
  await sql.run(
    'UPDATE layers SET number = ?, sealed = ?, began_ns = ? WHERE root_task_id = ?',
    Number(kept.number),
    kept.sealed,
    kept.began_ns,
    rootTaskId,
  );
  await cutCopies(sql, rootTaskId, Number(kept.number));
  await setBases(
    sql,
    rootTaskId,
    [...bases].map(([path, side]) => ({ path, side })),
  );
  await dropKept(sql, rootTaskId);
}

function setApplyState(
  sql: Sql,
  { rootTaskId, applyId }: ApplyKey,
  state: ApplyState,
): Promise<number> {
  return sql.run(
    'UPDATE layer_applies SET state = ? WHERE root_task_id = ? AND apply_id = ?',
    state,
    rootTaskId,
    applyId,
  );
}
