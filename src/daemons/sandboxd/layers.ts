// The layers of task trees: agents see a person's directory, and what they write goes to a
// directory of the state. One is mounted while boxes of its tree use it, and anew for the next box,
// which makes visible what the person has changed meanwhile.
import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { makeKeyedMutex } from '../../platform/mutex.ts';
import { fault } from '../../wire/errors.ts';
import type { OpenedLayer, Warden } from './adapters/warden.ts';
import type { SandboxdConfig } from './config.ts';
import type { Disk } from './disk.ts';
import type { HostUser } from './identities.ts';
import type { WithBoxfs } from './layer-boxfs.ts';
import { isOverlayRefusal, makeLayerCopies } from './layer-copies.ts';
import { hasCopy, type LayerDirs, type LayerPlace, makeLayerDirs, treeOf } from './layer-dirs.ts';
import { type LayerForks, makeLayerForks } from './layer-forks.ts';
import type { LayerRow } from './layer-rows.ts';
import type { SandboxdStore } from './store.ts';
import type { Leave, TreeGate } from './tree-gate.ts';
import type { Workspaces } from './workspaces.ts';

/** A layer in use. */
export type LayerUse = {
  /** The number by which plans name it. */
  handle: string;
  /** The user of all boxes of the tree. */
  user: HostUser;
  /** The directories with what its boxes wrote. */
  written: string[];
  row: LayerRow;
  release(): void;
};

type LayerSessions = {
  /** Throws `level_unavailable` with the reason where this host cannot mount a layer. */
  assertAvailable(): Promise<void>;
  /** The first call for a tree fixes its directory. The layer stays open until all are released. */
  acquire(rootTaskId: string, path: string): Promise<LayerUse>;
  /** Likewise, for a look at it or a change of the directory: a copy that is due is not made. */
  view(rootTaskId: string, path: string): Promise<LayerUse>;
  find(rootTaskId: string): Promise<LayerRow | undefined>;
  /** Likewise, shows what a subtask's layer has below it, as a layer that nothing is written to. */
  acquireBase(row: LayerRow): Promise<LayerUse>;
  /** For someone who reads it: waits while it, or the one that it is applied to, is held. */
  enter(row: LayerRow): Promise<Leave>;
  /** Holds the tree's commands and closes its boxes and its layer, for a change below it. */
  quiesce(rootTaskId: string): Promise<Leave>;
  /** That, and holds the commands of the layer that this one is applied to. */
  quiesceForApply(row: LayerRow): Promise<Leave>;
  /** All layers of a tree. */
  quiesceTree(treeId: string): Promise<Leave>;
  /** True if a subtask's layer is above a directory of this one that has a higher number. */
  hasForks(row: LayerRow, number: number): Promise<boolean>;
  /** Resolves when its layer is closed, after all who used it have released it. */
  closed(rootTaskId: string): Promise<void>;
  /** Closes the tree's boxes if nothing runs in them and the person has changed the directory. */
  refresh(rootTaskId: string): Promise<void>;
  /** Deletes directories that no layer shows any more, and no undo returns to. */
  sweep(rootTaskId: string): Promise<void>;
};
export type Layers = LayerDirs & LayerForks & LayerSessions;

type Session = {
  layer: OpenedLayer;
  row: LayerRow;
  user: HostUser;
  users: number;
  /** The newest change of the directory when it was opened; undefined if it is too large. */
  newestNs: bigint | undefined;
  checkedMs: number;
  closed: Promise<void>;
  close(): Promise<void>;
};

const REFRESH_INTERVAL_MS = 1_000;

export function makeLayers(options: {
  /** Without links. */
  stateDir: string;
  store: Pick<
    SandboxdStore,
    | 'findLayer'
    | 'findKept'
    | 'addLayer'
    | 'sealLayer'
    | 'addFork'
    | 'listForks'
    | 'useCopies'
    | 'addCopy'
  >;
  config: Pick<SandboxdConfig, 'layer_copy_bytes_max'>;
  disk: Pick<Disk, 'assertSpace'>;
  withBoxfs: WithBoxfs;
  workspaces: Pick<Workspaces, 'check' | 'groupFor'>;
  warden: Pick<Warden, 'features' | 'layer' | 'chown' | 'newest' | 'measure' | 'deleteTree'>;
  gate: TreeGate;
  /** Boxes have their own users, to which the warden must chown files. */
  ownUsers: boolean;
  /** The user of all boxes otherwise. */
  host: HostUser;
  closeBoxes: (rootTaskId: string) => Promise<void>;
  clock: Clock;
  log: Log;
  failpoint: (name: string) => void;
}): Layers {
  const { store, workspaces, warden, gate, clock, log } = options;
  const withTree = makeKeyedMutex();
  const sessions = new Map<string, Session>();

  const dirs = makeLayerDirs(options);
  const { dirOf, layerDir, uppersOf } = dirs;
  const copies = makeLayerCopies({ ...options, dirs });

  const findOrAdd = async (rootTaskId: string, path: string): Promise<LayerRow> => {
    const found = await store.findLayer(rootTaskId);
    if (found !== undefined && found.path === path) return found;
    await workspaces.check(path);
    const beganNs = await dirs.begin({ rootTaskId, own: null }, 1);
    return store.addLayer({ rootTaskId, path, directoryId: readDirectoryId(path), beganNs });
  };

  /** Undefined where the directory is too large to be searched. */
  const findNewest = async (path: string): Promise<bigint | undefined> =>
    warden.newest(path).catch(() => undefined);

  const mount = async (
    key: string,
    row: LayerRow,
    parts: { sealed: string[]; dir: string; newestNs?: bigint | undefined },
  ): Promise<Session> => {
    const { sealed, dir, newestNs } = parts;
    const user = await dirs.userFor(row);
    const isCopy = row.copies !== null;
    const layer = await warden.layer({ ...user, lower: row.path, sealed, dir, isCopy });
    const closed = Promise.withResolvers<void>();
    const session: Session = {
      layer,
      row,
      user,
      users: 0,
      newestNs,
      checkedMs: clock.nowMs(),
      closed: closed.promise,
      async close() {
        if (sessions.get(key) === session) sessions.delete(key);
        await layer
          .close()
          .catch((error: unknown) => log.warn('closing a layer failed', { error }));
        closed.resolve();
      },
    };
    void layer.ended.then(() => {
      closed.resolve();
      if (sessions.get(key) !== session) return;
      sessions.delete(key);
      log.warn('a layer was lost, and its boxes are closed', { task: row.rootTaskId });
      void options.closeBoxes(row.rootTaskId);
    });
    return session;
  };

  const openSession = async (rootTaskId: string, path: string): Promise<Session> => {
    const row = await findOrAdd(rootTaskId, path);
    await workspaces.check(path);
    assertSameDirectory(row);
    return row.copies === null ? openOverlay(row) : openCopy(row);
  };

  const openOverlay = async (row: LayerRow): Promise<Session> => {
    await dirs.makeUpper(row, ['layers', String(row.number)]);
    const newestNs = await findNewest(row.path);
    const { base, sealed } = uppersOf(row);
    const dir = layerDir(row, row.number);
    try {
      const parts = { sealed: [...base, ...sealed], dir, newestNs };
      return await mount(row.rootTaskId, row, parts);
    } catch (error) {
      // The changes in an overlay are of no use without one.
      if (!isOverlayRefusal(error) || !(await isNew(row))) throw error;
      log.info('a task works on a copy', { task: row.rootTaskId, reason: error.message });
      await store.useCopies(row.rootTaskId);
      return openCopy({ ...row, copies: {} });
    }
  };

  const isNew = async (row: LayerRow): Promise<boolean> =>
    (await dirs.isUntouched(row)) && (await store.findKept(row.rootTaskId)) === undefined;

  const openCopy = async (row: LayerRow): Promise<Session> => {
    if (!hasCopy(row)) await dirs.clearCopy(row);
    return mount(row.rootTaskId, row, { sealed: [], dir: layerDir(row, row.number) });
  };

  /** Makes the copy, if the layer is one and does not have it yet. */
  const fill = async (session: Session): Promise<void> => {
    const { row, user, layer, users } = session;
    if (row.copies === null || hasCopy(row)) return;
    try {
      session.row = await copies.fill({ row, user, handle: String(layer.handle) });
    } catch (error) {
      if (users === 0) {
        await session.close();
        await dirs.clearCopy(row);
      }
      throw error;
    }
  };

  const openBase = async (row: LayerRow): Promise<Session> => {
    await dirs.makeUpper(row, ['base']);
    const dir = join(dirOf(row), 'base');
    return mount(baseKey(row), row, { sealed: uppersOf(row).base, dir });
  };

  const release = (key: string, session: Session): void => {
    void withTree(key, async () => {
      session.users--;
      if (session.users === 0) await session.close();
    });
  };

  const acquire = (
    key: string,
    open: () => Promise<Session>,
    prepare?: (session: Session) => Promise<void>,
  ): Promise<LayerUse> =>
    withTree(key, async () => {
      const session = sessions.get(key) ?? (await open());
      sessions.set(key, session);
      await prepare?.(session);
      session.users++;
      let isReleased = false;
      const { sealed, upper } = uppersOf(session.row);
      return {
        handle: String(session.layer.handle),
        user: session.user,
        written: [...sealed, upper],
        row: session.row,
        release() {
          if (!isReleased) release(key, session);
          isReleased = true;
        },
      };
    });

  const close = async (rootTaskId: string): Promise<void> => {
    await options.closeBoxes(rootTaskId);
    await sessions.get(rootTaskId)?.closed;
  };

  /** Holds each of them; all are left if one cannot be held. */
  const holdAll = async (holds: readonly (() => Promise<Leave>)[]): Promise<Leave> => {
    const held: Leave[] = [];
    const leave = (): void => {
      for (const one of held.splice(0)) one();
    };
    try {
      for (const hold of holds) held.push(await hold());
      return leave;
    } catch (error) {
      leave();
      throw error;
    }
  };

  /** The numbers of its directories that layers of subtasks are above. */
  const listBelowForks = async (row: LayerRow): Promise<number[]> =>
    (await store.listForks(treeOf(row)))
      .flatMap(({ own }) => own!.base)
      .flatMap((part) => (part.rootTaskId === row.rootTaskId ? [part.number] : []));

  const settle = async (rootTaskId: string, path: string): Promise<void> => {
    if (sessions.has(rootTaskId)) return;
    const use = await layers.view(rootTaskId, path);
    use.release();
    await sessions.get(rootTaskId)?.closed;
  };

  const forks = makeLayerForks({ ...options, dirs, settle, close });

  const layers: Layers = {
    ...dirs,
    async assertAvailable() {
      const found = (await warden.features()).get('layers') ?? 'no: the warden is an older one';
      if (!found.startsWith('no')) return;
      throw fault('level_unavailable', `layers do not work here${found.slice('no'.length)}`, {
        hint: 'Create the task with --live: its agents then write in the directory itself.',
      });
    },
    acquire: (rootTaskId, path) => acquire(rootTaskId, () => openSession(rootTaskId, path), fill),
    view: (rootTaskId, path) => acquire(rootTaskId, () => openSession(rootTaskId, path)),
    acquireBase: (row) => acquire(baseKey(row), () => openBase(row)),
    hasForks: async (row, number) => (await listBelowForks(row)).some((below) => below > number),
    find: (rootTaskId) => store.findLayer(rootTaskId),
    enter: (row) => holdAll(keysOf(row).map((key) => () => gate.enter(key))),
    async quiesce(rootTaskId) {
      const leave = await gate.hold(rootTaskId);
      try {
        await close(rootTaskId);
        return leave;
      } catch (error) {
        leave();
        throw error;
      }
    },
    quiesceForApply: ({ rootTaskId, own }) =>
      holdAll([
        ...(own === null ? [] : [() => gate.hold(own.parentId)]),
        () => layers.quiesce(rootTaskId),
      ]),
    async quiesceTree(treeId) {
      const ids = (await store.listForks(treeId)).map(({ rootTaskId }) => rootTaskId);
      return holdAll([treeId, ...ids].map((id) => () => layers.quiesce(id)));
    },
    closed: async (rootTaskId) => sessions.get(rootTaskId)?.closed,
    async refresh(rootTaskId) {
      const session = sessions.get(rootTaskId);
      if (session?.newestNs === undefined || !gate.isEmpty(rootTaskId)) return;
      if (clock.nowMs() - session.checkedMs < REFRESH_INTERVAL_MS) return;
      session.checkedMs = clock.nowMs();
      const newestNs = await findNewest(session.row.path);
      if (newestNs === undefined || newestNs === session.newestNs) return;
      if (sessions.get(rootTaskId) !== session || !gate.isEmpty(rootTaskId)) return;
      const leave = await layers.quiesce(rootTaskId);
      leave();
    },
    fork: forks.fork,
    async sweep(rootTaskId) {
      const row = await store.findLayer(rootTaskId);
      if (row === undefined) return;
      const kept = await store.findKept(rootTaskId);
      const used = [row, ...(kept === undefined ? [] : [kept])];
      const below = await listBelowForks(row);
      const shown = new Set(
        [...used.flatMap(({ sealed, number }) => [...sealed, number]), ...below].map(String),
      );
      for (const kind of ['layers', 'copies'])
        for (const name of listNames(join(dirOf(row), kind)))
          if (!shown.has(name)) await layers.remove(row, [kind, name]);
    },
  };
  return layers;
}

function listNames(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}

const baseKey = ({ rootTaskId }: LayerRow): string => `${rootTaskId} base`;

/** The layers that a reader or a change of this one concerns, the outer one first. */
export const keysOf = ({ rootTaskId, own }: LayerPlace): string[] =>
  own === null ? [rootTaskId] : [own.parentId, rootTaskId];

/** Throws when another directory came to the path: the changes mean nothing in it. */
function assertSameDirectory({ path, directoryId }: LayerRow): void {
  const now = readDirectoryId(path);
  // A directory that this user cannot see is granted by its device and inode.
  if (directoryId === null || now === null || now === directoryId) return;
  throw fault('conflict', `${path} is not the directory that the task works in`, {
    hint: 'Move that one back to its path, or create a new task.',
  });
}

/** Returns device and inode, as boxfs formats them; null when this user has no access. */
function readDirectoryId(path: string): string | null {
  try {
    const { dev, ino } = lstatSync(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch {
    return null;
  }
}
