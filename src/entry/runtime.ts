// Shared by embedded and split mode: locks the state directory, starts processes in order, opens
// the port, writes runtime.json, and shuts everything down in reverse order.
import { readdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { writeDialectError } from '../daemons/modeld/adapters/dialects.ts';
import { wardenPaths } from '../daemons/sandboxd/bounds.ts';
import type { HostOptions } from '../platform/daemon.ts';
import { type Lock, tryLock } from '../platform/lock.ts';
import {
  makePrivateDir,
  prepareStateDir,
  type RuntimeInfo,
  readRuntimeInfo,
  writeAtomically,
} from '../platform/state-dir.ts';
import { type SupervisedProcess, supervise } from '../platform/supervise.ts';
import type { DaemonName } from '../wire/daemons.ts';
import { fault } from '../wire/errors.ts';
import {
  hostOptions,
  idsArgs,
  loadRuntimeConfig,
  logCleanupFailure,
  programPath,
  type RuntimeArgs,
  type RuntimeConfig,
  restartArgs,
  runAllSteps,
  VERSION,
} from './options.ts';
import { makePort } from './port.ts';
import { acquireRuntimeDir } from './runtime-dir.ts';
import { startWarden } from './warden.ts';

/** The arguments of Node, and those of the program. */
type Argv = { node?: string[]; own: string[] };

export type Runtime = {
  config: RuntimeConfig;
  options: HostOptions;
  /** Starts a process of the runtime; processes are stopped in reverse order. */
  process(name: string, file: string, argv: Argv): Promise<void>;
  daemonProcess(name: DaemonName): Promise<void>;
  /** Starts the warden. It must be the first process, so that it is stopped last. */
  warden(config: RuntimeConfig): Promise<void>;
  /** Opens the port and writes runtime.json. */
  up(): Promise<RuntimeInfo>;
  down(): Promise<void>;
};

export async function openRuntime(args: RuntimeArgs): Promise<Runtime> {
  prepareStateDir(args.stateDir);
  const lock = tryLock(join(args.stateDir, 'runtime.lock'));
  if (lock === undefined) throw stateInUseFault(args.stateDir);
  let runtime: Runtime | undefined;
  try {
    // Read once, so that the daemons hosted here get the configuration that is used here.
    const config = loadRuntimeConfig(args);
    const needsRehearsal = Object.keys(config.modeld.providers).length === 0;
    const { screenplays_dir: plays } = config.modeld;
    const options = hostOptions(args, config);
    const address = join(options.runtimeDir, 'rehearsal', 'rehearsal.sock');
    const full: RuntimeArgs = needsRehearsal ? { ...args, rehearsal: `unix:${address}` } : args;
    if (needsRehearsal) config.modeld.rehearsal = { address: `unix:${address}` };
    const hasKeeper = args.runtimeDir !== undefined;
    const dirLock = hasKeeper ? undefined : await acquireRuntimeDir(options.runtimeDir, options);
    const release = (): void => {
      dirLock?.release();
      lock.release();
    };
    runtime = makeRuntime(full, options, { release });
    makePrivateDir(dirname(address));
    if (!hasKeeper) await runtime.warden(config);
    if (needsRehearsal)
      await runtime.process('rehearsal', programPath('rehearsal'), {
        // It has little work: a young heap of 1 MB is enough.
        node: ['--max-semi-space-size=1', '--expose-gc'],
        own: [
          '--listen',
          address,
          '--exit-with-stdin',
          ...(plays === undefined ? [] : ['--screenplays', plays]),
        ],
      });
    return runtime;
  } catch (error) {
    // No caller gets the runtime, so what was started has to be stopped here.
    if (runtime === undefined) lock.release();
    else await runtime.down().catch(logCleanupFailure);
    throw error;
  }
}

export function stateInUseFault(stateDir: string) {
  const info = readRuntimeInfo(stateDir);
  const who =
    info === undefined
      ? 'another runtime'
      : `the runtime with pid ${info.pid} (${info.mode}, since ${info.started_at})`;
  return fault('state_in_use', `${stateDir} is in use by ${who}`, { details: { ...info } });
}

function makeRuntime(args: RuntimeArgs, options: HostOptions, lock: Lock): Runtime {
  const children: SupervisedProcess[] = [];
  const config = options.config as RuntimeConfig;
  const outdated = new Set<string>();
  let known: RuntimeInfo | undefined;
  const writeInfo = (info: RuntimeInfo): RuntimeInfo => {
    known = { ...info, outdated: [...outdated] };
    writeAtomically(join(args.stateDir, 'runtime.json'), `${JSON.stringify(known)}\n`);
    return known;
  };
  const port = makePort({
    ...options,
    hostNames: config.runtime.host_names,
    dialectErrors: writeDialectError,
    onChange(state) {
      if (known === undefined) return;
      const { port_problem: _, ...info } = known;
      writeInfo({ ...info, ...state });
    },
  });
  const recordOutdated = (name: string, isOutdated: boolean): void => {
    if (isOutdated) outdated.add(name);
    else outdated.delete(name);
    if (known !== undefined) writeInfo(known);
  };
  const runtime: Runtime = {
    config,
    options,
    async process(name, file, { node = [], own }) {
      const { PATH, XDG_RUNTIME_DIR, CREDENTIALS_DIRECTORY, AGENTD_FAULTS, AGENTD_LOG } =
        process.env;
      // Their threads seldom allocate; an arena per thread would waste some megabytes.
      const env: Record<string, string> = { MALLOC_ARENA_MAX: '1' };
      for (const [key, value] of Object.entries({
        PATH,
        XDG_RUNTIME_DIR,
        CREDENTIALS_DIRECTORY,
        AGENTD_FAULTS,
        AGENTD_LOG,
      }))
        if (value !== undefined) env[key] = value;
      children.push(
        await supervise({
          name,
          file,
          argv: [...node, file, ...own],
          env,
          logFile: join(args.stateDir, 'logs', `${name}.log`),
          log: options.log,
          onOutdated: (isOutdated) => recordOutdated(name, isOutdated),
        }),
      );
    },
    async warden(config) {
      const { stateDir, runtimeDir, log } = options;
      // In split mode sandboxd may restart with another pid.
      const clientPid = args.mode === 'embedded' ? process.pid : undefined;
      const onOutdated = (isOutdated: boolean) => recordOutdated('warden', isOutdated);
      const deps = { config: config.sandboxd, stateDir, runtimeDir, clientPid, log, onOutdated };
      children.push(await startWarden(deps));
    },
    daemonProcess: (name) =>
      runtime.process(name, programPath('daemon'), {
        own: [
          '--daemon',
          name,
          '--state',
          args.stateDir,
          '--mode',
          args.mode,
          ...(args.configFile === undefined ? [] : ['--config', args.configFile]),
          ...(args.agentsDir === undefined ? [] : ['--agents', args.agentsDir]),
          ...(args.rehearsal === undefined ? [] : ['--rehearsal', args.rehearsal]),
          ...(args.runtimeDir === undefined ? [] : ['--runtime', args.runtimeDir]),
          ...idsArgs(args),
          ...restartArgs(args),
        ],
      }),
    async up() {
      const opened = await port.start(args.port ?? config.runtime.port);
      return writeInfo({
        // With a keeper its pid counts: stopping the keeper stops the runtime.
        pid: args.runtimeDir === undefined ? process.pid : process.ppid,
        uid: process.getuid?.() ?? 0,
        mode: args.mode,
        runtime_dir: options.runtimeDir,
        started_at: new Date().toISOString(),
        port: opened,
        ...(args.port === undefined ? {} : { port_requested: args.port }),
        ...(args.agentsDir === undefined ? {} : { agents_dir: args.agentsDir }),
        ...(args.configFile === undefined ? {} : { config_file: args.configFile }),
        rehearsal: args.rehearsal !== undefined,
        version: VERSION,
        outdated: [],
      });
    },
    async down() {
      await runAllSteps([
        () => port.close(),
        ...children.toReversed().map((child) => () => child.stop(10_000)),
        () => rmSync(join(args.stateDir, 'runtime.json'), { force: true }),
        () => removeRuntimeDir(options.runtimeDir, args.runtimeDir !== undefined),
        () => lock.release(),
      ]);
    },
  };
  return runtime;
}

/** The keeper removes the directory that it made; here only its contents are removed. */
function removeRuntimeDir(dir: string, hasKeeper: boolean): void {
  const remove = (path: string) => rmSync(path, { recursive: true, force: true });
  if (hasKeeper) for (const name of readdirSync(dir)) remove(join(dir, name));
  else for (const path of [dir, wardenPaths(dir).dir]) remove(path);
}
