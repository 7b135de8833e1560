// Every daemon in the test's own process, with a clock that the test advances. Links, dispatch and
// stores are real; the runner and the rehearsal are real processes.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SandboxdConfig } from '../../src/daemons/sandboxd/config.ts';
import { LOADERS, SECTIONS } from '../../src/entry/daemon-modules.ts';
import { startWarden } from '../../src/entry/warden.ts';
import { loadOperatorKey } from '../../src/platform/authenticate.ts';
import { type ManualClock, manualClock } from '../../src/platform/clock.ts';
import { type HostOptions, hostDaemon, type RunningDaemon } from '../../src/platform/daemon.ts';
import { makeIdMaker } from '../../src/platform/ids.ts';
import { silentLog } from '../../src/platform/log.ts';
import { makePrivateDir, prepareStateDir } from '../../src/platform/state-dir.ts';
import { DAEMONS, type DaemonName, START_ORDER } from '../../src/wire/daemons.ts';
import { type Clients, freshDir, operatorClients, ROOT } from './runtime.ts';

export type InProcessWorld = Clients & {
  clock: ManualClock;
  stateDir: string;
  runtimeDir: string;
  hosted: Map<DaemonName, RunningDaemon>;
  options: HostOptions;
  operatorKey: string;
  stop(): Promise<void>;
};

export type WorldOptions = { [D in DaemonName]?: Record<string, unknown> } & {
  retention?: Record<string, unknown>;
  agents?: Record<string, string>;
  /** Site rules by file name. */
  policies?: Record<string, string>;
  /** Declarations of tools by file name. */
  tools?: Record<string, string>;
  /** The model; by default the rehearsal. */
  upstream?: string;
  startMs?: number;
  /** Daemons that are not started, to measure what they take. */
  without?: readonly DaemonName[];
};

export async function startWorld(options: WorldOptions = {}): Promise<InProcessWorld> {
  const base = freshDir();
  const stateDir = join(base, 'state');
  const runtimeDir = makePrivateDir(join(base, 'r'));
  prepareStateDir(stateDir);
  for (const [name, text] of Object.entries(options.agents ?? {})) {
    mkdirSync(join(base, 'agents'), { recursive: true });
    writeFileSync(join(base, 'agents', `${name}.yaml`), text);
  }
  for (const [name, text] of Object.entries(options.policies ?? {})) {
    mkdirSync(join(stateDir, 'policies'), { recursive: true, mode: 0o700 });
    writeFileSync(join(stateDir, 'policies', `${name}.cedar`), text);
  }
  for (const [name, text] of Object.entries(options.tools ?? {})) {
    mkdirSync(join(stateDir, 'tools'), { recursive: true, mode: 0o700 });
    writeFileSync(join(stateDir, 'tools', `${name}.yaml`), text, { mode: 0o600 });
  }
  const address = join(runtimeDir, 'rehearsal.sock');
  const rehearsal = options.upstream === undefined ? await startRehearsal(address) : undefined;
  const clock = manualClock(options.startMs ?? Date.parse('2026-03-01T09:00:00Z'));
  const key = loadOperatorKey(join(stateDir, 'operator.key'));
  const here = new Map<DaemonName, RunningDaemon>();
  const host: HostOptions = {
    version: 'test',
    mode: 'embedded',
    stateDir,
    runtimeDir,
    operatorKey: key,
    clock,
    random: randomBytes,
    newId: makeIdMaker(clock),
    log: silentLog,
    here,
    config: configOf({
      ...options,
      agentd: {
        package_dir: ROOT,
        site_dir: join(base, 'site'),
        starter_dir: join(ROOT, 'presets', 'starter'),
        ...(options.agents === undefined ? {} : { agents_dir: join(base, 'agents') }),
        ...options.agentd,
      },
      modeld: {
        rehearsal: { address: options.upstream ?? `unix:${address}` },
        ...options.modeld,
      },
      sandboxd: {
        runner: join(ROOT, 'build', 'runner.mjs'),
        boxfs: join(ROOT, 'build', 'boxfs'),
        ...options.sandboxd,
      },
    }),
  };
  const warden = await startWarden({
    config: host.config.sandboxd as SandboxdConfig,
    stateDir,
    runtimeDir,
    clientPid: process.pid,
    log: silentLog,
  });
  const order = START_ORDER.filter((name) => options.without?.includes(name) !== true);
  for (const name of order) await hostDaemon(await LOADERS[name](), host);
  for (const name of order) await here.get(name)!.begin();
  return {
    ...operatorClients(runtimeDir, key),
    clock,
    stateDir,
    runtimeDir,
    hosted: here,
    options: host,
    operatorKey: key,
    async stop() {
      const hosted = order.toReversed().map((name) => here.get(name)!);
      for (const daemon of hosted) await daemon.drain();
      for (const daemon of hosted) await daemon.stop();
      await warden.stop(5_000);
      rehearsal?.kill('SIGKILL');
      rmSync(base, { recursive: true, force: true });
    },
  };
}

/** Every section, with its defaults. */
const configOf = (options: WorldOptions): HostOptions['config'] =>
  Object.fromEntries(
    ([...DAEMONS, 'retention'] as const).map((name) => [
      name,
      SECTIONS[name].parse(options[name] ?? {}),
    ]),
  );

export async function startRehearsal(address: string, more: string[] = []): Promise<ChildProcess> {
  const child = spawn(
    process.execPath,
    [join(ROOT, 'build', 'rehearsal.mjs'), '--listen', address, '--exit-with-stdin', ...more],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  );
  await new Promise<void>((resolve, reject) => {
    child.stdout?.once('data', () => resolve());
    child.once('exit', (code) => reject(new Error(`the rehearsal ended with ${code}`)));
  });
  return child;
}
