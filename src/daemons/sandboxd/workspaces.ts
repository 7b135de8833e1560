// Where the files of a task tree and of an agent are, and whose they are. A workspace is a list of
// sealed layers and one upper; today there are no layers, and only this file knows.
import { mkdirSync, realpathSync } from 'node:fs';
import { lstat, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import type { Log } from '../../platform/log.ts';
import { isWithin } from '../../policy/paths.ts';
import { fault } from '../../wire/errors.ts';
import type { Warden } from './adapters/warden.ts';
import type { Renamed } from './box-words.ts';
import type { SandboxdConfig } from './config.ts';
import type { Identity } from './identities.ts';
import { WORKSPACE } from './rules.ts';
import type { SandboxdStore } from './store.ts';

/** `layers` are read-only, lowest first; what is written goes to `upper`. */
export type Workspace = { layers: readonly string[]; upper: string; gid: number };

export type Workspaces = {
  /** Throws when this directory may not be used in place. */
  check(path: string): Promise<void>;
  /** The same for every agent of the task tree. */
  workspaceOf(task: { rootTaskId: string; path?: string | undefined }): Promise<Workspace>;
  /**
   * One for every task tree: what outside text made an agent write in one task is not there in the
   * next.
   */
  homeOf(agent: string, rootTaskId: string, identity: Identity): Promise<string>;
  /** Where these are on the host, and how the box of the agent calls them. */
  namesOf(box: { agent: string; rootTaskId: string; path?: string | undefined }): Renamed[];
};

export function makeWorkspaces(options: {
  stateDir: string;
  config: SandboxdConfig;
  store: Pick<SandboxdStore, 'workspace'>;
  /** Whether boxes have users of their own, and files have to be given to them: by the warden. */
  ownUsers: boolean;
  warden: Pick<Warden, 'own'>;
  gid: number;
  /** Paths of the host with keys of people, and agentd's own. */
  secrets: () => readonly string[];
  log: Log;
}): Workspaces {
  const { config, store, ownUsers, warden, log } = options;
  const stateDir = realpathSync(options.stateDir);
  const range = { first: config.gid_first, last: config.gid_last };
  const ready = new Map<string, Promise<Workspace>>();

  /** What is above them is shown without them; what is in them cannot be shown at all. */
  const assertAllowed = async (path: string): Promise<void> => {
    if (options.secrets().some((secret) => isWithin(path, secret)))
      throw fault('denied', `${path} may not be used as a workspace: keys are kept there`, {
        hint: 'Work in another directory.',
      });
    await assertInPlace(path, config.workspace_roots);
  };

  const make = async (rootTaskId: string, path: string | undefined): Promise<Workspace> => {
    if (path !== undefined) await assertAllowed(path);
    const row = await store.workspace(rootTaskId, path, range);
    const upper = row.path ?? join(stateDir, 'workspaces', rootTaskId);
    if (row.path !== null) await assertAllowed(row.path);
    const gid = ownUsers ? row.gid : options.gid;
    if (row.path === null) mkdirSync(upper, { recursive: true, mode: 0o700 });
    // The group is what the agents of the task have in common; new files take it from here.
    if (ownUsers) {
      const left = await warden.own({ path: upper, uid: null, gid });
      if (left > 0)
        log.warn('files with a second name, and devices, stay as they are', { upper, left });
    }
    return { layers: [], upper, gid };
  };

  const homePath = (agent: string, rootTaskId: string) =>
    join(stateDir, 'homes', rootTaskId, agent);

  return {
    check: assertAllowed,
    workspaceOf({ rootTaskId, path }) {
      const found = ready.get(rootTaskId) ?? make(rootTaskId, path);
      ready.set(rootTaskId, found);
      found.catch(() => ready.delete(rootTaskId));
      return found;
    },
    async homeOf(agent, rootTaskId, { uid, gid }) {
      const home = homePath(agent, rootTaskId);
      mkdirSync(home, { recursive: true, mode: 0o700 });
      if (ownUsers) await warden.own({ path: home, uid, gid });
      return home;
    },
    namesOf: ({ agent, rootTaskId, path }) => [
      [path ?? join(stateDir, 'workspaces', rootTaskId), WORKSPACE],
      [homePath(agent, rootTaskId), `/home/${agent}`],
    ],
  };
}

/**
 * Never a link: what the operator allowed is what is used. What this user may not look at, the
 * warden does: it follows no link either.
 */
async function assertInPlace(path: string, roots: readonly string[]): Promise<void> {
  const isAllowed = roots.some((root) => isWithin(path, root.replace(/(?<=.)\/$/, '')));
  if (!isAllowed || /\/\.\.?(\/|$)/.test(path))
    throw fault('denied', `${path} may not be used as a workspace`, {
      hint: 'An operator can allow it: sandboxd.workspace_roots in agentd.yaml.',
    });
  try {
    if ((await lstat(path)).isDirectory() && (await realpath(path)) === path) return;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EACCES') return;
  }
  throw fault('not_found', `${path} is not a directory, or there is a link in its path`);
}
