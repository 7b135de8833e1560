// A real runtime for tests: its own processes, state directory and sockets, called as an operator.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  constants,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { type Client, makeClient, socketLink } from '../../src/platform/link.ts';
import type { RuntimeInfo } from '../../src/platform/state-dir.ts';
import type { TaskView } from '../../src/wire/agentd.ts';
import { CONTRACTS } from '../../src/wire/contracts.ts';
import { DAEMONS, type DaemonName } from '../../src/wire/daemons.ts';
import { faultFromBody } from '../../src/wire/errors.ts';
import type { RouteTable } from '../../src/wire/route.ts';

const IS_ROOT = process.getuid?.() === 0;
export const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..', '..');

/** The daemons that keep a database. */
export const DAEMONS_WITH_STORE = DAEMONS.filter((name) =>
  ['store', 'store.ts'].some((part) => existsSync(join(ROOT, 'src', 'daemons', name, part))),
);

type Contracts = typeof CONTRACTS;
export type Clients = { [D in Exclude<DaemonName, 'auditd-ai'>]: Client<Contracts[D]> } & {
  audit: Client<Contracts['auditd-ai']>;
};

export type TestRuntime = Clients & {
  stateDir: string;
  runtimeDir: string;
  info: RuntimeInfo;
  operatorKey: string;
  /** The process that was started: the runtime, or the keeper above it. */
  process: ChildProcess;
  /** The process that contains the daemons or starts them. */
  runtimePid: number;
  env: Record<string, string>;
  /** Ends it as `agentctl down` does. */
  stop(): Promise<void>;
  /** Kills it and waits until it is gone. */
  kill(): Promise<void>;
  /** Starts it again on the same state. */
  restart(): Promise<TestRuntime>;
  /** Stops it and removes everything it created. */
  remove(): Promise<void>;
};

export type RuntimeOptions = {
  mode?: 'embedded' | 'split';
  /** agentd.yaml */
  config?: string;
  /** name → manifest text; the starter team when absent. */
  agents?: Record<string, string>;
  faults?: boolean;
  port?: number;
  /** Options of Node itself, for the runtime's own process. */
  nodeArgs?: readonly string[];
  /** The user to run as; needs root. */
  uid?: number;
  /** Reuse this directory instead of a fresh one. */
  base?: string;
  /** Root's, for what outlives the runtimes of this host; by default its own. */
  keeperDir?: string;
  /** The directory of the programs, by default the build's. */
  build?: string;
};

export function operatorClients(runtimeDir: string, key: string): Clients {
  const headers = { authorization: `Bearer ${key}`, 'agentd-person': 'tester' };
  const clients = DAEMONS.map((daemon) => {
    const socketPath = socketPathFor(runtimeDir, daemon, 'operator');
    const client = makeClient(CONTRACTS[daemon] as RouteTable, socketLink({ socketPath, headers }));
    return [daemon === 'auditd-ai' ? 'audit' : daemon, client];
  });
  return Object.fromEntries(clients) as Clients;
}

/** Creates a file that daemons of any user may write to. */
export function writableFile(path: string): string {
  writeFileSync(path, '');
  chmodSync(path, 0o666);
  return path;
}

const made: string[] = [];
process.once('exit', () => {
  for (const dir of made) {
    try {
      rmSync(dir, { recursive: true, force: true });
    } catch {
      // Something is still mounted or running there. The test that left it has failed before.
    }
  }
});

/** The caller removes it; the directory of an aborted test is removed with this process. */
export function freshDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 't-'));
  made.push(dir);
  return dir;
}

/** The command of `agentctl up`: as root through the keeper, so that no daemon is root. */
export function entryCommand(
  mode: 'embedded' | 'split',
  nodeArgs: readonly string[] = [],
  build = join(ROOT, 'build'),
): string[] {
  const inBuild = (name: string) => join(build, name);
  const node = [process.execPath, ...nodeArgs];
  if (!IS_ROOT) return [...node, inBuild(`${mode}.mjs`)];
  return [inBuild('keeper'), ...node, inBuild('as-root.mjs')];
}

export async function startRuntime(options: RuntimeOptions = {}): Promise<TestRuntime> {
  const base = options.base ?? freshDir();
  const stateDir = join(base, 'state');
  const xdg = join(base, 'r');
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  mkdirSync(xdg, { recursive: true, mode: 0o700 });
  if (options.config !== undefined) writeFileSync(join(stateDir, 'agentd.yaml'), options.config);
  if (options.agents !== undefined) {
    mkdirSync(join(base, 'agents'), { recursive: true });
    // Manifests are written by daemons that are not root.
    if (IS_ROOT) chmodSync(join(base, 'agents'), 0o777);
    for (const [name, text] of Object.entries(options.agents))
      writeFileSync(join(base, 'agents', `${name}.yaml`), text);
  }
  const mode = options.mode ?? 'embedded';
  const env: Record<string, string> = {
    PATH: process.env.PATH ?? '',
    HOME: base,
    XDG_RUNTIME_DIR: xdg,
    AGENTD_KEEPER_DIR: options.keeperDir ?? join(base, 'keeper'),
    ...(options.faults === true ? { AGENTD_FAULTS: '1' } : {}),
  };
  const argv = [
    '--state',
    stateDir,
    '--mode',
    mode,
    '--ready-fd',
    '1',
    ...(options.port === undefined ? [] : ['--port', String(options.port)]),
    ...(options.agents === undefined ? [] : ['--agents', join(base, 'agents')]),
  ];
  const program =
    options.uid === undefined
      ? entryCommand(mode, options.nodeArgs, options.build)
      : [...asUser(options.uid, base), join(ROOT, 'build', `${mode}.mjs`)];
  const child = spawn(program[0]!, [...program.slice(1), ...argv], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const gone = () =>
    child.exitCode !== null || child.signalCode !== null
      ? Promise.resolve()
      : new Promise<void>((resolve) => child.once('exit', () => resolve()));
  let log = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    log = (log + chunk.toString('utf8')).slice(-20_000);
  });
  const info = await readyLine(child, () => log).catch(async (error: unknown) => {
    child.kill('SIGKILL');
    await gone();
    // No caller has the directory yet, so remove it here.
    if (options.base === undefined) rmSync(base, { recursive: true, force: true });
    throw error;
  });
  const runtimePid =
    options.uid === undefined && IS_ROOT
      ? await eventually('the runtime below the keeper', async () => nodeChildOf(child.pid!))
      : child.pid!;
  const operatorKey = readFileSync(join(stateDir, 'operator.key'), 'utf8').trim();
  const stop = async () => {
    child.kill('SIGTERM');
    await gone();
  };
  return {
    ...operatorClients(info.runtime_dir, operatorKey),
    stateDir,
    runtimeDir: info.runtime_dir,
    info,
    operatorKey,
    process: child,
    runtimePid,
    env,
    stop,
    async kill() {
      // Not the keeper: it would end before the daemons.
      if (child.exitCode === null && child.signalCode === null) process.kill(runtimePid, 'SIGKILL');
      await gone();
    },
    restart: () => startRuntime({ ...options, base }),
    async remove() {
      await stop();
      rmSync(base, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

/** The kernel's list may be incomplete while children end, and they may end meanwhile. */
function nodeChildOf(pid: number): number | undefined {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
  return children.map(Number).find((child) => {
    const [program = ''] = readFileSync(`/proc/${child}/cmdline`, 'utf8').split('\0');
    return program === process.execPath;
  });
}

/** Ignores files that an earlier runtime is still removing. */
function chownTo(uid: number, base: string): void {
  for (let triesLeft = 5; ; triesLeft--) {
    const { status, stderr } = spawnSync('chown', ['-R', `${uid}:${uid}`, base], {
      encoding: 'utf8',
    });
    if (status === 0) return;
    if (triesLeft === 0 || !stderr.includes('No such file')) throw new Error(stderr);
  }
}

/** Copies Node where that user can read it, chowns `base`, and returns the setpriv command. */
export function asUser(uid: number, base: string): string[] {
  const node = join(base, 'node');
  if (!existsSync(node)) copyFileSync(process.execPath, node, constants.COPYFILE_FICLONE);
  chmodSync(node, 0o755);
  chownTo(uid, base);
  return ['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', '--', node];
}

function readyLine(child: ChildProcess, log: () => string): Promise<RuntimeInfo> {
  return new Promise((resolve, reject) => {
    let text = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      text += chunk.toString('utf8');
      const end = text.indexOf('\n');
      if (end < 0) return;
      const line = JSON.parse(text.slice(0, end)) as RuntimeInfo & { ready?: boolean };
      if (line.ready === true) resolve(line);
      else reject(faultFromBody(line));
    });
    const ended = () =>
      reject(
        new Error(
          `the runtime ended (${child.signalCode ?? child.exitCode}) before it was ready:\n${log()}`,
        ),
      );
    // Its last output may still be in the pipe, which a process it left may hold open.
    child.once('close', ended);
    child.once('exit', () => setTimeout(ended, 10_000).unref());
  });
}

export async function eventually<T>(
  what: string,
  look: () => Promise<T | undefined>,
  withinMs = 30_000,
): Promise<T> {
  const end = performance.now() + withinMs;
  let last: unknown;
  while (performance.now() < end) {
    try {
      const found = await look();
      if (found !== undefined) return found;
    } catch (error) {
      last = error;
    }
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error(`${what} did not happen within ${withinMs} ms`, { cause: last });
}

/** Sleeps at least this long; in small steps, so longer on a busy machine. */
export async function pauses(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 25)
    await new Promise((resolve) => setTimeout(resolve, 25));
}

export function taskEnded(runtime: Clients, id: string, withinMs = 60_000): Promise<TaskView> {
  return eventually(
    `the end of ${id}`,
    async () => {
      const { task } = await runtime.agentd.getTask({ params: { id: id as never } });
      return task.ended_at === null ? undefined : task;
    },
    withinMs,
  );
}
