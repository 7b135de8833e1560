// The actions of people on a layer: list its changes, apply them to the directory, undo
// that, or discard them. An apply is recorded with all its changes before the first file is
// written, and finished after a crash.
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { makeWakeLoop } from '../../platform/wake-loop.ts';
import { fault } from '../../wire/errors.ts';
import type { BoxfsClient } from './adapters/boxfs-client.ts';
import type { InstallOutcome } from './adapters/boxfs-install.ts';
import { makeApplyCommits } from './layer-apply-commits.ts';
import { type ApplyRequest, makeApplyPlanner, type NewApply } from './layer-apply-plan.ts';
import type { ApplyDirs, LayerBoxes } from './layer-boxes.ts';
import { conflictsFault, toBaseSide } from './layer-changes.ts';
import type { LeftBranch } from './layer-commits.ts';
import { jobFor, layerJobFor, undoJobFor } from './layer-jobs.ts';
import type { LayerOriginals } from './layer-originals.ts';
import { PLACES } from './layer-places.ts';
import { findObstacles } from './layer-plan.ts';
import type { AppliedChange, ApplyRow, LayerRow } from './layer-rows.ts';
import type { LayerViews } from './layer-views.ts';
import { keysOf, type Layers } from './layers.ts';
import type { SandboxdStore } from './store.ts';
import type { TreeGate } from './tree-gate.ts';

export type Applied = {
  applyId: string;
  changeSha256: string;
  applied: string[];
  /** The files among these that were merged with the person's text. */
  merged: string[];
  /** `count`: of the commits that the ref has got. */
  commits: { ref: string; from: string | null; to: string; count: number }[];
  commitsLeft: LeftBranch[];
};
export type Undone = {
  applyId: string;
  restored: string[];
  /** The layer that the changes were applied from is the current one (again). */
  isInLayer: boolean;
  /** Where that layer still is, if it is not. */
  keptAt: string | null;
};

export type LayerService = Pick<LayerViews, 'changes' | 'texts'> & {
  apply(rootTaskId: string, request: ApplyRequest): Promise<Applied>;
  /** Resolves to the number of dropped changes. */
  discard(rootTaskId: string): Promise<number>;
  /** The last apply, unless another is named. */
  undo(rootTaskId: string, applyId: string | undefined): Promise<Undone>;
  /** Bars the trees of what a crash has interrupted, before the first box can open. */
  barUnfinished(): Promise<void>;
  /** Finishes that, and tries again until it works. */
  resume(): void;
  stop(): Promise<void>;
};

/** The warden may still be closing what the process before this one had open. */
const RESUME_BACKOFF_MS = { min: 200, max: 30_000 };

export function makeLayerService(options: {
  layers: Layers;
  boxes: LayerBoxes;
  views: LayerViews;
  originals: Pick<LayerOriginals, 'sweep'>;
  store: Pick<
    SandboxdStore,
    | 'findKept'
    | 'findApply'
    | 'listApplies'
    | 'listUnfinished'
    | 'beginApply'
    | 'beginUndo'
    | 'endApply'
    | 'renewLayer'
  >;
  gate: Pick<TreeGate, 'bar' | 'lift'>;
  clock: Clock;
  log: Log;
  failpoint: (name: string) => void;
}): LayerService {
  const { layers, boxes, views, store, gate, failpoint } = options;
  const git = makeApplyCommits(options);
  const prepare = makeApplyPlanner({ views, git });

  const findRow = async (rootTaskId: string): Promise<LayerRow> => {
    const row = await layers.find(rootTaskId);
    if (row !== undefined) return row;
    throw fault('not_found', `${rootTaskId} has no layer`, {
      hint: 'Only tasks that work in a directory of yours, without --live, have one.',
    });
  };

  /** The layers, and those they are applied to, that something was begun in and is not finished. */
  const listBarred = async (): Promise<Set<string>> => {
    const keys = new Set<string>();
    for (const { rootTaskId } of await store.listUnfinished())
      for (const key of keysOf(await findRow(rootTaskId))) keys.add(key);
    return keys;
  };

  /** With no command of the tree running, and finished what was begun earlier. */
  const whileQuiet = async <T>(
    rootTaskId: string,
    work: (row: LayerRow) => Promise<T>,
  ): Promise<T> => {
    const found = await findRow(rootTaskId);
    const leave = await layers.quiesceForApply(found);
    // Whatever fails in between, no box opens on a directory that is half written.
    for (const key of keysOf(found)) gate.bar(key);
    const findOwn = async () =>
      (await store.listUnfinished()).filter((apply) => apply.rootTaskId === rootTaskId);
    try {
      for (const apply of await findOwn()) await finish(apply);
      return await work(await findRow(rootTaskId));
    } finally {
      const barred = await listBarred().catch(() => undefined);
      const keys = keysOf(found).filter((key) => barred?.has(key) === false);
      for (const key of keys) gate.lift(key);
      if (barred?.has(rootTaskId) !== false) unfinished.wake();
      leave();
    }
  };

  const makeDirs = async (row: LayerRow, applyId: string): Promise<ApplyDirs> => ({
    staging: await layers.makeOwned(row, ['undo', applyId, 'staging', 'files']),
    undo: await layers.makeOwned(row, ['undo', applyId, 'old']),
  });

  /** The next directory for changes, if an apply has left none. */
  const findRenewal = async (row: LayerRow, isWhole: boolean) =>
    isWhole ? { beganNs: await layers.makeNext(row) } : undefined;

  const tidy = async (row: LayerRow): Promise<void> => {
    await layers.sweep(row.rootTaskId).catch((error: unknown) => {
      options.log.warn('deleting a layer failed', { task: row.rootTaskId, error });
    });
    await options.originals.sweep(row.rootTaskId);
  };

  /** Undoes what was written, other than paths that a person has changed since. */
  const revert = async (
    boxfs: BoxfsClient,
    { applyId, changes }: Pick<ApplyRow, 'applyId' | 'changes'>,
  ): Promise<{ restored: string[]; left: { path: string; reason: string }[] }> => {
    const left: { path: string; reason: string }[] = [];
    for (;;) {
      const rest = changes.filter(({ path }) => !left.some((bad) => bad.path === path));
      const bad = findBad(await boxfs.install(undoJobFor(applyId, rest)));
      if (bad.length === 0) return { restored: rest.map(({ path }) => path), left };
      left.push(...bad);
    }
  };

  /** Writes the changes of a recorded apply, and records its end. */
  const write = async (
    boxfs: BoxfsClient,
    row: LayerRow,
    apply: NewApply,
    isRepeat: boolean,
  ): Promise<{ path: string; reason: string }[]> => {
    const job = { ...jobFor(apply.applyId, apply.changes), isRepeat };
    const bad = findBad(await boxfs.install(job));
    failpoint('sandboxd.after-apply-written');
    // Refs come last: what a crash has left between is finished by doing all of it again.
    if (bad.length === 0) {
      bad.push(...(await git.move(row, apply)));
      failpoint('sandboxd.after-apply-commits');
    } else if (isRepeat) await git.moveBack(row, apply);
    if (bad.length === 0 && !apply.isWhole) {
      const inLayer = { ...layerJobFor(apply.applyId, apply.changes), isRepeat };
      bad.push(...findBad(await boxfs.install(inLayer)));
    }
    if (bad.length > 0) {
      const rest = apply.changes.filter(({ path }) => !bad.some((one) => one.path === path));
      await revert(boxfs, { ...apply, changes: rest });
    }
    return bad;
  };

  const end = async (
    row: LayerRow,
    apply: NewApply,
    bad: readonly { path: string; reason: string }[],
  ): Promise<void> => {
    await layers.closed(row.rootTaskId);
    const written = apply.changes.map(({ path, after }) => ({ path, side: toBaseSide(after) }));
    if (bad.length > 0) await store.endApply(apply, { state: 'failed', written: [] });
    else {
      const renewed = await findRenewal(row, apply.isWhole);
      await store.endApply(apply, { state: 'done', written, renewed });
    }
    failpoint('sandboxd.after-apply-done');
    await layers.remove(row, ['undo', apply.applyId, 'staging']);
    await tidy(row);
  };

  async function finish(apply: ApplyRow): Promise<void> {
    const row = await findRow(apply.rootTaskId);
    const dirs = await makeDirs(row, apply.applyId);
    if (apply.state === 'undoing') {
      const isReturned = await boxes.withApply(row, dirs, async (boxfs) => {
        const found = await canReturn(boxfs, row, apply);
        await git.moveBack(row, apply);
        await revert(boxfs, apply);
        return found;
      });
      return endUndo(row, apply, isReturned);
    }
    const bad = await boxes.withApply(row, dirs, (boxfs) => write(boxfs, row, apply, true));
    await end(row, apply, bad);
  }

  /** The layer of this apply was kept, and no box has changed anything since. */
  const canReturn = async (
    boxfs: BoxfsClient,
    row: LayerRow,
    apply: ApplyRow,
  ): Promise<boolean> => {
    const kept = await store.findKept(apply.rootTaskId);
    if (kept?.applyId !== apply.applyId) return false;
    // The layers of subtasks have what was written since.
    if (await layers.hasForks(row, kept.number)) return false;
    try {
      for await (const _ of boxfs.listChanges(PLACES, 1)) return false;
      return true;
    } catch (error) {
      options.log.warn('listing a layer failed', { error });
      return false;
    }
  };

  async function endUndo(row: LayerRow, apply: ApplyRow, isReturned: boolean): Promise<void> {
    await layers.closed(row.rootTaskId);
    // A conflict, and a merge, comes back: the layer has what it had before the apply.
    const isMet = ({ agents, isOverwriting }: AppliedChange): boolean =>
      isOverwriting === true || (isReturned && agents !== undefined);
    const written = apply.changes
      .filter((change) => !isMet(change))
      .map(({ path, before }) => ({ path, side: toBaseSide(before) }));
    await store.endApply(apply, { state: 'undone', written, isReturned });
    failpoint('sandboxd.after-undo-done');
    await layers.remove(row, ['undo', apply.applyId, 'staging']);
    await tidy(row);
  }

  const toUndone = async (apply: ApplyRow, restored: string[]): Promise<Undone> => {
    const { rootTaskId, applyId } = apply;
    const row = await findRow(rootTaskId);
    const kept = await store.findKept(rootTaskId);
    const isKept = kept?.applyId === applyId;
    return {
      applyId,
      restored,
      isInLayer: row.beganNs === apply.layerBeganNs,
      keptAt: isKept ? layers.uppersOf({ ...row, ...kept }).upper : null,
    };
  };

  const unfinished = makeWakeLoop({
    clock: options.clock,
    async work() {
      await layers.sweepRemoved();
      const roots = new Set((await store.listUnfinished()).map(({ rootTaskId }) => rootTaskId));
      for (const rootTaskId of roots) await whileQuiet(rootTaskId, async () => undefined);
      return undefined;
    },
    backoffMs: RESUME_BACKOFF_MS,
    onError: (error) => options.log.error('finishing an apply failed', { error }),
  });

  const toApplied = ({ applyId, changeSha256, changes, commits }: NewApply): Applied => ({
    applyId,
    changeSha256,
    applied: changes.map(({ path }) => path),
    merged: changes.flatMap(({ path, agents }) => (agents === undefined ? [] : [path])),
    commits: (commits?.plan.updates ?? []).map(({ ref, from, to }, at) => ({
      ref,
      from,
      to: to!,
      count: commits!.counts[at]!,
    })),
    commitsLeft: commits?.left ?? [],
  });

  return {
    changes: views.changes,
    texts: views.texts,
    apply: (rootTaskId, request) =>
      whileQuiet(rootTaskId, async (row) => {
        const known = await store.findApply(rootTaskId, request.applyId);
        if (known !== undefined && known.state !== 'failed') return toApplied(known);
        await layers.remove(row, ['undo', request.applyId]);
        const dirs = await makeDirs(row, request.applyId);
        const { apply, bad } = await boxes.withApply(row, dirs, async (boxfs) => {
          const prepared = await prepare(boxfs, row, request);
          failpoint('sandboxd.before-apply-recorded');
          await store.beginApply(prepared);
          failpoint('sandboxd.after-apply-recorded');
          return { apply: prepared, bad: await write(boxfs, row, prepared, false) };
        });
        await end(row, apply, bad);
        if (bad.length > 0) throw conflictsFault(bad);
        return toApplied(apply);
      }),
    async discard(rootTaskId) {
      if ((await layers.find(rootTaskId)) === undefined) return 0;
      return whileQuiet(rootTaskId, async (row) => {
        // A layer that cannot be listed, or has too many changes, can be discarded all the same.
        const found = await boxes.withReview(row, views.countListed).catch((error: unknown) => {
          // Its directory is gone, or not granted any more: nothing can be held against it.
          options.log.warn('a layer is discarded unseen', { task: rootTaskId, error });
          return 0;
        });
        await layers.closed(rootTaskId);
        const beganNs = await layers.makeNext(row);
        await store.renewLayer(rootTaskId, { sealed: [], beganNs });
        failpoint('sandboxd.after-discard');
        await tidy(row);
        return found;
      });
    },
    undo: (rootTaskId, applyId) =>
      whileQuiet(rootTaskId, async (row) => {
        const applies = await store.listApplies(rootTaskId);
        const id = applyId ?? applies.find(({ state }) => state === 'done')?.applyId;
        const apply = id === undefined ? undefined : await store.findApply(rootTaskId, id);
        if (apply?.state === 'undone')
          return toUndone(
            apply,
            apply.changes.map(({ path }) => path),
          );
        if (apply?.state !== 'done')
          throw fault('not_found', `${id ?? rootTaskId} was not applied, or is undone`, {
            hint: 'List what was applied: agentctl task diff ID.',
          });
        const dirs = await makeDirs(row, apply.applyId);
        const undone = await boxes.withApply(row, dirs, async (boxfs) => {
          const job = undoJobFor(apply.applyId, apply.changes);
          const obstacles = findObstacles(await boxfs.checkInstall(job));
          if (obstacles.length > 0) throw conflictsFault(obstacles);
          await git.check(row, apply);
          const isReturned = await canReturn(boxfs, row, apply);
          await store.beginUndo(apply);
          failpoint('sandboxd.after-undo-recorded');
          const kept = await git.moveBack(row, apply);
          failpoint('sandboxd.after-undo-commits');
          const { restored, left } = await revert(boxfs, apply);
          return { isReturned, restored, left: [...kept, ...left] };
        });
        await endUndo(row, apply, undone.isReturned);
        if (undone.left.length > 0) throw conflictsFault(undone.left);
        return toUndone(apply, undone.restored);
      }),
    async barUnfinished() {
      for (const key of await listBarred()) gate.bar(key);
    },
    resume: () => unfinished.wake(),
    stop: () => unfinished.stop(),
  };
}

const findBad = (outcomes: readonly InstallOutcome[]): { path: string; reason: string }[] =>
  outcomes.flatMap((found) =>
    found.outcome === 'conflict' || found.outcome === 'failed'
      ? [{ path: found.path, reason: found.reason }]
      : [],
  );
