// Removes the files of ended task trees, and measures trees that were written to. A directory is
// renamed first, so that none is ever seen half removed; the warden deletes it, because its files
// belong to agents.
import { lstat, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { makeKeyedMutex, makeMutex } from '../../platform/mutex.ts';
import { makeWakeLoop } from '../../platform/wake-loop.ts';
import type { FileKind } from '../../wire/sandboxd/tree-files.ts';
import type { Warden } from './adapters/warden.ts';
import type { SandboxdStore } from './store.ts';
import type { Leave } from './tree-gate.ts';
import type { Workspaces } from './workspaces.ts';

export type TreeFilesPruned = { bytes: number; entries: number; left: number };

export type TreeFileService = {
  prune(rootTaskId: string, kind: FileKind): Promise<TreeFilesPruned>;
  /** A box of some tree was closed: measure it soon. */
  wake(): void;
  stop(): Promise<void>;
};

/** A tree in use changes often: it is measured after it was quiet for a while. */
const MEASURE_DELAY_MS = 5_000;
/** Rest between two measurements, as a multiple of their duration. */
const REST = 20;

const FILE_KINDS: readonly FileKind[] = ['workspaces', 'homes'];
const toPrunedName = (rootTaskId: string): string => `.pruned-${rootTaskId}`;

const exists = (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code !== 'ENOENT',
  );

export function makeTreeFiles(options: {
  /** Without links. */
  stateDir: string;
  store: Pick<SandboxdStore, 'findUnmeasured' | 'recordMeasured' | 'recordPruned' | 'workspaceUse'>;
  warden: Pick<Warden, 'measure' | 'deleteTree'>;
  workspaces: Pick<Workspaces, 'release'>;
  /** Closes the tree's layer for as long as its files are removed. */
  closeLayer: (rootTaskId: string) => Promise<Leave>;
  clock: Clock;
  log: Log;
  failpoint: (name: string) => void;
}): TreeFileService {
  const { stateDir, store, warden, clock, log, failpoint } = options;
  const withTree = makeKeyedMutex();
  /** One at a time: deleting loads the disk. */
  const withDelete = makeMutex();
  const dirFor = (kind: FileKind, name: string): string => join(stateDir, kind, name);

  const remove = async (rootTaskId: string, kind: FileKind): Promise<TreeFilesPruned> => {
    const removed = dirFor(kind, toPrunedName(rootTaskId));
    await rename(dirFor(kind, rootTaskId), removed).catch((error: unknown) => {
      // It never was, or a crash came between this and what follows.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    });
    failpoint('sandboxd.after-rename-files');
    const freed = await withDelete(() => warden.deleteTree(removed));
    // Files that were removed from a person's directory are this user's, and go with the homes.
    if (kind === 'homes')
      await rm(join(stateDir, 'quarantine', rootTaskId), { recursive: true, force: true });
    await store.recordPruned(rootTaskId, kind);
    failpoint('sandboxd.after-prune-files');
    return { ...freed, left: 0 };
  };

  const measureTree = async (rootTaskId: string, isOwn: boolean): Promise<void> => {
    const home = dirFor('homes', rootTaskId);
    const agents = await readdir(home).catch(() => [] as string[]);
    const homes: { agent: string; bytes: number }[] = [];
    for (const agent of agents) {
      const { bytes } = await warden.measure(join(home, agent));
      homes.push({ agent, bytes });
    }
    const agent = agents[0] ?? '';
    const workspace = dirFor('workspaces', rootTaskId);
    const bytes =
      isOwn && (await exists(workspace)) ? (await warden.measure(workspace)).bytes : undefined;
    await store.recordMeasured({
      rootTaskId,
      workspace: bytes === undefined ? undefined : { agent, bytes },
      homes,
    });
  };

  let after = '';
  const loop = makeWakeLoop({
    clock,
    async work() {
      const found = await store.findUnmeasured(after);
      if (found === undefined) {
        after = '';
        return undefined;
      }
      after = found.root;
      const beganMs = performance.now();
      const use = await store.workspaceUse(found.root);
      if (use !== undefined && !use.hasOpenBoxes)
        await withTree(found.root, () => measureTree(found.root, found.isOwn));
      return clock.nowMs() + REST * (performance.now() - beganMs);
    },
    backoffMs: { min: MEASURE_DELAY_MS, max: 60 * MEASURE_DELAY_MS },
    onError: (error) => log.warn('measuring the files of a task tree failed', { error }),
  });
  let timer: { cancel(): void } | undefined;

  return {
    prune: (rootTaskId, kind) =>
      withTree(rootTaskId, async () => {
        const use = await store.workspaceUse(rootTaskId);
        if (use?.hasOpenBoxes === true) return { bytes: 0, entries: 0, left: 1 };
        const leave = await options.closeLayer(rootTaskId);
        const pruned = await remove(rootTaskId, kind).finally(leave);
        const dirs = FILE_KINDS.flatMap((other) =>
          [rootTaskId, toPrunedName(rootTaskId)].map((name) => exists(dirFor(other, name))),
        );
        // The group is on files of the other kind too.
        if ((await Promise.all(dirs)).every((isThere) => !isThere))
          await options.workspaces.release(rootTaskId);
        return pruned;
      }),
    wake() {
      timer ??= clock.at(clock.nowMs() + MEASURE_DELAY_MS, () => {
        timer = undefined;
        loop.wake();
      });
    },
    async stop() {
      timer?.cancel();
      await loop.stop();
    },
  };
}
