// Boxes in which boxfs works on a layer for a person: to list and show its changes, or to write
// them into the directory. They run as the tree's user, without network, and no agent's program.
import type { NewId } from '../../platform/ids.ts';
import type { BoxId } from '../../wire/primitives.ts';
import type { BoxfsClient } from './adapters/boxfs-client.ts';
import type { Bind } from './adapters/plan.ts';
import type { Warden } from './adapters/warden.ts';
import { boxLimits } from './box-limits.ts';
import type { SandboxdConfig } from './config.ts';
import type { WithBoxfs } from './layer-boxfs.ts';
import type { GitPlace } from './layer-git.ts';
import { PLACES } from './layer-places.ts';
import type { LayerRow } from './layer-rows.ts';
import type { Layers, LayerUse } from './layers.ts';

/** Host directories of an apply; both belong to the tree's user. */
export type ApplyDirs = { staging: string; undo: string };

/** Where git runs: each of these in a box that has nothing else of the other. */
export type GitPlaces = { layer: GitPlace; target: GitPlace };

export type LayerBoxes = {
  /** The layer beside what is below it; for one of a subtask, the target as well. Read-only. */
  withReview<T>(row: LayerRow, work: (boxfs: BoxfsClient) => Promise<T>): Promise<T>;
  /** That, the layer to write to, and its target: the directory, or the layer of the parent. */
  withApply<T>(
    row: LayerRow,
    dirs: ApplyDirs,
    work: (boxfs: BoxfsClient) => Promise<T>,
  ): Promise<T>;
  /** Boxes for git: one has the layer, read-only; one the directory and `scratch`, to write to. */
  withGit<T>(row: LayerRow, scratch: string, work: (git: GitPlaces) => Promise<T>): Promise<T>;
};

type Ground = { binds: Bind[]; target: Bind; release(): void };

/** The warden starts programs by absolute paths; this one looks in PATH. */
const FIND = '/usr/bin/env';
const GIT_WALL_MS = 600_000;
const RULES = { read: [], write: [], deny: [] };

export function makeLayerBoxes(options: {
  config: SandboxdConfig;
  layers: Pick<Layers, 'view' | 'acquireBase' | 'uppersOf' | 'recordDir'>;
  warden: Pick<Warden, 'open'>;
  withBoxfs: WithBoxfs;
  /** The programs of agentd and of the host. */
  system: readonly Bind[];
  newId: NewId;
}): LayerBoxes {
  const { config, layers, warden } = options;

  /** Binds what lies below the layer, and what its changes are applied to. */
  const openGround = async (row: LayerRow, isWritten: boolean): Promise<Ground> => {
    const below: Bind = { kind: 'ro', src: row.path, dst: PLACES.lower, owned: true };
    const target: Bind = { kind: 'rw', src: row.path, dst: PLACES.target, owned: true };
    if (row.own === null)
      return { binds: isWritten ? [below, target] : [below], target, release: () => undefined };
    const uses = [await layers.view(row.own.parentId, row.path)];
    const release = (): void => {
      for (const use of uses) use.release();
    };
    try {
      const parent = toLayerBind(uses[0]!, PLACES.target, !isWritten);
      if (row.own.base.length === 0) return { binds: [below, parent], target: parent, release };
      uses.push(await layers.acquireBase(row));
      const base = toLayerBind(uses[1]!, PLACES.lower, true);
      return { binds: [base, parent], target: parent, release };
    } catch (error) {
      release();
      throw error;
    }
  };

  const bindsFor = (use: LayerUse, isReadonly: boolean): Bind[] => [
    toLayerBind(use, PLACES.merged, isReadonly),
    { kind: 'ro', src: layers.recordDir(use.row), dst: PLACES.upper },
  ];

  const withBox = <T>(
    use: LayerUse,
    shown: readonly Bind[],
    work: (boxfs: BoxfsClient) => Promise<T>,
  ): Promise<T> =>
    options.withBoxfs(use.user, shown, (boxfs) =>
      work(use.row.copies === null ? boxfs : toCopyClient(boxfs, use.row)),
    );

  const withGitPlace = async <T>(
    use: LayerUse,
    { top, binds, ownerRights }: { top: string; binds: readonly Bind[]; ownerRights: boolean },
    work: (place: GitPlace) => Promise<T>,
  ): Promise<T> => {
    const limits = boxLimits(config, RULES);
    const box = await warden.open({
      id: options.newId<BoxId>('box'),
      level: 2,
      profile: 'tool',
      ...use.user,
      user: 'agent-layer',
      binds: [...options.system.filter(isProgram), ...binds],
      ownerRights,
      limits,
    });
    const wallMs = GIT_WALL_MS;
    const exec: GitPlace['box']['exec'] = (command) =>
      box.exec({ ...command, args: [FIND, ...command.args], limits: { ...limits, wallMs } });
    return work({ box: { exec }, top }).finally(() => box.close());
  };

  const withGround = async <T>(
    row: LayerRow,
    isWritten: boolean,
    work: (use: LayerUse, ground: Ground) => Promise<T>,
  ): Promise<T> => {
    const use = await layers.view(row.rootTaskId, row.path);
    try {
      const ground = await openGround(row, isWritten);
      return await work(use, ground).finally(ground.release);
    } finally {
      use.release();
    }
  };

  /** Where owners cannot be mapped (then it is a copy), what git has made is not hers yet. */
  const giveToOwner = async ({ row, user }: LayerUse, { target }: Ground): Promise<void> => {
    if (row.copies === null || target.kind === 'layer') return;
    const dir = `${PLACES.target}/.git`;
    await options.withBoxfs(user, [target], (boxfs) => boxfs.giveToOwner(dir));
  };

  return {
    withReview: (row, work) =>
      withGround(row, false, (use, { binds }) =>
        withBox(use, [...bindsFor(use, true), ...binds], work),
      ),
    withApply: (row, dirs, work) =>
      withGround(row, true, (use, { binds }) =>
        withBox(
          use,
          [
            // Writable for what was merged.
            ...bindsFor(use, false),
            ...binds,
            { kind: 'rw', src: dirs.staging, dst: PLACES.staging },
            { kind: 'rw', src: dirs.undo, dst: PLACES.undo },
          ],
          work,
        ),
      ),
    withGit: (row, scratch, work) =>
      withGround(row, true, (use, ground) => {
        const shown = toLayerBind(use, PLACES.merged, true);
        const changed: Bind[] = [ground.target, { kind: 'rw', src: scratch, dst: PLACES.scratch }];
        const ofLayer = { top: PLACES.merged, binds: [shown], ownerRights: false };
        const ofTarget = { top: PLACES.target, binds: changed, ownerRights: true };
        return withGitPlace(use, ofLayer, (layer) =>
          withGitPlace(use, ofTarget, (target) => work({ layer, target })),
        ).finally(() => giveToOwner(use, ground));
      }),
  };
}

/** Settings of the host are none of its business. */
const isProgram = ({ dst }: Bind): boolean => !dst.startsWith('/etc/');

const toLayerBind = ({ handle }: LayerUse, dst: string, readonly: boolean): Bind => ({
  kind: 'layer',
  src: handle,
  dst,
  readonly,
});

/** A copy whose making has not begun has no changes. */
function toCopyClient(boxfs: BoxfsClient, row: LayerRow): BoxfsClient {
  const isMade = row.copies?.[row.number] !== undefined;
  return {
    ...boxfs,
    async *listChanges(places, ...page) {
      if (isMade) yield* boxfs.listChanges({ ...places, isCopy: true }, ...page);
    },
  };
}
