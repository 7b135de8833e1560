// Where the files of a task tree and of an agent are, and whose they are. A workspace is a list of
// sealed layers and one upper; today there are no layers, and only this file knows.
import { chownSync, lstatSync, mkdirSync, realpathSync } from 'node:fs';
import { chmod, lchown, lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fault } from '../../wire/errors.ts';
import type { SandboxdConfig } from './config.ts';
import type { Identity } from './identities.ts';
import type { Store } from './store.ts';

/** `layers` are read-only, lowest first; what is written goes to `upper`. */
export type Workspace = { layers: readonly string[]; upper: string; gid: number };

export type Workspaces = {
  /** The same for every agent of the task tree. */
  /** Throws when this directory may not be used in place. */
  check(path: string): Promise<void>;
  workspaceOf(task: { rootTaskId: string; path?: string | undefined }): Promise<Workspace>;
  /**
   * One for every task tree: what outside text made an agent write in one task is not there in the
   * next.
   */
  homeOf(agent: string, rootTaskId: string, identity: Identity): string;
};

export function makeWorkspaces(options: {
  stateDir: string;
  config: SandboxdConfig;
  store: Pick<Store, 'workspace'>;
  /** Whether boxes have users of their own, and files have to be given to them. */
  ownUsers: boolean;
  gid: number;
}): Workspaces {
  const { config, store, ownUsers } = options;
  const stateDir = realpathSync(options.stateDir);
  const range = { first: config.gid_first, last: config.gid_last };
  const ready = new Map<string, Promise<Workspace>>();

  const make = async (rootTaskId: string, path: string | undefined): Promise<Workspace> => {
    if (path !== undefined) assertInPlace(path, config.workspace_roots);
    const row = await store.workspace(rootTaskId, path, range);
    const upper = row.path ?? join(stateDir, 'workspaces', rootTaskId);
    if (row.path !== null) assertInPlace(row.path, config.workspace_roots);
    const gid = ownUsers ? row.gid : options.gid;
    if (row.path === null) mkdirSync(upper, { recursive: true, mode: 0o700 });
    // The group is what the agents of the task have in common; new files take it from here.
    if (ownUsers) await shareWithGroup(upper, gid);
    return { layers: [], upper, gid };
  };

  return {
    check: async (path) => assertInPlace(path, config.workspace_roots),
    workspaceOf({ rootTaskId, path }) {
      const found = ready.get(rootTaskId) ?? make(rootTaskId, path);
      ready.set(rootTaskId, found);
      found.catch(() => ready.delete(rootTaskId));
      return found;
    },
    homeOf(agent, rootTaskId, { uid, gid }) {
      const home = join(stateDir, 'homes', rootTaskId, agent);
      mkdirSync(home, { recursive: true, mode: 0o700 });
      if (ownUsers) chownSync(home, uid, gid);
      return home;
    },
  };
}

/** Never a link: what the operator allowed is what is used. */
function assertInPlace(path: string, roots: readonly string[]): void {
  const isBelow = (root: string) => path === root || path.startsWith(`${root.replace(/\/$/, '')}/`);
  if (!roots.some(isBelow) || /\/\.\.?(\/|$)/.test(path))
    throw fault('denied', `${path} may not be used as a workspace`, {
      hint: 'An operator can allow it: sandboxd.workspace_roots in agentd.yaml.',
    });
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat === undefined || !stat.isDirectory() || realpathSync(path) !== path)
    throw fault('not_found', `${path} is not a directory, or there is a link in its path`);
}

/** All of it: what an operator put there belongs to the operator, and the agents work in it. */
async function shareWithGroup(path: string, gid: number): Promise<void> {
  const stat = await lstat(path);
  if (stat.gid !== gid) await lchown(path, stat.uid, gid);
  if (stat.isSymbolicLink() || !(stat.isFile() || stat.isDirectory())) return;
  const wanted = stat.isDirectory() ? 0o2070 : 0o060;
  if ((stat.mode & wanted) !== wanted) await chmod(path, (stat.mode & 0o3777) | wanted);
  if (!stat.isDirectory()) return;
  for (const name of await readdir(path)) await shareWithGroup(join(path, name), gid);
}
