// The layers of task trees: agents see a person's directory, and what they write goes to a
// directory of the state. One is mounted while boxes of its tree use it, and anew for the next box,
// which makes visible what the person has changed meanwhile.
import { lstatSync, mkdirSync, readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { makeKeyedMutex } from '../../platform/mutex.ts';
import { fault } from '../../wire/errors.ts';
import type { OpenedLayer, Warden } from './adapters/warden.ts';
import type { HostUser } from './identities.ts';
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

export type Layers = {
  /** Throws `level_unavailable` with the reason where this host cannot mount a layer. */
  assertAvailable(): Promise<void>;
  /** The first call for a tree fixes its directory. The layer stays open until all are released. */
  acquire(rootTaskId: string, path: string): Promise<LayerUse>;
  find(rootTaskId: string): Promise<LayerRow | undefined>;
  /** Holds the tree's commands and closes its boxes and its layer, for a change below it. */
  quiesce(rootTaskId: string): Promise<Leave>;
  /** Resolves when its layer is closed, after all who used it have released it. */
  closed(rootTaskId: string): Promise<void>;
  /** Closes the tree's boxes if nothing runs in them and the person has changed the directory. */
  refresh(rootTaskId: string): Promise<void>;
  /** Makes the next directory for changes, and resolves to the time from which it counts. */
  makeNext(row: LayerRow): Promise<bigint>;
  /** Makes what was written so far a part of what is below; new changes go to a new directory. */
  seal(rootTaskId: string): Promise<void>;
  /** Deletes directories that no layer shows any more, and no undo returns to. */
  sweep(rootTaskId: string): Promise<void>;
  /** Deletes what a crash has left of removed directories. */
  sweepRemoved(): Promise<void>;
  /** Deletes a part of the tree's own directory. */
  remove(rootTaskId: string, parts: readonly string[]): Promise<void>;
  /** Makes a directory of the tree's user in the tree's own directory. */
  makeOwned(row: LayerRow, parts: readonly string[]): Promise<string>;
  dirOf(rootTaskId: string): string;
  /** The user of all boxes of the tree. */
  userOf(rootTaskId: string): Promise<HostUser>;
  uppersOf(row: UpperNumbers): { sealed: string[]; upper: string };
};

type UpperNumbers = Pick<LayerRow, 'rootTaskId' | 'number' | 'sealed'>;

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

/** A removed part of a tree's directory, as `remove` names it; a whole one is tree-files.ts'. */
const REMOVED = /^\.pruned-[^-]+-(layers|undo)-/;
const REFRESH_INTERVAL_MS = 1_000;
/** The time between two ticks of a kernel, at most 10 ms, and some more. */
const TICK_MS = 15;

export function makeLayers(options: {
  /** Without links. */
  stateDir: string;
  store: Pick<SandboxdStore, 'findLayer' | 'findKept' | 'addLayer' | 'renewLayer'>;
  workspaces: Pick<Workspaces, 'check' | 'groupFor'>;
  warden: Pick<Warden, 'features' | 'layer' | 'chown' | 'newest' | 'deleteTree'>;
  gate: TreeGate;
  /** Boxes have their own users, to which the warden must chown files. */
  ownUsers: boolean;
  /** The user of all boxes otherwise. */
  host: HostUser;
  closeBoxes: (rootTaskId: string) => Promise<void>;
  clock: Clock;
  log: Log;
}): Layers {
  const { store, workspaces, warden, gate, clock, log } = options;
  const withTree = makeKeyedMutex();
  const sessions = new Map<string, Session>();

  const dirOf = (id: string): string => join(options.stateDir, 'workspaces', id);
  const layerDir = (id: string, number: number): string =>
    join(dirOf(id), 'layers', String(number));

  const userFor = async (rootTaskId: string): Promise<HostUser> => {
    const gid = await workspaces.groupFor(rootTaskId);
    return options.ownUsers ? { uid: gid, gid } : { uid: options.host.uid, gid: options.host.gid };
  };

  const makeOwnedDir = async (rootTaskId: string, parts: readonly string[]): Promise<string> => {
    const path = join(dirOf(rootTaskId), ...parts);
    mkdirSync(path, { recursive: true, mode: 0o700 });
    const user = await userFor(rootTaskId);
    if (options.ownUsers) await warden.chown({ path, ...user });
    return path;
  };

  const makeLayerDir = async (rootTaskId: string, number: number): Promise<bigint> => {
    for (const part of ['work', 'upper'])
      await makeOwnedDir(rootTaskId, ['layers', String(number), part]);
    return lstatSync(layerDir(rootTaskId, number), { bigint: true }).ctimeNs;
  };

  /**
   * Resolves to the file system's time, from which changes by a person count. What was written
   * before is older, because file systems do not tell times within a tick apart.
   */
  const beginLayerDir = async (rootTaskId: string, number: number): Promise<bigint> => {
    await new Promise<void>((resolve) => clock.at(clock.nowMs() + TICK_MS, resolve));
    return makeLayerDir(rootTaskId, number);
  };

  const findOrAdd = async (rootTaskId: string, path: string): Promise<LayerRow> => {
    const found = await store.findLayer(rootTaskId);
    if (found !== undefined && found.path === path) return found;
    await workspaces.check(path);
    const beganNs = await beginLayerDir(rootTaskId, 1);
    return store.addLayer({ rootTaskId, path, directoryId: readDirectoryId(path), beganNs });
  };

  const uppersOf = (row: UpperNumbers) => {
    const upperOf = (number: number) => join(layerDir(row.rootTaskId, number), 'upper');
    return { sealed: row.sealed.map(upperOf), upper: upperOf(row.number) };
  };

  /** Undefined where the directory is too large to be searched. */
  const findNewest = async (path: string): Promise<bigint | undefined> =>
    warden.newest(path).catch(() => undefined);

  const openSession = async (rootTaskId: string, path: string): Promise<Session> => {
    const row = await findOrAdd(rootTaskId, path);
    await workspaces.check(path);
    assertSameDirectory(row);
    await makeLayerDir(rootTaskId, row.number);
    const user = await userFor(rootTaskId);
    const newestNs = await findNewest(path);
    const layer = await warden.layer({
      ...user,
      lower: path,
      sealed: uppersOf(row).sealed,
      dir: layerDir(rootTaskId, row.number),
    });
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
        if (sessions.get(rootTaskId) === session) sessions.delete(rootTaskId);
        await layer
          .close()
          .catch((error: unknown) => log.warn('closing a layer failed', { error }));
        closed.resolve();
      },
    };
    void layer.ended.then(() => {
      closed.resolve();
      if (sessions.get(rootTaskId) !== session) return;
      sessions.delete(rootTaskId);
      log.warn('a layer was lost, and its boxes are closed', { task: rootTaskId });
      void options.closeBoxes(rootTaskId);
    });
    return session;
  };

  const release = (rootTaskId: string, session: Session): void => {
    void withTree(rootTaskId, async () => {
      session.users--;
      if (session.users === 0) await session.close();
    });
  };

  const layers: Layers = {
    async assertAvailable() {
      const found = (await warden.features()).get('layers') ?? 'no: the warden is an older one';
      if (!found.startsWith('no')) return;
      throw fault('level_unavailable', `layers do not work here${found.slice('no'.length)}`, {
        hint: 'Create the task with --live: its agents then write in the directory itself.',
      });
    },
    acquire: (rootTaskId, path) =>
      withTree(rootTaskId, async () => {
        const session = sessions.get(rootTaskId) ?? (await openSession(rootTaskId, path));
        sessions.set(rootTaskId, session);
        session.users++;
        let isReleased = false;
        return {
          handle: String(session.layer.handle),
          user: session.user,
          written: [...uppersOf(session.row).sealed, uppersOf(session.row).upper],
          row: session.row,
          release() {
            if (!isReleased) release(rootTaskId, session);
            isReleased = true;
          },
        };
      }),
    find: (rootTaskId) => store.findLayer(rootTaskId),
    async quiesce(rootTaskId) {
      const leave = await gate.hold(rootTaskId);
      try {
        await options.closeBoxes(rootTaskId);
        await layers.closed(rootTaskId);
        return leave;
      } catch (error) {
        leave();
        throw error;
      }
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
    async makeNext({ rootTaskId, number }) {
      // One that a crash, or an undo, has left there.
      await layers.remove(rootTaskId, ['layers', String(number + 1)]);
      return beginLayerDir(rootTaskId, number + 1);
    },
    async seal(rootTaskId) {
      const leave = await layers.quiesce(rootTaskId);
      try {
        const row = await store.findLayer(rootTaskId);
        if (row === undefined) return;
        await layers.makeNext(row);
        const sealed = [...row.sealed, row.number];
        // Changes in it count from when the oldest began.
        await store.renewLayer(rootTaskId, { sealed, beganNs: row.beganNs });
      } finally {
        leave();
      }
    },
    async sweep(rootTaskId) {
      const row = await store.findLayer(rootTaskId);
      if (row === undefined) return;
      const kept = await store.findKept(rootTaskId);
      const used = [row, ...(kept === undefined ? [] : [kept])];
      const shown = new Set(used.flatMap(({ sealed, number }) => [...sealed, number]).map(String));
      const all = readdirSync(join(dirOf(rootTaskId), 'layers'));
      for (const name of all.filter((number) => !shown.has(number)))
        await layers.remove(rootTaskId, ['layers', name]);
    },
    async sweepRemoved() {
      const top = join(options.stateDir, 'workspaces');
      for (const name of readdirSync(top).filter((entry) => REMOVED.test(entry)))
        await warden.deleteTree(join(top, name));
    },
    async remove(rootTaskId, parts) {
      // The warden deletes only what lies directly in STATE/workspaces.
      const name = `.pruned-${rootTaskId}-${parts.join('-')}`;
      const removed = join(options.stateDir, 'workspaces', name);
      try {
        renameSync(join(dirOf(rootTaskId), ...parts), removed);
      } catch (error) {
        // It never was, or a crash came between this and what follows.
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      }
      await warden.deleteTree(removed);
    },
    makeOwned: (row, parts) => makeOwnedDir(row.rootTaskId, parts),
    dirOf,
    userOf: userFor,
    uppersOf,
  };
  return layers;
}

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
