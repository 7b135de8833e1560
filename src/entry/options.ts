// Shared by the runtime's entry points: command-line arguments, configuration, host options, the
// ready line, and shutdown.
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { loadOperatorKey } from '../platform/authenticate.ts';
import { systemClock } from '../platform/clock.ts';
import { type Config, loadConfig } from '../platform/config.ts';
import type { HostOptions, RestartInfo } from '../platform/daemon.ts';
import { diskFault } from '../platform/disk-fault.ts';
import { makeIdMaker } from '../platform/ids.ts';
import { makeLog, stderrSink } from '../platform/log.ts';
import {
  defaultStateDir,
  makeRuntimeDir,
  prepareStateDir,
  runtimeDirFor,
  writeAtomically,
} from '../platform/state-dir.ts';
import { Fault, fault } from '../wire/errors.ts';
import { SECTIONS } from './daemon-modules.ts';

/** The uids of agents, and the gids of task trees. */
export type AgentIds = { uid_first: number; uid_last: number; gid_first: number; gid_last: number };

export const VERSION = '0.1.0';

const ownLog = makeLog(stderrSink);

export type RuntimeConfig = Config<typeof SECTIONS>;

export type RuntimeMode = 'embedded' | 'split';
export type RuntimeArgs = {
  stateDir: string;
  mode: RuntimeMode;
  port: number | undefined;
  agentsDir: string | undefined;
  configFile: string | undefined;
  readyFd: number;
  daemon: string | undefined;
  /** The rehearsal's address, when no provider is configured. */
  rehearsal: string | undefined;
  /** Set when a keeper made the directory and has started the warden as root. */
  runtimeDir: string | undefined;
  /** The keeper's pipe, on which as-root sends it the launch spec. */
  keeperFd: number | undefined;
  /** The uids and gids that as-root assigned to this state directory. */
  ids: AgentIds | undefined;
  /** Set when the supervisor restarted the runtime. */
  restart: RestartInfo | undefined;
};

export function readArgv(argv: string[]): RuntimeArgs {
  const { values } = parseArgs({
    args: argv,
    strict: true,
    options: {
      state: { type: 'string' },
      mode: { type: 'string' },
      port: { type: 'string' },
      agents: { type: 'string' },
      config: { type: 'string' },
      'ready-fd': { type: 'string' },
      daemon: { type: 'string' },
      rehearsal: { type: 'string' },
      runtime: { type: 'string' },
      'keeper-fd': { type: 'string' },
      ids: { type: 'string' },
      restarts: { type: 'string' },
      'restarted-after': { type: 'string' },
    },
  });
  return {
    stateDir: resolve(values.state ?? defaultStateDir(process.env)),
    mode: values.mode === 'split' ? 'split' : 'embedded',
    port: values.port === undefined ? undefined : Number(values.port),
    agentsDir: values.agents === undefined ? undefined : resolve(values.agents),
    configFile: values.config === undefined ? undefined : resolve(values.config),
    readyFd: Number(values['ready-fd'] ?? 1),
    daemon: values.daemon,
    rehearsal: values.rehearsal,
    runtimeDir: values.runtime,
    keeperFd: values['keeper-fd'] === undefined ? undefined : Number(values['keeper-fd']),
    ids: values.ids === undefined ? undefined : (JSON.parse(values.ids) as AgentIds),
    restart:
      values.restarts === undefined
        ? undefined
        : { restarts: Number(values.restarts), after: values['restarted-after'] ?? 'unknown' },
  };
}

/** The arguments that pass `ids` on to another process. */
export const idsArgs = ({ ids }: Pick<RuntimeArgs, 'ids'>): string[] =>
  ids === undefined ? [] : ['--ids', JSON.stringify(ids)];

/** The arguments that pass `restart` on to another process. */
export const restartArgs = ({ restart }: Pick<RuntimeArgs, 'restart'>): string[] =>
  restart === undefined
    ? []
    : ['--restarts', String(restart.restarts), '--restarted-after', restart.after];

/** Only the warden runs as root; the keeper starts the daemons as another user (as-root.ts). */
export function assertNotRoot(): void {
  if (process.getuid?.() !== 0) return;
  throw fault('bad_usage', 'the daemons must not run as root', {
    hint: 'Start them with agentctl up, which runs only the warden as root.',
  });
}

/** Returns the built program, or its source file when there is no build. */
export function programPath(name: 'runner' | 'daemon' | 'rehearsal' | RuntimeMode): string {
  const here = dirname(fileURLToPath(import.meta.url));
  const built = join(here, `${name}.mjs`);
  if (existsSync(built)) return built;
  const root = rootDir();
  return join(
    root,
    name === 'runner'
      ? 'src/runner/main.ts'
      : name === 'rehearsal'
        ? 'rehearsal/main.ts'
        : `src/entry/${name}.ts`,
  );
}

/** Returns a native program, which the build puts beside the bundles. */
export function nativePath(name: 'warden' | 'boxfs'): string {
  const beside = join(dirname(fileURLToPath(import.meta.url)), name);
  return existsSync(beside) ? beside : join(rootDir(), 'build', name);
}

/** Returns the root of the source tree or installation: the parent of build/ or src/. */
export function rootDir(): string {
  let at = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(at, 'presets')) && at !== '/') at = dirname(at);
  return at;
}

export function loadRuntimeConfig(
  args: Pick<RuntimeArgs, 'stateDir' | 'configFile' | 'agentsDir' | 'rehearsal' | 'ids'>,
  readText?: (file: string) => string,
): RuntimeConfig {
  const config = loadConfig(args.configFile ?? join(args.stateDir, 'agentd.yaml'), SECTIONS, {
    mustExist: args.configFile !== undefined,
    readText,
  });
  Object.assign(config.sandboxd, args.ids);
  config.sandboxd.runner ??= programPath('runner');
  config.sandboxd.boxfs ??= nativePath('boxfs');
  config.agentd.package_dir ??= rootDir();
  config.agentd.starter_dir ??= join(rootDir(), 'presets', 'starter');
  if (args.configFile !== undefined)
    config.agentd.policies_dir ??= join(dirname(args.configFile), 'policies');
  if (args.agentsDir !== undefined) {
    if (!existsSync(args.agentsDir))
      throw fault('bad_config', `directory ${args.agentsDir} not found`, {
        hint: 'Check the path given with --agents.',
      });
    config.agentd.agents_dir = args.agentsDir;
  }
  const credentials = process.env.CREDENTIALS_DIRECTORY;
  if (credentials !== undefined) {
    config.modeld.credentials_dir ??= credentials;
    config.maild.credentials_dir ??= credentials;
  }
  if (args.rehearsal !== undefined) config.modeld.rehearsal = { address: args.rehearsal };
  return config;
}

/** Returns the options with which every daemon of this process is hosted. */
export function hostOptions(args: RuntimeArgs, config: RuntimeConfig): HostOptions {
  prepareStateDir(args.stateDir);
  const runtimeDir = makeRuntimeDir(args.runtimeDir ?? runtimeDirFor(args.stateDir, process.env));
  const clock = systemClock();
  return {
    version: VERSION,
    mode: args.mode,
    stateDir: args.stateDir,
    runtimeDir,
    operatorKey: loadOperatorKey(join(args.stateDir, 'operator.key')),
    config,
    loadConfig: () => loadRuntimeConfig(args),
    clock,
    random: randomBytes,
    newId: makeIdMaker(clock),
    log: makeLog(stderrSink, process.env.AGENTD_LOG === 'debug' ? 'debug' : 'info'),
    here: new Map(),
    ...(args.restart === undefined ? {} : { restart: args.restart }),
    ...(process.env.AGENTD_FAULTS === '1' ? { failpoint: crashAtFailpoint(args.stateDir) } : {}),
  };
}

/**
 * For fault tests. STATE/crash-at names a failpoint, how often to skip it, and optionally a process
 * for the test to kill (through STATE/crash-now) instead of this one.
 */
function crashAtFailpoint(stateDir: string): (name: string) => void {
  const file = join(stateDir, 'crash-at');
  let passed = 0;
  return (name) => {
    if (!existsSync(file)) return;
    const [wanted, times = '0', victim] = readIfPresent(file).trim().split(' ');
    if (wanted !== name || passed++ < Number(times)) return;
    rmSync(file, { force: true });
    if (victim !== undefined) return requestKill(join(stateDir, 'crash-now'), victim);
    process.kill(process.pid, 'SIGKILL');
    // The signal is asynchronous; nothing may happen after the failpoint.
    blockThread(10_000);
  };
}

/** Another process may remove the file between the check and the read. */
function readIfPresent(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
}

const blockThread = (ms: number): void =>
  void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

/** Blocks until the test has killed the process, which this one may have no permission to do. */
function requestKill(file: string, victim: string): void {
  writeAtomically(file, victim);
  const end = Date.now() + 10_000;
  while (existsSync(file) && Date.now() < end) blockThread(2);
}

export function writeReadyLine(fd: number, extra: Record<string, unknown> = {}): void {
  try {
    writeSync(fd, `${JSON.stringify({ ready: true, pid: process.pid, ...extra })}\n`);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EPIPE') throw cause;
    throw fault('canceled', 'the parent process exited before startup finished', { cause });
  }
}

/** Writes the error instead of the ready line, and exits with its status. */
export function refuseToStart(fd: number, error: unknown): never {
  const known =
    error instanceof Fault
      ? error
      : (diskFault(error) ??
        fault('internal', (error as Error).message ?? String(error), { cause: error }));
  try {
    writeSync(fd, `${JSON.stringify({ error: known.toBody() })}\n`);
  } catch {
    // The parent has exited; the exit status and the log still report the error.
  }
  ownLog.error(known.message, { code: known.code, stack: (error as Error).stack });
  process.exit(known.code === 'internal' ? 70 : 78);
}

/** Runs every step, also after a failure. Throws the first error. */
export async function runAllSteps(steps: readonly (() => void | Promise<void>)[]): Promise<void> {
  const failures: unknown[] = [];
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length === 0) return;
  for (const error of failures.slice(1)) ownLog.error('a shutdown step failed', { error });
  throw failures[0];
}

/** For the cleanup after a failed start, whose own error is the one to report. */
export const logCleanupFailure = (error: unknown): void =>
  ownLog.error('cleanup after a failed start failed', { error });

/** Calls `stop` once, on the first signal to shut down, then exits. */
export function onShutdown(stop: (why: string) => Promise<void>, withStdin: boolean): void {
  let ending = false;
  const end = (why: string): void => {
    if (ending) return;
    ending = true;
    setTimeout(() => process.exit(1), 15_000).unref();
    stop(why).then(
      () => process.exit(0),
      (error: unknown) => {
        ownLog.error('shutdown failed', { error });
        process.exit(1);
      },
    );
  };
  process.on('SIGTERM', () => end('SIGTERM'));
  process.on('SIGINT', () => end('SIGINT'));
  if (withStdin) {
    process.stdin.on('end', () => end('the parent exited'));
    process.stdin.on('error', () => end('the parent exited'));
    process.stdin.resume();
  }
}
