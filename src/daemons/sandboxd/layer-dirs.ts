// The directories of layers in the state: where each is, whose it is, and how a part of one is
// removed. The one of a subtask lies in that of its tree.
import { lstatSync, mkdirSync, readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../platform/clock.ts';
import type { Warden } from './adapters/warden.ts';
import type { HostUser } from './identities.ts';
import type { LayerRow } from './layer-rows.ts';
import type { Workspaces } from './workspaces.ts';

export type LayerPlace = Pick<LayerRow, 'rootTaskId' | 'own'>;
export type UpperNumbers = LayerPlace & Pick<LayerRow, 'number' | 'sealed'>;
type Copied = UpperNumbers & Pick<LayerRow, 'copies'>;

export type LayerDirs = {
  dirOf(place: LayerPlace): string;
  layerDir(place: LayerPlace, number: number): string;
  userFor(place: LayerPlace): Promise<HostUser>;
  /** Makes a directory of the tree's user in the layer's own directory. */
  makeOwned(place: LayerPlace, parts: readonly string[]): Promise<string>;
  /** Makes one that takes changes. */
  makeUpper(place: LayerPlace, parts: readonly string[]): Promise<void>;
  /** Makes the one of a number, and resolves to the time from which it counts. */
  begin(place: LayerPlace, number: number): Promise<bigint>;
  /** Makes the next one for changes; likewise. */
  makeNext(row: LayerRow): Promise<bigint>;
  /** `base`: of other layers of the tree; all are oldest first. */
  uppersOf(row: UpperNumbers): { base: string[]; sealed: string[]; upper: string };
  /** Where boxfs finds what was written: the directory itself; of a copy, its record. */
  recordDir(row: Copied): string;
  /** Empties the directory of a copy that was not finished. */
  clearCopy(row: UpperNumbers): Promise<void>;
  /** Nothing was written to it, so the directory need not be looked at. */
  isUntouched(row: LayerRow): Promise<boolean>;
  /** Deletes a part of the layer's own directory. */
  remove(place: LayerPlace, parts: readonly string[]): Promise<void>;
  /** Deletes what a crash has left of removed directories. */
  sweepRemoved(): Promise<void>;
};

/** A removed part of a tree's directory, as `remove` names it; a whole one is tree-files.ts'. */
const REMOVED = /^\.pruned-[^-]+-(layers|undo|copies)-/;
/** The time between two ticks of a kernel, at most 10 ms, and some more. */
const TICK_MS = 15;

export const treeOf = ({ rootTaskId, own }: LayerPlace): string => own?.treeId ?? rootTaskId;

/** False for an overlay, and for a copy that is not made, or not finished. */
export const hasCopy = ({ copies, number }: Pick<LayerRow, 'copies' | 'number'>): boolean =>
  copies?.[number] !== undefined;

export function makeLayerDirs(options: {
  /** Without links. */
  stateDir: string;
  workspaces: Pick<Workspaces, 'groupFor'>;
  warden: Pick<Warden, 'chown' | 'deleteTree' | 'measure'>;
  /** Boxes have their own users, to which the warden must chown files. */
  ownUsers: boolean;
  /** The user of all boxes otherwise. */
  host: HostUser;
  clock: Clock;
}): LayerDirs {
  const { workspaces, warden, clock } = options;

  const dirOf = ({ rootTaskId, own }: LayerPlace): string =>
    own === null
      ? join(options.stateDir, 'workspaces', rootTaskId)
      : join(options.stateDir, 'workspaces', own.treeId, 'own', rootTaskId);
  const layerDir = (place: LayerPlace, number: number): string =>
    join(dirOf(place), 'layers', String(number));

  const userFor = async (place: LayerPlace): Promise<HostUser> => {
    const gid = await workspaces.groupFor(treeOf(place));
    return options.ownUsers ? { uid: gid, gid } : { uid: options.host.uid, gid: options.host.gid };
  };

  const makeOwned = async (place: LayerPlace, parts: readonly string[]): Promise<string> => {
    const path = join(dirOf(place), ...parts);
    mkdirSync(path, { recursive: true, mode: 0o700 });
    const user = await userFor(place);
    if (options.ownUsers) await warden.chown({ path, ...user });
    return path;
  };

  /** One that takes changes has two directories. */
  const makeUpper = async (place: LayerPlace, parts: readonly string[]): Promise<void> => {
    for (const part of ['work', 'upper']) await makeOwned(place, [...parts, part]);
  };

  /**
   * Resolves to the file system's time, from which changes by a person count. What was written
   * before is older, because file systems do not tell times within a tick apart.
   */
  const begin = async (place: LayerPlace, number: number): Promise<bigint> => {
    await new Promise<void>((resolve) => clock.at(clock.nowMs() + TICK_MS, resolve));
    await makeUpper(place, ['layers', String(number)]);
    return lstatSync(layerDir(place, number), { bigint: true }).ctimeNs;
  };

  const upperOf = (place: LayerPlace, number: number): string =>
    join(layerDir(place, number), 'upper');
  const uppersOf = (row: UpperNumbers) => ({
    base: (row.own?.base ?? []).map(({ rootTaskId, number }) => {
      const own = rootTaskId === row.own!.treeId ? null : row.own;
      return upperOf({ rootTaskId, own }, number);
    }),
    sealed: row.sealed.map((number) => upperOf(row, number)),
    upper: upperOf(row, row.number),
  });

  const dirs: LayerDirs = {
    dirOf,
    layerDir,
    userFor,
    makeOwned,
    makeUpper,
    begin,
    async makeNext(row) {
      // One that a crash, or an undo, has left there.
      for (const kind of ['layers', 'copies'])
        await dirs.remove(row, [kind, String(row.number + 1)]);
      return begin(row, row.number + 1);
    },
    uppersOf,
    recordDir: (row) =>
      hasCopy(row)
        ? join(dirOf(row), 'copies', String(row.number), 'record')
        : upperOf(row, row.number),
    async clearCopy(row) {
      for (const kind of ['layers', 'copies']) await dirs.remove(row, [kind, String(row.number)]);
      await makeUpper(row, ['layers', String(row.number)]);
    },
    async isUntouched(row) {
      if (row.copies !== null) return !hasCopy(row);
      if (row.own !== null || row.sealed.length > 0) return false;
      return (await warden.measure(upperOf(row, row.number))).entries === 0;
    },
    async sweepRemoved() {
      const top = join(options.stateDir, 'workspaces');
      for (const name of readdirSync(top).filter((entry) => REMOVED.test(entry)))
        await warden.deleteTree(join(top, name));
    },
    async remove(row, parts) {
      // The warden deletes only what lies directly in STATE/workspaces.
      const name = `.pruned-${row.rootTaskId}-${parts.join('-')}`;
      const removed = join(options.stateDir, 'workspaces', name);
      try {
        renameSync(join(dirOf(row), ...parts), removed);
      } catch (error) {
        // It never was, or a crash came between this and what follows.
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      }
      await warden.deleteTree(removed);
    },
  };
  return dirs;
}
