// Writes the bounds file: the limits within which the warden serves sandboxd. It is made from the
// configuration before anything else starts, and does not change while the warden runs.
import { existsSync, lstatSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isWithin } from '../../policy/paths.ts';
import { type DaemonName, RUN_DAEMONS } from '../../wire/daemons.ts';
import { fault } from '../../wire/errors.ts';
import { findRunnerFiles, systemBinds, toolBinds } from './adapters/host-paths.ts';
import type { SandboxdConfig } from './config.ts';
import { type HostIdentity, identityMode } from './identities.ts';

export type BoundsPlaces = {
  config: SandboxdConfig & { runner: string };
  stateDir: string;
  runtimeDir: string;
  host: HostIdentity;
  /** The only process that may connect; if absent, any process of this user. */
  clientPid?: number | undefined;
};

/** The warden's paths: beside the runtime directory, which may belong to another user. */
export function wardenPaths(runtimeDir: string) {
  const dir = `${runtimeDir}.warden`;
  return {
    dir,
    socket: join(dir, 'warden.sock'),
    bounds: join(dir, 'bounds'),
    grants: join(dir, 'grants'),
  };
}

/** Returns this process's user, and if the warden is root: the owner of its directory. */
export function hostUser(runtimeDir: string): HostIdentity {
  return {
    uid: process.getuid?.() ?? 0,
    gid: process.getgid?.() ?? 0,
    wardenIsRoot: statSync(wardenPaths(runtimeDir).dir).uid === 0,
  };
}

const realPathOrSame = (path: string): string => (existsSync(path) ? realpathSync(path) : path);

const LINKS_MAX = 40;

/**
 * Resolves all links in a declared path. It is resolved anew at every start, so links in
 * directories that agents or daemons can change are rejected: they would choose what is declared.
 */
function resolveDeclared(path: string, changeable: readonly string[]): string {
  let at = '/';
  let links = 0;
  const segments = path.split('/').filter((segment) => segment !== '' && segment !== '.');
  for (let segment = segments.shift(); segment !== undefined; segment = segments.shift()) {
    const next = segment === '..' ? dirname(at) : join(at, segment);
    const stat = lstatSync(next, { throwIfNoEntry: false });
    if (stat?.isSymbolicLink() !== true) {
      at = next;
      continue;
    }
    if (changeable.some((dir) => isWithin(at, dir)) || ++links > LINKS_MAX)
      throw fault('bad_config', `${path} leads through the link ${next}, which agents may change`, {
        hint: 'Name the directory itself, or move the link to where only you can write.',
      });
    const target = readlinkSync(next);
    if (target.startsWith('/')) at = '/';
    segments.unshift(...target.split('/').filter((part) => part !== '' && part !== '.'));
  }
  return at;
}

/** A line break in a path would inject a line into the bounds file. */
function assertOneLine(paths: readonly string[]): void {
  const invalid = paths.find((path) => path.includes('\n'));
  if (invalid !== undefined)
    throw fault('bad_config', `${JSON.stringify(invalid)} has a line break in its name`, {
      hint: 'Rename it.',
    });
}

function formatIdLines({ config, host }: BoundsPlaces): string[] {
  if (identityMode(config, host) === 'single')
    return [`uid ${host.uid} ${host.uid}`, `gid ${host.gid} ${host.gid}`];
  const first = Math.min(config.uid_first, config.gid_first);
  const last = Math.max(config.uid_last, config.gid_last);
  // The boxes of a tree with layers run as a user of its own, whose id is that of its group.
  const uids = [`uid ${config.uid_first} ${config.uid_last}`];
  return [...uids, `uid ${config.gid_first} ${config.gid_last}`, `gid ${first} ${last}`];
}

/** Drops paths that lie within another path of the list. */
function keepOutermost(paths: readonly string[]): string[] {
  const all = [...new Set(paths)];
  return all.filter((path) => !all.some((other) => other !== path && isWithin(path, other)));
}

/** Daemons whose sockets for runs may be a port of a box. */
const RELAYED: readonly DaemonName[] = ['egressd', 'modeld'];

const sharedLine = (path: string): string => `share ${path}`;

export function boundsText(places: BoundsPlaces): string {
  const { config, host } = places;
  const stateDir = realpathSync(places.stateDir);
  const runtimeDir = realPathOrSame(places.runtimeDir);
  const runner = findRunnerFiles(config.runner);
  const shown = [...systemBinds(config.system_paths), ...runner.binds, ...toolBinds(config.boxfs)]
    .filter(({ kind }) => kind === 'ro')
    .map(({ src }) => src!);
  const sockets = RUN_DAEMONS.map((name) => join(runtimeDir, name));
  const changed = [...config.workspace_roots, ...config.write_roots];
  const changeable = [stateDir, runtimeDir, ...changed, ...changed.map(realPathOrSame)];
  const resolve = (path: string): string => resolveDeclared(path, changeable);
  const ownWorkspaces = join(stateDir, 'workspaces');
  const workspaces = [ownWorkspaces, ...config.workspace_roots.map(resolve)];
  const homes = join(stateDir, 'homes');
  const writable = [...workspaces, homes, ...config.write_roots.map(resolve)];
  const readable = [...shown, ...sockets, ...config.read_roots.map(resolve)];
  assertOneLine([...readable, ...writable, runtimeDir]);
  return [
    ...formatIdLines(places),
    `client_uid ${host.uid}`,
    `client_gid ${host.gid}`,
    ...(places.clientPid === undefined ? [] : [`client_pid ${places.clientPid}`]),
    `boxes ${config.boxes_max}`,
    ...keepOutermost(readable).map((path) => `ro ${path}`),
    ...keepOutermost(writable).map((path) => `rw ${path}`),
    ...(host.wardenIsRoot
      ? [`own ${homes}`, `own ${ownWorkspaces}`, ...keepOutermost(workspaces).map(sharedLine)]
      : []),
    ...[ownWorkspaces, homes].map((path) => `delete ${path}`),
    ...RELAYED.map((name) => `relay ${join(runtimeDir, name)}`),
    // Where the site names the roots of all workspaces, a person's grant adds nothing.
    ...(config.workspace_roots.length > 0 ? ['grants 0'] : []),
    '',
  ].join('\n');
}
