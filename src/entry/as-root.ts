// As root, once, before anything else runs: reads the configuration, decides who the daemons are,
// gives them the state directory, writes down what the warden may do. Tells the keeper
// (native/keeper), which does the rest, and ends.
import { existsSync, lstatSync, mkdirSync, readdirSync, realpathSync, writeSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { boundsText, wardenPaths } from '../daemons/sandboxd/bounds.ts';
import { daemonsOf } from '../daemons/sandboxd/identities.ts';
import { runtimeDirOf } from '../platform/state-dir.ts';
import { assertTrustedDir } from '../platform/trusted-path.ts';
import { isWithin } from '../policy/paths.ts';
import { fault } from '../wire/errors.ts';
import { chownState, openToPass, readRootsFile } from './chown-state.ts';
import { assertNative } from './native.ts';
import {
  loadRuntimeConfig,
  programPath,
  type RuntimeArgs,
  type RuntimeConfig,
  readArgv,
  refuseToStart,
  rootDir,
} from './options.ts';
import { stateInUseFault } from './runtime.ts';
import { type ServiceUser, serviceUser } from './service-user.ts';

/** Everything that must be reachable for the daemons, whoever made it. */
function paths(told: RuntimeArgs, config: RuntimeConfig, program: string) {
  const given = [told.configFile, told.agentsDir].filter((path) => path !== undefined);
  // What lies in the state directory is shown with it; a link in there is not for root to follow.
  const { SSL_CERT_FILE, SSL_CERT_DIR, NODE_EXTRA_CA_CERTS } = process.env;
  const named = [
    ...pathsIn(config),
    SSL_CERT_FILE,
    SSL_CERT_DIR,
    NODE_EXTRA_CA_CERTS,
    join(rootDir(), 'node_modules'),
  ].filter((path) => path !== undefined && existsSync(path) && !isWithin(path, told.stateDir));
  return {
    secret: [...secretsIn(config), ...credentials()].filter(isRootsSecret),
    required: [process.execPath, rootDir(), program, told.stateDir, ...given].flatMap(bothNames),
    optional: (named as string[]).flatMap(bothNames),
  };
}

const bothNames = (path: string): string[] => [...new Set([path, realpathSync(path)])];

function pathsIn(value: unknown): string[] {
  if (typeof value === 'string') return value.startsWith('/') ? [value] : [];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap(pathsIn);
}

/** What the configuration calls a file of its own: keys and secrets. */
function secretsIn(value: unknown, name = ''): string[] {
  if (typeof value === 'string')
    return /^(key|secret)_file$/.test(name) && value.startsWith('/') ? [value] : [];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => secretsIn(inner, key));
}

function credentials(): string[] {
  const dir = process.env.CREDENTIALS_DIRECTORY;
  return dir === undefined ? [] : readdirSync(dir).map((name) => join(dir, name));
}

/** A file that the daemons could not read, and that nobody but root has put there. */
function isRootsSecret(path: string): boolean {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  return stat?.isFile() === true && stat.uid === 0 && (stat.mode & 0o077) === 0;
}

function launchSpec(told: RuntimeArgs, config: RuntimeConfig, user: ServiceUser): string[] {
  const warden = assertNative('warden');
  const program = programPath(told.mode);
  const runtimeDir = runtimeDirIn(told.stateDir);
  const { dir } = wardenPaths(runtimeDir);
  const { required, optional, secret } = paths(told, config, program);
  const bounds = boundsText({
    config: { ...config.sandboxd, runner: config.sandboxd.runner ?? '' },
    host: { uid: user.uid, gid: user.gid, wardenIsRoot: true },
    stateDir: told.stateDir,
    runtimeDir,
  });
  const one = (name: string, value: string | number | undefined) =>
    value === undefined ? [] : [name, String(value)];
  return [
    'uid',
    String(user.uid),
    'gid',
    String(user.gid),
    'user',
    user.name,
    'ready-fd',
    String(told.readyFd),
    'single-client',
    told.mode === 'embedded' ? '1' : '0',
    'warden',
    warden,
    'warden-dir',
    dir,
    'bounds',
    bounds,
    'runtime-dir',
    runtimeDir,
    'halt',
    join(told.stateDir, 'HALT'),
    'warden-log',
    join(told.stateDir, 'logs', 'warden.log'),
    'in-use-error',
    JSON.stringify({ error: stateInUseFault(told.stateDir).toBody() }),
    ...required.flatMap((path) => ['required', path]),
    ...secret.flatMap((path) => ['secret', path]),
    ...[...optional, dirname(runtimeDir)]
      .filter((path) => !secret.includes(path))
      .flatMap((path) => ['optional', path]),
    '--',
    process.execPath,
    ...process.execArgv,
    program,
    '--state',
    told.stateDir,
    '--mode',
    told.mode,
    '--runtime',
    runtimeDir,
    '--ready-fd',
    String(told.readyFd),
    ...one('--port', told.port),
    ...one('--config', told.configFile),
    ...one('--agents', told.agentsDir),
  ];
}

/** Above it only root can change anything: the warden's directory beside it stays root's. */
function runtimeDirIn(stateDir: string): string {
  const dir = runtimeDirOf(stateDir, process.env);
  mkdirSync(dirname(dir), { recursive: true, mode: 0o711 });
  const base = realpathSync(dirname(dir));
  openToPass(base);
  assertTrustedDir(base, []);
  return join(base, basename(dir));
}

function main(): void {
  const given = readArgv(process.argv.slice(2));
  try {
    if (process.getuid?.() !== 0 || given.keeperFd === undefined)
      throw fault('bad_usage', 'as-root is started by the keeper, as root');
    mkdirSync(given.stateDir, { recursive: true, mode: 0o700 });
    const told = { ...given, stateDir: realpathSync(given.stateDir) };
    const config = loadRuntimeConfig(told, readRootsFile);
    const user = serviceUser(config);
    for (const name of ['workspaces', 'homes', 'logs'])
      mkdirSync(join(told.stateDir, name), { recursive: true, mode: 0o700 });
    chownState(told.stateDir, user, daemonsOf(config.sandboxd));
    writeSync(given.keeperFd, `${launchSpec(told, config, user).join('\0')}\0`);
  } catch (error) {
    refuseToStart(given.readyFd, error);
  }
}

main();
