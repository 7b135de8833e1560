// A runtime as an operator has it: started and stopped by agentctl, under its supervisor. Its
// processes are found in /proc.
import { spawn } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { readSupervisor, type Supervisor } from '../../src/clients/agentctl/supervisor.ts';
import { readRuntimeInfo } from '../../src/platform/state-dir.ts';
import { childrenOf, fieldOf } from './processes.ts';
import { asUser, type Clients, freshDir, operatorClients, ROOT } from './runtime.ts';

const IS_ROOT = process.getuid?.() === 0;

export type InstallationOptions = {
  mode?: 'embedded' | 'split';
  config?: string;
  agents?: Record<string, string>;
  /** As this user instead of root; only root can. */
  uid?: number | undefined;
  base?: string;
  /** More options of agentctl up. */
  up?: readonly string[];
};

type Ran = { code: number | null; stdout: string; stderr: string };

/** The processes that a fault can end. */
export type ProcessName =
  | 'supervisor'
  | 'keeper'
  | 'main'
  | 'warden'
  | 'auditd-ai'
  | 'rehearsal'
  | 'runner';

export type Installation = {
  base: string;
  stateDir: string;
  run(...words: string[]): Promise<Ran>;
  /** The same, but throws on failure. */
  ctl(...words: string[]): Promise<string>;
  up(): Promise<string>;
  /** Clients of the runtime that runs, or ran last. */
  clients(): Clients;
  supervisor(): Supervisor | undefined;
  /** Empty while there is none. */
  pids(name: ProcessName): number[];
  remove(): Promise<void>;
};

export function makeInstallation(options: InstallationOptions = {}): Installation {
  const base = options.base ?? freshDir();
  const stateDir = join(base, 'state');
  const xdg = join(base, 'r');
  for (const dir of [stateDir, xdg]) mkdirSync(dir, { recursive: true, mode: 0o700 });
  if (options.config !== undefined) writeFileSync(join(stateDir, 'agentd.yaml'), options.config);
  const agents = join(base, 'agents');
  if (options.agents !== undefined) {
    mkdirSync(agents, { recursive: true });
    if (IS_ROOT) chmodSync(agents, 0o777);
    for (const [name, text] of Object.entries(options.agents))
      writeFileSync(join(agents, `${name}.yaml`), text);
  }
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: base,
    XDG_RUNTIME_DIR: xdg,
    AGENTD_STATE: stateDir,
  };
  const program = options.uid === undefined ? [process.execPath] : asUser(options.uid, base);
  const run = (...words: string[]): Promise<Ran> =>
    runProgram([...program, join(ROOT, 'build', 'agentctl.mjs'), ...words], env);
  const ctl = async (...words: string[]): Promise<string> => {
    const ran = await run(...words);
    if (ran.code === 0) return ran.stdout;
    throw new Error(`agentctl ${words.join(' ')}: ${ran.stdout}${ran.stderr}`);
  };
  const supervisor = () => readSupervisor(stateDir);
  return {
    base,
    stateDir,
    run,
    ctl,
    supervisor,
    up: () =>
      ctl(
        'up',
        ...(options.mode === 'split' ? ['--split'] : []),
        ...(options.agents === undefined ? [] : ['--agents', agents]),
        ...(options.up ?? []),
      ),
    clients() {
      const key = readFileSync(join(stateDir, 'operator.key'), 'utf8').trim();
      return operatorClients(readRuntimeInfo(stateDir)!.runtime_dir, key);
    },
    pids: (name) => findProcesses(name, stateDir),
    async remove() {
      await run('down');
      rmSync(base, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

function runProgram([program = '', ...argv]: string[], env: Record<string, string>): Promise<Ran> {
  const child = spawn(program, argv, { env, cwd: '/', stdio: ['ignore', 'pipe', 'pipe'] });
  const ran = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => {
      ran[name] += text;
    });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, ...ran }));
  });
}

function argvOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}

const isNamed = (pid: number, ...names: string[]): boolean =>
  argvOf(pid).some((word) => names.includes(basename(word)));

function findProcesses(name: ProcessName, stateDir: string): number[] {
  if (name === 'runner')
    return readdirSync(join(stateDir, 'runners')).map((entry) => Number(entry.split('-')[0]));
  // A janitor has the arguments of its warden.
  if (name === 'warden')
    return allProcesses().filter(
      (pid) => fieldOf(pid, 'Name') === 'warden' && argvOf(pid).includes(join(stateDir, 'HALT')),
    );
  const supervisors = allProcesses().filter(
    (pid) => basename(argvOf(pid)[0] ?? '') === 'supervisor' && argvOf(pid).includes(stateDir),
  );
  if (name === 'supervisor') return supervisors;
  // The supervisor may be gone.
  const known = readRuntimeInfo(stateDir)?.pid;
  const firsts = [...new Set([...supervisors.flatMap(childrenOf), known ?? []].flat())];
  const keepers = firsts.filter((pid) => basename(argvOf(pid)[0] ?? '') === 'keeper');
  if (name === 'keeper') return keepers;
  const mains = [...firsts, ...keepers.flatMap(childrenOf)].filter(
    (pid) => isNamed(pid, 'embedded.mjs', 'split.mjs') && argvOf(pid).includes(stateDir),
  );
  if (name === 'main') return mains;
  const children = mains.flatMap(childrenOf);
  return children.filter((pid) => isNamed(pid, name === 'rehearsal' ? 'rehearsal.mjs' : name));
}

const allProcesses = (): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
