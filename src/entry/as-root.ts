// Runs once as root, before the daemons: reads the configuration, chooses the daemons' user, chowns
// the state directory, and sends the launch spec to the keeper (native/keeper), which does the
// rest.
import { existsSync, lstatSync, mkdirSync, readdirSync, realpathSync, writeSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { boundsText, wardenPaths } from '../daemons/sandboxd/bounds.ts';
import { toDaemonUser } from '../daemons/sandboxd/identities.ts';
import { makeLog, stderrSink } from '../platform/log.ts';
import { assertRestoreEnded } from '../platform/restore-record.ts';
import { runtimeDirFor } from '../platform/state-dir.ts';
import { assertTrustedDir } from '../platform/trusted-path.ts';
import { isWithin } from '../policy/paths.ts';
import { fault } from '../wire/errors.ts';
import { chownState, openToPass, readRootsFile } from './chown-state.ts';
import { type AssignedIds, assignIds } from './id-ranges.ts';
import { prepareGrantsDir, prepareKeeperDir } from './keeper-dir.ts';
import { mailboxFields } from './mailboxes.ts';
import { assertNative } from './native.ts';
import {
  type AgentIds,
  idsArgs,
  loadRuntimeConfig,
  programPath,
  type RuntimeArgs,
  type RuntimeConfig,
  readArgv,
  refuseToStart,
  restartArgs,
  rootDir,
} from './options.ts';
import { stateInUseFault } from './runtime.ts';
import { chooseServiceUser } from './service-user.ts';

/** Returns the paths that the daemons must be able to reach. */
function findPaths(args: RuntimeArgs, config: RuntimeConfig, program: string) {
  const given = [args.configFile, args.agentsDir].filter((path) => path !== undefined);
  // Paths in the state directory are reachable with it, and root must not follow links in there.
  const { SSL_CERT_FILE, SSL_CERT_DIR, NODE_EXTRA_CA_CERTS } = process.env;
  const named = [
    // Mailboxes are mounted elsewhere, and reached by nothing else.
    ...findAbsolutePaths({ ...config, maild: { ...config.maild, maildirs: {} } }),
    SSL_CERT_FILE,
    SSL_CERT_DIR,
    NODE_EXTRA_CA_CERTS,
    join(rootDir(), 'node_modules'),
  ].filter((path) => path !== undefined && existsSync(path) && !isWithin(path, args.stateDir));
  return {
    secret: [...findSecrets(config), ...listCredentials()].filter(isRootsSecret),
    required: [process.execPath, rootDir(), program, args.stateDir, ...given].flatMap(withRealPath),
    optional: (named as string[]).flatMap(withRealPath),
  };
}

const withRealPath = (path: string): string[] => [...new Set([path, realpathSync(path)])];

function findAbsolutePaths(value: unknown): string[] {
  if (typeof value === 'string') return value.startsWith('/') ? [value] : [];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap(findAbsolutePaths);
}

/** Returns the configuration's paths of keys, secrets and passwords. */
function findSecrets(value: unknown, name = ''): string[] {
  if (typeof value === 'string')
    return /^(key|secret|password)_file$/.test(name) && value.startsWith('/') ? [value] : [];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => findSecrets(inner, key));
}

function listCredentials(): string[] {
  const dir = process.env.CREDENTIALS_DIRECTORY;
  return dir === undefined ? [] : readdirSync(dir).map((name) => join(dir, name));
}

/** Returns true for root's own file that the daemons cannot read. */
function isRootsSecret(path: string): boolean {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  return stat?.isFile() === true && stat.uid === 0 && (stat.mode & 0o077) === 0;
}

function launchSpec(
  args: RuntimeArgs,
  config: RuntimeConfig,
  { user, others, keeperDir }: Prepared,
): string[] {
  const warden = assertNative('warden');
  const program = programPath(args.mode);
  const runtimeDir = prepareRuntimeDir(args.stateDir);
  const { dir } = wardenPaths(runtimeDir);
  const { required, optional, secret } = findPaths(args, config, program);
  const bounds = boundsText({
    config: { ...config.sandboxd, runner: config.sandboxd.runner ?? '' },
    host: { uid: user.uid, gid: user.gid, wardenIsRoot: true },
    stateDir: args.stateDir,
    runtimeDir,
  });
  const option = (name: string, value: string | number | undefined) =>
    value === undefined ? [] : [name, String(value)];
  return [
    'uid',
    String(user.uid),
    'gid',
    String(user.gid),
    'user',
    user.name,
    'ready-fd',
    String(args.readyFd),
    'single-client',
    args.mode === 'embedded' ? '1' : '0',
    'warden',
    warden,
    'warden-dir',
    dir,
    'bounds',
    bounds,
    'runtime-dir',
    runtimeDir,
    'halt',
    join(args.stateDir, 'HALT'),
    'warden-log',
    join(args.stateDir, 'logs', 'warden.log'),
    'state',
    args.stateDir,
    ...(others === '' ? [] : ['other-ids', others]),
    ...grantFields(args.stateDir, config, keeperDir),
    ...mailboxFields(config, { user, stateDir: args.stateDir }),
    'in-use-error',
    JSON.stringify({ error: stateInUseFault(args.stateDir).toBody() }),
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
    args.stateDir,
    '--mode',
    args.mode,
    '--runtime',
    runtimeDir,
    '--ready-fd',
    String(args.readyFd),
    ...option('--port', args.port),
    ...option('--config', args.configFile),
    ...option('--agents', args.agentsDir),
    ...idsArgs(args),
    ...restartArgs(args),
  ];
}

/** Tells the keeper where people's grants are, or why there are none. */
function grantFields(
  stateDir: string,
  { sandboxd }: RuntimeConfig,
  keeperDir: string | Error,
): string[] {
  if (sandboxd.workspace_roots.length > 0)
    return [
      'no-grants',
      'this site names the roots of all workspaces itself\n' +
        `Work below ${sandboxd.workspace_roots.join(' or ')}.`,
    ];
  if (typeof keeperDir === 'string') return ['grants-dir', prepareGrantsDir(keeperDir, stateDir)];
  return [
    'no-grants',
    `grants cannot be kept on this host: ${keeperDir.message}\n` +
      'Set AGENTD_KEEPER_DIR to a directory of root and start again.',
  ];
}

type Prepared = Pick<AssignedIds, 'user' | 'others'> & { keeperDir: string | Error };

/** A host whose disk is read-only there still runs tasks, with the ids of the configuration. */
function openKeeperDir(): string | Error {
  try {
    return prepareKeeperDir(process.env);
  } catch (error) {
    return error as Error;
  }
}

function prepareIds(args: RuntimeArgs, config: RuntimeConfig): Prepared & { ids?: AgentIds } {
  const log = makeLog(stderrSink);
  const keeperDir = openKeeperDir();
  if (keeperDir instanceof Error) {
    log.warn('the ids of other state directories on this host are not known', { error: keeperDir });
    return { user: chooseServiceUser(config), others: '', keeperDir };
  }
  const { stateDir } = args;
  const { ranges, user, others, warnings } = assignIds({ keeperDir, stateDir, config });
  for (const warning of warnings) log.warn(warning);
  return { user, others, keeperDir, ids: ranges };
}

/** Its parent belongs to root, so that the warden's directory beside it stays root's. */
function prepareRuntimeDir(stateDir: string): string {
  const dir = runtimeDirFor(stateDir, process.env);
  mkdirSync(dirname(dir), { recursive: true, mode: 0o711 });
  const base = realpathSync(dirname(dir));
  openToPass(base);
  assertTrustedDir(base, []);
  return join(base, basename(dir));
}

function main(): void {
  const argv = readArgv(process.argv.slice(2));
  try {
    if (process.getuid?.() !== 0 || argv.keeperFd === undefined)
      throw fault('bad_usage', 'only the keeper may start as-root, as root');
    mkdirSync(argv.stateDir, { recursive: true, mode: 0o700 });
    const args = { ...argv, stateDir: realpathSync(argv.stateDir) };
    assertRestoreEnded(args.stateDir);
    const config = loadRuntimeConfig(args, readRootsFile);
    const prepared = prepareIds(args, config);
    const { user, ids } = prepared;
    Object.assign(config.sandboxd, ids);
    for (const name of ['workspaces', 'homes', 'logs'])
      mkdirSync(join(args.stateDir, name), { recursive: true, mode: 0o700 });
    chownState(args.stateDir, user, toDaemonUser(config.sandboxd));
    const spec = launchSpec({ ...args, ids }, config, prepared);
    writeSync(argv.keeperFd, `${spec.join('\0')}\0`);
  } catch (error) {
    refuseToStart(argv.readyFd, error);
  }
}

main();
