// Plans the box of a run: its user, its mounts and its limits, from the run's rules and the
// workspace of its task tree.
import { runDirName, socketPathFor } from '../../platform/daemon.ts';
import { MODEL_PORT } from '../../policy/box-models.ts';
import { isWithin } from '../../policy/paths.ts';
import { fault } from '../../wire/errors.ts';
import type { BoxId } from '../../wire/primitives.ts';
import type { BoxRules, OpenBoxBody } from '../../wire/sandboxd.ts';
import { pathExists } from './adapters/host-paths.ts';
import { findAliases, readMounts } from './adapters/mount-aliases.ts';
import type { Bind, BoxPlan, Relay } from './adapters/plan.ts';
import { boxLimits } from './box-limits.ts';
import type { SandboxdConfig } from './config.ts';
import type { Identities, Identity } from './identities.ts';
import type { Layers, LayerUse } from './layers.ts';
import type { LivePlace } from './live-rows.ts';
import { boxBinds, fitsLayer, hostBinds, type Places, programBinds, toOwned } from './rules.ts';
import type { SandboxdStore } from './store.ts';
import type { Workspaces } from './workspaces.ts';

export type BoxOwner = Pick<
  OpenBoxBody,
  | 'run_id'
  | 'fence'
  | 'agent'
  | 'task_id'
  | 'root_task_id'
  | 'workspace_path'
  | 'workspace_mode'
  | 'layer_task_id'
  | 'is_program'
  | 'programs'
  | 'home_id'
>;
export type PlannedBox = {
  plan: BoxPlan;
  home: string;
  /** Declared paths that do not exist on this host. */
  missing: string[];
  /** Host directories that it can write. */
  writes: string[];
  /** A person's directory that it changes in place. */
  live: LivePlace | undefined;
  /** Must be called when the box has ended, or was not opened. */
  release(): void;
};
export type PlanBox = (
  id: BoxId,
  body: BoxOwner & Pick<OpenBoxBody, 'rules' | 'network'>,
  level: 'L1' | 'L2',
) => Promise<PlannedBox>;

/** Some programs unpack themselves there. It counts as memory of the box. */
const PROGRAM_TMP: Bind = { kind: 'tmpfs', dst: '/tmp', sizeKib: 1_048_576 };

/** The files that a box works on, and as whom. */
type Ground = {
  user: { uid: number; gid: number };
  /** The host directory behind /workspace. */
  workspace: string;
  /** Where its writes go. */
  written: string[];
  layer?: string;
  /** Its files appear as the agent's, and are their owner's. */
  isOwned?: boolean;
  release(): void;
};

/** A directory in which a person asked agents to work on a layer. */
export function findLayerPath(owner: BoxOwner): string | undefined {
  return owner.workspace_mode === 'layer' ? owner.workspace_path : undefined;
}

/** Returns the task whose layer it is, if there is one. */
export const findLayerId = ({ root_task_id, layer_task_id }: BoxOwner): string =>
  layer_task_id ?? root_task_id;

/** True if what its changes began from is kept: not for a layer that a subtask has for itself. */
export const hasTreeLayer = (owner: BoxOwner): boolean =>
  findLayerPath(owner) !== undefined && findLayerId(owner) === owner.root_task_id;

export function makeBoxPlanner(options: {
  config: SandboxdConfig;
  identities: Pick<Identities, 'identityFor'>;
  workspaces: Pick<Workspaces, 'workspaceFor' | 'homeFor' | 'keptHomeFor'>;
  layers: Pick<Layers, 'acquire' | 'find'>;
  store: Pick<SandboxdStore, 'recordWrites'>;
  system: readonly Bind[];
  secrets: () => readonly string[];
  runtimeDir: string;
}): PlanBox {
  const { config, identities, workspaces, layers, store } = options;

  /** That of a subtask was made before the task. */
  const acquireLayer = async (body: BoxOwner, path: string): Promise<LayerUse> => {
    const id = findLayerId(body);
    if (id !== body.root_task_id && (await layers.find(id)) === undefined)
      throw fault('not_found', `${id} has no layer of its own`);
    return layers.acquire(id, path);
  };

  const prepareGround = async (
    body: BoxOwner & Pick<OpenBoxBody, 'rules'>,
    level: 'L1' | 'L2',
    uid: number,
  ): Promise<Ground> => {
    const layerPath = findLayerPath(body);
    if (layerPath === undefined) {
      const { upper, gid, isGranted } = await workspaces.workspaceFor({
        rootTaskId: body.root_task_id,
        path: body.workspace_path,
      });
      const release = () => undefined;
      const user = { uid, gid };
      const isOwned = isGranted && level === 'L2';
      return { user, workspace: upper, written: [upper], isOwned, release };
    }
    assertFitsLayer(body.rules, level);
    const use = await acquireLayer(body, layerPath);
    const { user, handle: layer, written, release } = use;
    return { user, workspace: layerPath, written, layer, release };
  };

  const makeHome = (
    { agent, root_task_id, home_id }: BoxOwner,
    identity: Identity,
    owner: Identity,
  ): Promise<string> =>
    // A layered tree may have a user of its own, whose files no other tree can use.
    home_id === undefined || owner.uid !== identity.uid
      ? workspaces.homeFor(agent, root_task_id, owner)
      : workspaces.keptHomeFor(agent, home_id, owner);

  const planOn = async (
    ground: Ground & { home: string },
    id: BoxId,
    body: BoxOwner & Pick<OpenBoxBody, 'rules' | 'network'>,
    level: 'L1' | 'L2',
  ): Promise<Omit<PlannedBox, 'release'>> => {
    const { agent, root_task_id } = body;
    const identity = await identities.identityFor(agent);
    const homeAt = `/home/${agent}`;
    const mounts = readMounts();
    const places: Places = {
      system: options.system,
      workspace: ground.workspace,
      home: ground.home,
      homeAt,
      secrets: options.secrets(),
      aliases: (path) => findAliases(path, mounts),
      ...(ground.layer === undefined ? {} : { layer: ground.layer }),
      isGitFree: body.is_program === true && body.workspace_path === undefined,
    };
    const { binds: plain, missing } =
      level === 'L2' ? boxBinds(body.rules, places, pathExists) : bindOnHost(body.rules, places);
    const owned = ground.isOwned ? plain.map((bind) => toOwned(bind, ground.workspace)) : plain;
    const programs = programBinds(body.programs ?? [], body.rules, places.secrets);
    const binds = [...(body.is_program === true ? [PROGRAM_TMP] : []), ...programs, ...owned];
    const { egress_socket } = body.network;
    const home = binds.some(({ kind, dst }) => kind === 'rw' && dst === homeAt) ? homeAt : '/tmp';
    const plan: BoxPlan = {
      id,
      level: level === 'L2' ? 2 : 1,
      profile: 'tool',
      ...ground.user,
      user: identity.user,
      binds,
      limits: boxLimits(config, body.rules),
      ...(egress_socket === null ? {} : { egress: egress_socket }),
      ...(body.is_program === true
        ? { relays: [modelRelay(body)], terminals: true, procEntries: true }
        : {}),
    };
    const writes = binds.flatMap(({ kind, src, readonly }) => {
      if (kind === 'layer') return readonly === true ? [] : ground.written;
      return kind === 'rw' && src !== undefined ? [src] : [];
    });
    const own = [ground.workspace, ...ground.written, places.home];
    const outside = writes.filter((path) => !own.some((dir) => isWithin(path, dir)));
    if (outside.length > 0) await store.recordWrites(root_task_id, outside);
    return { plan, home, missing, writes, live: findLivePlace(ground, body) };
  };

  /** The listener is the identity: behind the port is the socket of this run, and of no other. */
  const modelRelay = ({ run_id: runId, fence }: BoxOwner): Relay => ({
    port: MODEL_PORT,
    socket: socketPathFor(options.runtimeDir, 'modeld', runDirName({ runId, fence })),
  });

  return async (id, body, level) => {
    const identity = await identities.identityFor(body.agent);
    // All boxes of a layered tree are one user's, which is not known yet.
    const early =
      findLayerPath(body) === undefined ? makeHome(body, identity, identity) : undefined;
    early?.catch(() => undefined);
    const ground = await prepareGround(body, level, identity.uid);
    try {
      const home = await (early ?? makeHome(body, identity, { ...identity, ...ground.user }));
      return { ...(await planOn({ ...ground, home }, id, body, level)), release: ground.release };
    } catch (error) {
      ground.release();
      throw error;
    }
  };
}

function findLivePlace(ground: Ground, body: BoxOwner): LivePlace | undefined {
  if (body.workspace_path === undefined || ground.layer !== undefined) return undefined;
  const { root_task_id: rootTaskId, task_id: taskId, run_id: runId, agent } = body;
  const { workspace: path, isOwned = false, user } = ground;
  return { rootTaskId, taskId, runId, agent, path, isOwned, ...user };
}

function assertFitsLayer(rules: BoxRules, level: 'L1' | 'L2'): void {
  const hint = 'Ask for L2, or create the task with --live: agents then write in the directory.';
  if (level === 'L1')
    throw fault('level_unavailable', 'L1 uses the host directly, and would bypass the layer', {
      hint,
    });
  if (fitsLayer(rules)) return;
  throw fault('level_unavailable', 'rules that open only parts of /workspace have no layer', {
    hint: 'Open /workspace as a whole and deny parts of it, or create the task with --live.',
  });
}

function bindOnHost(rules: BoxRules, places: Places): { binds: Bind[]; missing: string[] } {
  const { needLevel2, ...shown } = hostBinds(rules, places, pathExists);
  if (needLevel2.length === 0) return shown;
  throw fault('level_unavailable', `L1 cannot hide or protect paths: ${needLevel2.join(', ')}`, {
    hint: 'Ask for L2.',
  });
}
