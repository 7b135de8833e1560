// The bounds file: what root allows the warden to do for sandboxd, whatever sandboxd asks. Made
// from the configuration before anything else starts, and never changed while it runs.
import { existsSync, lstatSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isWithin } from '../../policy/paths.ts';
import { RUN_DAEMONS } from '../../wire/daemons.ts';
import { fault } from '../../wire/errors.ts';
import { runnerPlace, runnerPlaceOnHost, systemBinds, toolBinds } from './adapters/host-places.ts';
import type { SandboxdConfig } from './config.ts';
import { type HostIdentity, identityMode } from './identities.ts';

export type BoundsPlaces = {
  config: SandboxdConfig & { runner: string };
  stateDir: string;
  runtimeDir: string;
  host: HostIdentity;
  /** The one process that may ask; any of this user when absent. */
  clientPid?: number | undefined;
};

/** Where the warden is found: beside the runtime's directory, which may be another user's. */
export function wardenPaths(runtimeDir: string) {
  const dir = `${runtimeDir}.warden`;
  return { dir, socket: join(dir, 'warden.sock'), bounds: join(dir, 'bounds') };
}

/** Who this process is, and whose the warden is: that of its directory. */
export function hostUser(runtimeDir: string): HostIdentity {
  return {
    uid: process.getuid?.() ?? 0,
    gid: process.getgid?.() ?? 0,
    wardenIsRoot: statSync(wardenPaths(runtimeDir).dir).uid === 0,
  };
}

const real = (path: string): string => (existsSync(path) ? realpathSync(path) : path);

const LINKS_MAX = 40;

/**
 * The path without a link in it. What the operator declared is found by name at every start: a link
 * that an agent or a daemon put there in the meantime would declare what they chose.
 */
function declared(path: string, theirs: readonly string[]): string {
  let at = '/';
  let links = 0;
  const words = path.split('/').filter((word) => word !== '' && word !== '.');
  for (let word = words.shift(); word !== undefined; word = words.shift()) {
    const next = word === '..' ? dirname(at) : join(at, word);
    const stat = lstatSync(next, { throwIfNoEntry: false });
    if (stat?.isSymbolicLink() !== true) {
      at = next;
      continue;
    }
    if (theirs.some((dir) => isWithin(at, dir)) || ++links > LINKS_MAX)
      throw fault('bad_config', `${path} leads through the link ${next}, which agents may change`, {
        hint: 'Name the directory itself, or move the link to where only you can write.',
      });
    const target = readlinkSync(next);
    if (target.startsWith('/')) at = '/';
    words.unshift(...target.split('/').filter((part) => part !== '' && part !== '.'));
  }
  return at;
}

/** One line each, whatever is in a name. */
function assertOneLine(paths: readonly string[]): void {
  const odd = paths.find((path) => path.includes('\n'));
  if (odd !== undefined)
    throw fault('bad_config', `${JSON.stringify(odd)} has a line break in its name`, {
      hint: 'Give it another name.',
    });
}

function idLines({ config, host }: BoundsPlaces): string[] {
  if (identityMode(config, host) === 'single')
    return [`uid ${host.uid} ${host.uid}`, `gid ${host.gid} ${host.gid}`];
  const first = Math.min(config.uid_first, config.gid_first);
  const last = Math.max(config.uid_last, config.gid_last);
  return [`uid ${config.uid_first} ${config.uid_last}`, `gid ${first} ${last}`];
}

/** Only those that no other one of the list holds already. */
function outermost(paths: readonly string[]): string[] {
  const all = [...new Set(paths)];
  return all.filter((path) => !all.some((other) => other !== path && isWithin(path, other)));
}

const sharedLine = (path: string): string => `share ${path}`;

export function boundsText(places: BoundsPlaces): string {
  const { config, host } = places;
  const stateDir = realpathSync(places.stateDir);
  const runtimeDir = real(places.runtimeDir);
  const runner =
    config.runner_level === 'L1' ? runnerPlaceOnHost(config.runner) : runnerPlace(config.runner);
  const shown = [...systemBinds(config.system_paths), ...runner.binds, ...toolBinds(config.boxfs)]
    .filter(({ kind }) => kind === 'ro')
    .map(({ src }) => src!);
  const sockets = RUN_DAEMONS.map((name) => join(runtimeDir, name));
  const changed = [...config.workspace_roots, ...config.write_roots];
  const theirs = [stateDir, runtimeDir, ...changed, ...changed.map(real)];
  const found = (path: string): string => declared(path, theirs);
  const workspaces = [join(stateDir, 'workspaces'), ...config.workspace_roots.map(found)];
  const homes = join(stateDir, 'homes');
  const writable = [...workspaces, homes, ...config.write_roots.map(found)];
  const readable = [...shown, ...sockets, ...config.read_roots.map(found)];
  assertOneLine([...readable, ...writable, runtimeDir]);
  return [
    ...idLines(places),
    `client_uid ${host.uid}`,
    `client_gid ${host.gid}`,
    ...(places.clientPid === undefined ? [] : [`client_pid ${places.clientPid}`]),
    `boxes ${config.boxes_max}`,
    ...outermost(readable).map((path) => `ro ${path}`),
    ...outermost(writable).map((path) => `rw ${path}`),
    ...(host.wardenIsRoot ? [`own ${homes}`, ...outermost(workspaces).map(sharedLine)] : []),
    `egress ${join(runtimeDir, 'egressd')}`,
    '',
  ].join('\n');
}
