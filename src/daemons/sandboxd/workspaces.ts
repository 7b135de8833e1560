// Creates the directories of task trees and agents, and sets their owners. A workspace is a list of
// read-only layers and one upper; at present there are no layers.
import { mkdirSync, realpathSync } from 'node:fs';
import { lstat, realpath, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { quoteWord } from '../../platform/quote-word.ts';
import { isWithin } from '../../policy/paths.ts';
import { Fault, fault } from '../../wire/errors.ts';
import type { Warden } from './adapters/warden.ts';
import type { SandboxdConfig } from './config.ts';
import type { PathAlias } from './error-paths.ts';
import type { Identity } from './identities.ts';
import { WORKSPACE } from './rules.ts';
import type { SandboxdStore } from './store.ts';
import type { Range, WorkspaceUse } from './workspace-rows.ts';

/** `layers` are read-only, lowest first; writes go to `upper`. */
export type Workspace = {
  layers: readonly string[];
  upper: string;
  gid: number;
  /** A person's directory: agents appear as its owner, and nothing in it gets their group. */
  isGranted: boolean;
};

/** `reason`: why the group is not free yet. */
export type WorkspaceRelease = { freed: boolean; reason: string | null };

export type Workspaces = {
  check(path: string): Promise<void>;
  /** The same for every agent of the task tree. */
  workspaceFor(task: { rootTaskId: string; path?: string | undefined }): Promise<Workspace>;
  /** Returns the group of a task tree that works on a layer over some directory. */
  groupFor(rootTaskId: string): Promise<number>;
  /**
   * One per task tree: files that outside text made an agent write in one task are not there in the
   * next.
   */
  homeFor(agent: string, rootTaskId: string, identity: Identity): Promise<string>;
  /** A home that programs of people find again, until none has used it for a time. */
  keptHomeFor(agent: string, id: string, identity: Identity): Promise<string>;
  /**
   * Forgets a task tree whose tasks are all deleted, and frees its group for another tree. Until
   * its own directories are gone, and no file with the group is left where else its boxes could
   * write, the group stays with it: another tree could read and change those files.
   */
  release(rootTaskId: string): Promise<WorkspaceRelease>;
  /** Returns the host paths of both, with their names in the agent's box. */
  pathAliases(box: { agent: string; rootTaskId: string; path?: string | undefined }): PathAlias[];
};

/** Trees whose directories are known to be made; the least recently used are forgotten first. */
const KNOWN_MAX = 1_000;

/** Returns the gids that task trees can get. */
export function treeGids(config: Pick<SandboxdConfig, 'gid_first' | 'gid_last'>): Range {
  return { first: config.gid_first, last: config.gid_last };
}

export function makeWorkspaces(options: {
  stateDir: string;
  config: SandboxdConfig;
  store: Pick<
    SandboxdStore,
    'workspace' | 'recordWrites' | 'workspaceUse' | 'freeWorkspace' | 'delayRelease' | 'nextDelayed'
  >;
  /** Boxes have their own users, to which the warden must chown files. */
  ownUsers: boolean;
  warden: Pick<Warden, 'chown' | 'measure' | 'assertGranted'>;
  gid: number;
  /** Host paths with people's keys, and agentd's own. */
  secrets: () => readonly string[];
  clock: Pick<Clock, 'nowMs'>;
  log: Log;
}): Workspaces {
  const { config, store, ownUsers, warden, log } = options;
  const stateDir = realpathSync(options.stateDir);
  const range = treeGids(config);
  /** In the order of their last use. */
  const known = new Map<string, Promise<Workspace>>();

  /** A directory above a secret is mounted without it; one inside a secret is denied. */
  const assertAllowed = async (path: string): Promise<void> => {
    if (options.secrets().some((secret) => isWithin(path, secret)))
      throw fault('denied', `${path} may not be used as a workspace: keys are kept there`, {
        hint: 'Work in another directory.',
      });
    assertNormalized(path);
    const roots = config.workspace_roots;
    // A person's directory may be one that this process cannot see: the warden decides alone.
    if (roots.length === 0) return assertGranted(path);
    assertInRoots(path, roots);
    await assertInPlace(path);
  };
  const assertGranted = (path: string): Promise<void> =>
    warden.assertGranted(path).catch((error: unknown) => {
      if (!(error instanceof Fault) || error.code !== 'denied') throw error;
      throw fault('denied', `agents may not work in ${path}: ${describeRefusal(error)}`, {
        hint: `Let them, as the owner of the directory: agentctl workspace grant ${quoteWord(path)}`,
        details: { workspace: 'not_granted', path },
        cause: error,
      });
    });

  const makeWorkspace = async (
    rootTaskId: string,
    path: string | undefined,
  ): Promise<Workspace> => {
    if (path !== undefined) await assertAllowed(path);
    const row = await store.workspace(rootTaskId, path, range);
    const upper = row.path ?? join(stateDir, 'workspaces', rootTaskId);
    // In a granted directory nothing is given the group: its files stay their owner's.
    const isGranted = row.path !== null && config.workspace_roots.length === 0;
    if (row.path !== null) {
      await assertAllowed(row.path);
      if (!isGranted) await store.recordWrites(rootTaskId, [row.path]);
    }
    const gid = ownUsers ? row.gid : options.gid;
    if (row.path === null) mkdirSync(upper, { recursive: true, mode: 0o700 });
    // The agents of the task share this group; new files inherit it.
    if (ownUsers && !isGranted) {
      const left = await warden.chown({ path: upper, uid: null, gid });
      if (left > 0)
        log.warn('left files with several hard links, and devices, unchanged', { upper, left });
    }
    return { layers: [], upper, gid, isGranted };
  };

  const homePath = (agent: string, rootTaskId: string) =>
    join(stateDir, 'homes', rootTaskId, agent);

  const homeFor: Workspaces['homeFor'] = async (agent, owner, { uid, gid }) => {
    const home = homePath(agent, owner);
    mkdirSync(home, { recursive: true, mode: 0o700 });
    if (ownUsers) await warden.chown({ path: home, uid, gid });
    return home;
  };

  /** Returns why files with the tree's group may exist, or undefined if there are none. */
  const findRemains = async (use: WorkspaceUse): Promise<string | undefined> => {
    if (use.hasOpenBoxes) return 'one of its boxes is open';
    for (const name of ['workspaces', 'homes']) {
      const dir = join(stateDir, name, use.root_task_id);
      if (!(await isGone(dir))) return `${dir} exists`;
    }
    for (const path of use.writes) {
      const found = await warden.measure(path, use.gid).catch((error: unknown) => error as Error);
      if (found instanceof Error) return `${path} could not be searched: ${found.message}`;
      if (found.entries > 0) return `${path} has files of its group ${use.gid}`;
    }
    return undefined;
  };

  const releaseTree = async (rootTaskId: string): Promise<WorkspaceRelease> => {
    const use = await store.workspaceUse(rootTaskId);
    if (use === undefined) return { freed: true, reason: null };
    if (!use.isComplete) {
      const reason = 'it is from a version that did not record where its boxes could write';
      return { freed: false, reason };
    }
    known.delete(rootTaskId);
    const reason = await findRemains(use);
    if (reason === undefined && (await store.freeWorkspace(use)))
      return { freed: true, reason: null };
    await store.delayRelease(rootTaskId);
    return { freed: false, reason: reason ?? 'one of its boxes is open' };
  };

  return {
    check: assertAllowed,
    workspaceFor({ rootTaskId, path }) {
      const found = known.get(rootTaskId) ?? makeWorkspace(rootTaskId, path);
      known.delete(rootTaskId);
      known.set(rootTaskId, found);
      if (known.size > KNOWN_MAX) known.delete(known.keys().next().value!);
      found.catch(() => known.get(rootTaskId) === found && known.delete(rootTaskId));
      return found;
    },
    async groupFor(rootTaskId) {
      const row = await store.workspace(rootTaskId, undefined, range);
      if (row.path !== null)
        throw fault('conflict', `${rootTaskId} works in ${row.path} itself, without a layer`);
      return ownUsers ? row.gid : options.gid;
    },
    homeFor,
    async keptHomeFor(agent, id, identity) {
      const home = await homeFor(agent, id, identity);
      const now = new Date(options.clock.nowMs());
      // The time of its last use.
      await utimes(dirname(home), now, now);
      return home;
    },
    async release(rootTaskId) {
      const result = await releaseTree(rootTaskId);
      // Files in a directory of the operator may have been deleted or given away since.
      const delayed = await store.nextDelayed();
      if (delayed !== undefined) await releaseTree(delayed);
      return result;
    },
    pathAliases: ({ agent, rootTaskId, path }) => [
      [path ?? join(stateDir, 'workspaces', rootTaskId), WORKSPACE],
      [homePath(agent, rootTaskId), `/home/${agent}`],
    ],
  };
}

function assertNormalized(path: string): void {
  if (path === '/')
    throw fault('denied', 'agents are never let into / as a whole: it has the system in it', {
      hint:
        'Name one directory, such as that of a project. Never granted are /, a home itself, the ' +
        'system’s directories and the state directory.',
    });
  if (/^\/./.test(path) && !/\/\.{0,2}(\/|$)/.test(path)) return;
  throw fault('denied', `${path} may not be used as a workspace`, {
    hint: 'Use an absolute path without . and .. in it, and without a slash at its end.',
  });
}

/** Where the site names the roots of all workspaces, a person cannot add to them. */
function assertInRoots(path: string, roots: readonly string[]): void {
  if (roots.some((root) => isWithin(path, root.replace(/(?<=.)\/$/, '')))) return;
  throw fault('denied', `${path} may not be used as a workspace`, {
    hint:
      `Work below ${roots.join(' or ')}; ` +
      'or an operator adds it to sandboxd.workspace_roots in agentd.yaml.',
  });
}

/**
 * Rejects links, so that the allowed directory is the one used. A path that this user cannot access
 * is checked by the warden, which follows no links either.
 */
async function assertInPlace(path: string): Promise<void> {
  try {
    if ((await lstat(path)).isDirectory() && (await realpath(path)) === path) return;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EACCES') return;
  }
  throw fault('not_found', `${path} is not a directory, or its path contains a link`);
}

const describeRefusal = ({ message }: Fault): string =>
  message.replace(/^the warden refused: /, '');

async function isGone(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT';
  }
}
