// The bounds file: what root allows the warden to do for sandboxd, whatever sandboxd asks. Made
// from the configuration before anything else starts, and never changed while it runs.
import { existsSync, realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { runnerPlace, runnerPlaceOnHost, systemBinds, toolBinds } from './adapters/host-places.ts';
import type { SandboxdConfig } from './config.ts';
import { type Host, identityMode } from './identities.ts';
import { isWithin } from './rules.ts';

/** The daemons whose sockets a runner gets. */
export const RUNNER_DAEMONS = ['agentd', 'toold', 'modeld'] as const;

export type BoundsPlaces = {
  config: SandboxdConfig & { runner: string };
  stateDir: string;
  runtimeDir: string;
  host: Host;
  /** The one process that may ask; any of this user when absent. */
  clientPid?: number | undefined;
};

/** Where the warden is found: beside the runtime's directory, which may be another user's. */
export function wardenPaths(runtimeDir: string) {
  const dir = `${runtimeDir}.warden`;
  return { dir, socket: join(dir, 'warden.sock'), bounds: join(dir, 'bounds') };
}

/** Who this process is, and whose the warden is: that of its directory. */
export function hostUser(runtimeDir: string): Host {
  return {
    uid: process.getuid?.() ?? 0,
    gid: process.getgid?.() ?? 0,
    wardenIsRoot: statSync(wardenPaths(runtimeDir).dir).uid === 0,
  };
}

const real = (path: string): string => (existsSync(path) ? realpathSync(path) : path);

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
  return all.filter((path) => !all.some((other) => other !== path && isWithin(other, path)));
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
  const sockets = RUNNER_DAEMONS.map((name) => join(runtimeDir, name));
  const workspaces = [join(stateDir, 'workspaces'), ...config.workspace_roots.map(real)];
  const homes = join(stateDir, 'homes');
  const writable = [...workspaces, homes, ...config.write_roots.map(real)];
  return [
    ...idLines(places),
    `client_uid ${host.uid}`,
    `client_gid ${host.gid}`,
    ...(places.clientPid === undefined ? [] : [`client_pid ${places.clientPid}`]),
    `boxes ${config.boxes_max}`,
    ...outermost([...shown, ...sockets, ...config.read_roots.map(real)]).map(
      (path) => `ro ${path}`,
    ),
    ...outermost(writable).map((path) => `rw ${path}`),
    ...(host.wardenIsRoot ? [`own ${homes}`, ...outermost(workspaces).map(sharedLine)] : []),
    `egress ${join(runtimeDir, 'egressd')}`,
    '',
  ].join('\n');
}
