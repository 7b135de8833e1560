// Grants, wherever they are kept: in STATE/grants where the warden is an ordinary user's, by the
// keeper where it is root's.
import { existsSync, lstatSync, realpathSync, statSync } from 'node:fs';
import { runtimeDirFor } from '../../../platform/state-dir.ts';
import { fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { isUp, readRuntimeInfo } from '../state.ts';
import { readGrants, removeGrant, type WorkspaceGrant, writeGrant } from './grant-file.ts';
import { askKeeper, listKeepersGrants } from './keeper-client.ts';
import { assertGrantable, type GrantLimits, resolveGranted } from './rules.ts';

/** `changed`: another directory has the name now. */
export type GrantState = 'ok' | 'changed' | 'gone';

export type Grants = {
  /** Resolves to the directory that is granted; `isNew` is false if it was before. */
  grant(dir: string): Promise<{ path: string; isNew: boolean }>;
  /** The same for boxes that only read it. */
  grantRead(dir: string): Promise<{ path: string; isNew: boolean }>;
  /** Resolves to false when there was no such grant. */
  revoke(path: string): Promise<boolean>;
  list(): Promise<WorkspaceGrant[]>;
};

export function openGrants({ stateDir, env }: Pick<Session, 'stateDir' | 'env'>): Grants {
  const real = realStateDir(stateDir);
  const runtimeDir = findRuntimeDir(real, env);
  const wardenDir = `${runtimeDir}.warden`;
  const isRoots = lstatSync(wardenDir, { throwIfNoEntry: false })?.uid === 0;
  const uid = process.getuid?.() ?? 0;
  const ownDirs = [real, ...[runtimeDir, wardenDir].map(realOrSame)];
  const check = (dir: string, owner: GrantLimits['owner']): string => {
    const path = resolveGranted(dir);
    assertGrantable(path, { own: ownDirs, owner });
    return path;
  };
  if (isRoots && uid === statSync(real).uid) throw daemonsUserFault();
  if (isRoots) {
    const socket = `${wardenDir}/grant.sock`;
    const ask = async (op: 'grant' | 'grantRead', dir: string) => {
      const path = check(dir, uid === 0 ? undefined : uid);
      return { path, isNew: await askKeeper(socket, op, path) };
    };
    return {
      grant: (dir) => ask('grant', dir),
      grantRead: (dir) => ask('grantRead', dir),
      revoke: (path) => askKeeper(socket, 'revoke', path),
      list: () => listKeepersGrants(socket),
    };
  }
  const owner = statSync(real).uid;
  if (owner !== uid && (uid !== 0 || !isUp(real)))
    throw fault('runtime_down', `no runtime is running on ${stateDir}`, {
      hint: 'Start it as the user who owns it: agentctl up.',
    });
  return {
    async grant(dir) {
      // Boxes run as this user, so another's files are of no use to them.
      const path = check(dir, owner);
      return { path, isNew: writeGrant(real, path) };
    },
    async grantRead(dir) {
      const path = check(dir, owner);
      return { path, isNew: writeGrant(real, path, true) };
    },
    revoke: async (path) => removeGrant(real, path),
    list: async () => readGrants(real),
  };
}

function realStateDir(stateDir: string): string {
  if (existsSync(stateDir)) return realpathSync(stateDir);
  throw fault('not_found', `state directory ${stateDir} not found`, {
    hint: 'Run agentctl up to create it, or name another with --state.',
  });
}

/** A user who cannot read the state of root's runtime still knows where root's runtimes are. */
function findRuntimeDir(real: string, env: Session['env']): string {
  const { runtime_dir } = readRuntimeInfo(real) ?? {};
  if (runtime_dir !== undefined) return runtime_dir;
  const roots = runtimeDirFor(real, {}, 0);
  return existsSync(`${roots}.warden`) ? roots : runtimeDirFor(real, env);
}

const realOrSame = (path: string): string => (existsSync(path) ? realpathSync(path) : path);

const daemonsUserFault = () =>
  fault('denied', 'the daemons’ user may not let agents into directories', {
    hint: 'Run it as the owner of the directory, or as root.',
  });

export function readGrantState({ path, device, inode, owner }: WorkspaceGrant): GrantState {
  try {
    const stat = lstatSync(path, { bigint: true });
    const isSame = String(stat.dev) === device && String(stat.ino) === inode;
    return isSame && stat.isDirectory() && Number(stat.uid) === owner ? 'ok' : 'changed';
  } catch (error) {
    // Above it may be a directory that this user cannot enter; then nothing is known against it.
    return (error as NodeJS.ErrnoException).code === 'EACCES' ? 'ok' : 'gone';
  }
}
