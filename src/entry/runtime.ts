// What embedded and split have in common: the state directory is taken, the processes beside are
// started in order, the port is opened, who holds the state is written down, and all ends in the
// opposite order.
import { readdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { wardenPaths } from '../daemons/sandboxd/bounds.ts';
import type { HostOptions } from '../platform/daemon.ts';
import { peopleIn } from '../platform/person-keys.ts';
import {
  type Lock,
  ownDir,
  prepareStateDir,
  type RuntimeInfo,
  readRuntimeInfo,
  tryLock,
  writeAtomically,
} from '../platform/state-dir.ts';
import { type Supervised, supervise } from '../platform/supervise.ts';
import { openFront } from '../platform/tcp-gateway.ts';
import type { DaemonName } from '../wire/daemons.ts';
import { fault } from '../wire/errors.ts';
import {
  endAll,
  endedBadly,
  hostOptions,
  loadRuntimeConfig,
  programPath,
  type RuntimeArgs,
  type RuntimeConfig,
  VERSION,
} from './options.ts';
import { takeRuntimeDir } from './runtime-dir.ts';
import { startWarden } from './warden.ts';

/** Of Node before the program's file, and of the program after it. */
type Argv = { node?: string[]; own: string[] };

export type Runtime = {
  told: RuntimeArgs;
  config: RuntimeConfig;
  options: HostOptions;
  /** Starts one more process of the runtime; ended in reverse order. */
  process(name: string, file: string, argv: Argv): Promise<void>;
  daemonProcess(name: DaemonName): Promise<void>;
  /** Starts what starts every sandbox; before all others, and ended after them. */
  warden(config: RuntimeConfig): Promise<void>;
  /** Opens the port and writes down that this runtime is up. */
  up(): Promise<RuntimeInfo>;
  down(): Promise<void>;
};

export async function takeState(told: RuntimeArgs): Promise<Runtime> {
  prepareStateDir(told.stateDir);
  const lock = tryLock(join(told.stateDir, 'runtime.lock'));
  if (lock === undefined) throw stateInUseFault(told.stateDir);
  let runtime: Runtime | undefined;
  try {
    // Read once: what is decided here and what the daemons get must be the same file.
    const config = loadRuntimeConfig(told);
    const needsRehearsal = Object.keys(config.modeld.providers).length === 0;
    const { screenplays_dir: plays } = config.modeld;
    const options = hostOptions(told, config);
    const address = join(options.runtimeDir, 'rehearsal', 'rehearsal.sock');
    const full: RuntimeArgs = needsRehearsal ? { ...told, rehearsal: `unix:${address}` } : told;
    if (needsRehearsal) config.modeld.rehearsal = { address: `unix:${address}` };
    const isKept = told.runtimeDir !== undefined;
    const place = isKept ? undefined : await takeRuntimeDir(options.runtimeDir, options);
    const release = (): void => {
      place?.release();
      lock.release();
    };
    runtime = makeRuntime(full, options, { release });
    ownDir(dirname(address));
    if (!isKept) await runtime.warden(config);
    if (needsRehearsal)
      await runtime.process('rehearsal', programPath('rehearsal'), {
        // It answers little and seldom: a young heap of 1 MB is enough.
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
    // Nobody else is told of what was started and made so far.
    if (runtime === undefined) lock.release();
    else await runtime.down().catch(endedBadly);
    throw error;
  }
}

export function stateInUseFault(stateDir: string) {
  const info = readRuntimeInfo(stateDir);
  const who =
    info === undefined
      ? 'another runtime'
      : `the runtime with pid ${info.pid} (${info.mode}, since ${info.started_at})`;
  return fault('state_in_use', `${stateDir} is held by ${who}`, { details: { ...info } });
}

function makeRuntime(told: RuntimeArgs, options: HostOptions, lock: Lock): Runtime {
  const children: Supervised[] = [];
  let closeFront: () => Promise<void> = async () => {};
  const config = options.config as RuntimeConfig;
  const outdated = new Set<string>();
  let known: RuntimeInfo | undefined;
  const writeInfo = (info: RuntimeInfo): RuntimeInfo => {
    known = { ...info, outdated: [...outdated] };
    writeAtomically(join(told.stateDir, 'runtime.json'), `${JSON.stringify(known)}\n`);
    return known;
  };
  const tellOutdated = (name: string, isOutdated: boolean): void => {
    if (isOutdated) outdated.add(name);
    else outdated.delete(name);
    if (known !== undefined) writeInfo(known);
  };
  const runtime: Runtime = {
    told,
    config,
    options,
    async process(name, file, { node = [], own }) {
      const { PATH, XDG_RUNTIME_DIR, CREDENTIALS_DIRECTORY, AGENTD_FAULTS, AGENTD_LOG } =
        process.env;
      // Their threads seldom allocate; an arena for each would hold some megabytes for nothing.
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
          logFile: join(told.stateDir, 'logs', `${name}.log`),
          log: options.log,
          onOutdated: (isOutdated) => tellOutdated(name, isOutdated),
        }),
      );
    },
    async warden(config) {
      const { stateDir, runtimeDir, log } = options;
      // In split mode sandboxd is a process that may come again under another pid.
      const clientPid = told.mode === 'embedded' ? process.pid : undefined;
      const onOutdated = (isOutdated: boolean) => tellOutdated('warden', isOutdated);
      const parts = { config: config.sandboxd, stateDir, runtimeDir, clientPid, log, onOutdated };
      children.push(await startWarden(parts));
    },
    daemonProcess: (name) =>
      runtime.process(name, programPath('daemon'), {
        own: [
          '--daemon',
          name,
          '--state',
          told.stateDir,
          '--mode',
          told.mode,
          ...(told.configFile === undefined ? [] : ['--config', told.configFile]),
          ...(told.agentsDir === undefined ? [] : ['--agents', told.agentsDir]),
          ...(told.rehearsal === undefined ? [] : ['--rehearsal', told.rehearsal]),
          ...(told.runtimeDir === undefined ? [] : ['--runtime', told.runtimeDir]),
        ],
      }),
    async up() {
      let port: number | null = null;
      if (told.port !== undefined) {
        const front = await openFront({
          port: told.port,
          runtimeDir: options.runtimeDir,
          operatorKey: options.operatorKey,
          people: peopleIn(join(told.stateDir, 'people')),
          log: options.log,
          here: options.here,
        });
        port = front.port;
        closeFront = front.close;
      }
      return writeInfo({
        // Whoever ends the keeper ends all of it.
        pid: told.runtimeDir === undefined ? process.pid : process.ppid,
        uid: process.getuid?.() ?? 0,
        mode: told.mode,
        runtime_dir: options.runtimeDir,
        started_at: new Date().toISOString(),
        port,
        rehearsal: told.rehearsal !== undefined,
        version: VERSION,
        outdated: [],
      });
    },
    async down() {
      await endAll([
        closeFront,
        ...children.toReversed().map((child) => () => child.stop(10_000)),
        () => rmSync(join(told.stateDir, 'runtime.json'), { force: true }),
        () => removeRuntimeDir(options.runtimeDir, told.runtimeDir !== undefined),
        () => lock.release(),
      ]);
    },
  };
  return runtime;
}

/** One that the keeper made is the keeper's to remove, once it is empty. */
function removeRuntimeDir(dir: string, isKept: boolean): void {
  const remove = (path: string) => rmSync(path, { recursive: true, force: true });
  if (isKept) for (const name of readdirSync(dir)) remove(join(dir, name));
  else for (const path of [dir, wardenPaths(dir).dir]) remove(path);
}
