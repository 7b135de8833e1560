// What the runtime's processes are told when they start, and what they share: where state is, which
// configuration holds, how to say that they are ready.
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { operatorKey } from '../platform/authenticate.ts';
import { systemClock } from '../platform/clock.ts';
import { type Config, loadConfig } from '../platform/config.ts';
import type { HostOptions } from '../platform/daemon.ts';
import { diskFault } from '../platform/disk-fault.ts';
import { idMaker } from '../platform/ids.ts';
import { makeLog, stderrSink } from '../platform/log.ts';
import {
  defaultStateDir,
  ownRuntimeDir,
  prepareStateDir,
  runtimeDirOf,
  writeAtomically,
} from '../platform/state-dir.ts';
import { Fault, fault } from '../wire/errors.ts';
import { SECTIONS } from './daemon-modules.ts';

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
  /** Where this runtime's own models are played, when no provider is configured. */
  rehearsal: string | undefined;
  /** Made by the keeper, which holds root for the warden; then that runs already. */
  runtimeDir: string | undefined;
  /** The keeper's pipe, on which as-root sends it the launch spec. */
  keeperFd: number | undefined;
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
  };
}

/** Root is for the warden alone: the keeper starts these as another user (as-root.ts). */
export function assertNotRoot(): void {
  if (process.getuid?.() !== 0) return;
  throw fault('bad_usage', 'the daemons never run as root', {
    hint: 'Start them with agentctl up, which keeps root for the warden alone.',
  });
}

/** The built program `name`, or its source when run from the sources. */
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

/** A program in C that the build made beside the bundles. */
export function nativePath(name: 'warden' | 'boxfs'): string {
  const beside = join(dirname(fileURLToPath(import.meta.url)), name);
  return existsSync(beside) ? beside : join(rootDir(), 'build', name);
}

/** The top of the tree that this program belongs to: beside build/ or src/. */
export function rootDir(): string {
  let at = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(at, 'presets')) && at !== '/') at = dirname(at);
  return at;
}

export function loadRuntimeConfig(
  told: Pick<RuntimeArgs, 'stateDir' | 'configFile' | 'agentsDir' | 'rehearsal'>,
  readText?: (file: string) => string,
): RuntimeConfig {
  const config = loadConfig(told.configFile ?? join(told.stateDir, 'agentd.yaml'), SECTIONS, {
    mustExist: told.configFile !== undefined,
    readText,
  });
  config.sandboxd.runner ??= programPath('runner');
  config.sandboxd.boxfs ??= nativePath('boxfs');
  config.agentd.starter_dir ??= join(rootDir(), 'presets', 'starter');
  if (told.configFile !== undefined)
    config.agentd.policies_dir ??= join(dirname(told.configFile), 'policies');
  if (told.agentsDir !== undefined) {
    if (!existsSync(told.agentsDir))
      throw fault('bad_config', `there is no directory ${told.agentsDir}`, {
        hint: 'Check the path given with --agents.',
      });
    config.agentd.agents_dir = told.agentsDir;
  }
  const credentials = process.env.CREDENTIALS_DIRECTORY;
  if (credentials !== undefined) config.modeld.credentials_dir ??= credentials;
  if (told.rehearsal !== undefined) config.modeld.rehearsal = { address: told.rehearsal };
  return config;
}

/** What every daemon of this process is hosted with. */
export function hostOptions(told: RuntimeArgs, config: RuntimeConfig): HostOptions {
  prepareStateDir(told.stateDir);
  const runtimeDir = ownRuntimeDir(told.runtimeDir ?? runtimeDirOf(told.stateDir, process.env));
  const clock = systemClock();
  return {
    version: VERSION,
    mode: told.mode,
    stateDir: told.stateDir,
    runtimeDir,
    operatorKey: operatorKey(join(told.stateDir, 'operator.key')),
    config,
    clock,
    random: randomBytes,
    newId: idMaker(clock),
    log: makeLog(stderrSink, process.env.AGENTD_LOG === 'debug' ? 'debug' : 'info'),
    here: new Map(),
    ...(process.env.AGENTD_FAULTS === '1' ? { failpoint: crashAtFailpoint(told.stateDir) } : {}),
  };
}

/**
 * For fault tests: STATE/crash-at names a moment, how many times to let it pass, and who dies then:
 * this process, or whom the test is asked to kill by STATE/crash-now.
 */
function crashAtFailpoint(stateDir: string): (name: string) => void {
  const file = join(stateDir, 'crash-at');
  let passed = 0;
  return (name) => {
    if (!existsSync(file)) return;
    const [wanted, times = '0', who] = readOrNothing(file).trim().split(' ');
    if (wanted !== name || passed++ < Number(times)) return;
    rmSync(file, { force: true });
    if (who !== undefined) return askToKill(join(stateDir, 'crash-now'), who);
    process.kill(process.pid, 'SIGKILL');
    // The signal is asynchronous; nothing may happen after the moment.
    standStill(10_000);
  };
}

/** Whoever dies takes the file away, and that may be another process, just now. */
function readOrNothing(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
}

const standStill = (ms: number): void =>
  void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

/** Others are for the test to kill: this process may have no right to. Until then all stands. */
function askToKill(file: string, who: string): void {
  writeAtomically(file, who);
  const end = Date.now() + 10_000;
  while (existsSync(file) && Date.now() < end) standStill(2);
}

export function sayReady(fd: number, extra: Record<string, unknown> = {}): void {
  try {
    writeSync(fd, `${JSON.stringify({ ready: true, pid: process.pid, ...extra })}\n`);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EPIPE') throw cause;
    throw fault('canceled', 'whoever started this went away before it was ready', { cause });
  }
}

/**
 * The reason for not starting goes to whoever waits for the ready line, and sets the exit status.
 */
export function refuseToStart(fd: number, error: unknown): never {
  const known =
    error instanceof Fault
      ? error
      : (diskFault(error) ??
        fault('internal', (error as Error).message ?? String(error), { cause: error }));
  try {
    writeSync(fd, `${JSON.stringify({ error: known.toBody() })}\n`);
  } catch {
    // Nobody waits any more; the exit status and the log still tell.
  }
  ownLog.error(known.message, { code: known.code, stack: (error as Error).stack });
  process.exit(known.code === 'internal' ? 70 : 78);
}

/** Does every step, whatever became of those before it; the first that failed is thrown. */
export async function endAll(steps: readonly (() => void | Promise<void>)[]): Promise<void> {
  const failures: unknown[] = [];
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length === 0) return;
  for (const error of failures.slice(1)) ownLog.error('did not end in order', { error });
  throw failures[0];
}

/** After a refusal to start, which is what is told: what could not be ended is said too. */
export const endedBadly = (error: unknown): void =>
  ownLog.error('what had been started did not end in order', { error });

/** Calls `stop` once, on the first sign that this process should end. */
export function onEnd(stop: (why: string) => Promise<void>, withStdin: boolean): void {
  let ending = false;
  const end = (why: string): void => {
    if (ending) return;
    ending = true;
    const last = setTimeout(() => process.exit(1), 15_000);
    last.unref();
    stop(why).then(
      () => process.exit(0),
      (error: unknown) => {
        ownLog.error('did not end in order', { error });
        process.exit(1);
      },
    );
  };
  process.on('SIGTERM', () => end('SIGTERM'));
  process.on('SIGINT', () => end('SIGINT'));
  if (withStdin) {
    process.stdin.on('end', () => end('the parent is gone'));
    process.stdin.on('error', () => end('the parent is gone'));
    process.stdin.resume();
  }
}
