// Layers that subtasks have for themselves: made above what the layer of their parent is at that
// moment. That is sealed, so that both have it below, and neither sees what the other adds.
import { makeKeyedMutex } from '../../platform/mutex.ts';
import { fault } from '../../wire/errors.ts';
import type { Warden } from './adapters/warden.ts';
import type { LayerDirs } from './layer-dirs.ts';
import type { LayerRow } from './layer-rows.ts';
import type { SandboxdStore } from './store.ts';
import type { TreeGate } from './tree-gate.ts';

/** `rootTaskId`: the subtask; `path`: the person's directory. */
export type LayerFork = { rootTaskId: string; treeId: string; parentId: string; path: string };

export type LayerForks = {
  /**
   * Gives a subtask a layer of its own, above what the one of `parentId` is now. That one is
   * sealed: what was written so far is a part of both, and new changes go to a new directory.
   */
  fork(fork: LayerFork): Promise<void>;
};

/** As many as the warden takes (SEALED_MAX in native/warden/plan.h). */
export const LAYER_PARTS_MAX = 32;

export function makeLayerForks(options: {
  store: Pick<SandboxdStore, 'findLayer' | 'sealLayer' | 'addFork'>;
  dirs: LayerDirs;
  warden: Pick<Warden, 'layer' | 'measure'>;
  gate: Pick<TreeGate, 'enter' | 'hold'>;
  /** Opens the layer for a moment, if there is none, and finds out whether it is a copy. */
  settle: (rootTaskId: string, path: string) => Promise<void>;
  /** Closes the layer and its boxes. */
  close: (rootTaskId: string) => Promise<void>;
  failpoint: (name: string) => void;
}): LayerForks {
  const { store, dirs, warden, gate, failpoint } = options;
  const withFork = makeKeyedMutex();

  /** Older kernels mount fewer parts, and a layer that was sealed has to be mounted again. */
  const assertMountable = async (row: LayerRow, parts: string[]): Promise<void> => {
    const user = await dirs.userFor(row);
    const dir = dirs.layerDir(row, row.number + 1);
    const layer = await warden.layer({ ...user, lower: row.path, sealed: parts, dir });
    await layer.close();
  };

  /** While its commands are held. */
  const seal = async (row: LayerRow): Promise<LayerRow> => {
    const { base, sealed, upper } = dirs.uppersOf(row);
    if ((await warden.measure(upper)).entries === 0) return row;
    const parts = [...base, ...sealed, upper];
    if (parts.length > LAYER_PARTS_MAX) throw deepFault();
    await options.close(row.rootTaskId);
    await dirs.makeNext(row);
    await assertMountable(row, parts);
    failpoint('sandboxd.before-seal');
    await store.sealLayer(row);
    failpoint('sandboxd.after-seal');
    return { ...row, number: row.number + 1, sealed: [...row.sealed, row.number] };
  };

  return {
    fork: ({ rootTaskId, treeId, parentId, path }) =>
      withFork(rootTaskId, async () => {
        if ((await store.findLayer(rootTaskId)) !== undefined) return;
        if (parentId === treeId) await options.settle(treeId, path);
        // An apply that a crash has interrupted is finished first.
        (await gate.enter(parentId))();
        const leave = await gate.hold(parentId);
        try {
          const found = await store.findLayer(parentId);
          if (found === undefined) throw fault('not_found', `${parentId} has no layer`);
          if (found.copies !== null) throw copyFault(found.path);
          const parent = await seal(found);
          const parts = parent.sealed.map((number) => ({ rootTaskId: parentId, number }));
          const own = { treeId, parentId, base: [...(parent.own?.base ?? []), ...parts] };
          const beganNs = await dirs.begin({ rootTaskId, own }, 1);
          failpoint('sandboxd.before-fork');
          await store.addFork({ ...parent, rootTaskId, own, beganNs });
          failpoint('sandboxd.after-fork');
        } finally {
          leave();
        }
      }),
  };
}

const deepFault = () =>
  fault('limit', `a layer has up to ${LAYER_PARTS_MAX} parts, and this one has them`, {
    hint:
      'Each task with a layer of its own can add one. Use the layer of the parent task, or apply ' +
      'or discard the changes of the whole tree first.',
  });

const copyFault = (path: string) =>
  fault('level_unavailable', `the task works on a copy of ${path}, which cannot be sealed`, {
    hint:
      'A subtask has a layer of its own only where overlays can be mounted (agentctl doctor); let ' +
      'it use the layer of its parent.',
  });
