// Starts the warden as this user, before every daemon: writes its bounds first, and restarts it
// when it dies, which also ends its boxes. It exits with this process. As root, the keeper starts
// it (as-root.ts).
import { rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { boundsText, hostUser, wardenPaths } from '../daemons/sandboxd/bounds.ts';
import type { SandboxdConfig } from '../daemons/sandboxd/config.ts';
import type { Log } from '../platform/log.ts';
import { makePrivateDir, writeAtomically } from '../platform/state-dir.ts';
import { type SupervisedProcess, supervise } from '../platform/supervise.ts';
import { assertNative } from './native.ts';

export type WardenOptions = {
  config: SandboxdConfig;
  stateDir: string;
  runtimeDir: string;
  /** The only process that may connect; if absent, any process of this user. */
  clientPid?: number | undefined;
  log: Log;
  onOutdated?: (isOutdated: boolean) => void;
};

export async function startWarden(options: WardenOptions): Promise<SupervisedProcess> {
  const { config, stateDir, runtimeDir, log } = options;
  const program = assertNative('warden');
  const paths = wardenPaths(runtimeDir);
  makePrivateDir(paths.dir);
  for (const name of ['workspaces', 'homes', 'grants']) makePrivateDir(join(stateDir, name));
  // Grants outlive the runtime, so that unfinished tasks can resume; agentctl writes them.
  rmSync(paths.grants, { recursive: true, force: true });
  symlinkSync(join(stateDir, 'grants'), paths.grants);
  const text = boundsText({
    config: { ...config, runner: config.runner ?? '' },
    host: hostUser(runtimeDir),
    stateDir,
    runtimeDir,
    clientPid: options.clientPid,
  });
  writeAtomically(paths.bounds, text);
  const argv = [
    '--run',
    paths.dir,
    '--socket',
    paths.socket,
    '--bounds',
    paths.bounds,
    '--halt',
    join(stateDir, 'HALT'),
    '--parent',
    String(process.pid),
  ];
  const logFile = join(stateDir, 'logs', 'warden.log');
  const { onOutdated = () => undefined } = options;
  const child = { name: 'warden', program, file: program, argv, env: {} };
  return supervise({ ...child, logFile, log, onOutdated });
}
