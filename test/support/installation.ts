// A runtime as an operator has it: started and stopped by agentctl, under its supervisor. Its
// processes are found in /proc.
import { spawn } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { readSupervisor, type Supervisor } from '../../src/clients/agentctl/supervisor.ts';
import { readRuntimeInfo } from '../../src/platform/state-dir.ts';
import { DAEMONS, type DaemonName } from '../../src/wire/daemons.ts';
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

/** The processes that a fault can end. A daemon has one of its own in split mode. */
export type ProcessName =
  | 'supervisor'
  | 'keeper'
  | 'main'
  | 'warden'
  | 'rehearsal'
  | 'runner'
  | DaemonName;

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
  processes(): Processes;
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
    AGENTD_KEEPER_DIR: join(xdg, 'keeper'),
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
    processes: () => findProcesses(stateDir),
    pids: (name) => findProcesses(stateDir)[name] ?? [],
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

type ProcessInfo = { pid: number; parent: number; name: string; argv: string[] };

/** A process may end while this reads it. */
function listProcesses(): ProcessInfo[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
        const [name = '', rest = ''] = stat.slice(stat.indexOf('(') + 1).split(/\) (?=\w )/);
        const argv = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
        return [{ pid: Number(pid), parent: Number(rest.split(' ')[1]), name, argv }];
      } catch {
        return [];
      }
    });
}

export type Processes = Partial<Record<ProcessName, number[]>>;

function findProcesses(stateDir: string): Processes {
  const all = listProcesses();
  const found: Processes = { runner: listRunners(stateDir) };
  const add = (name: ProcessName, pid: number): void => {
    found[name] = [...(found[name] ?? []), pid];
  };
  for (const { pid, name, argv } of all) {
    const program = basename(argv[0] ?? '');
    if (program === 'supervisor' && argv.includes(stateDir)) add('supervisor', pid);
    if (program === 'keeper' && argv.includes(stateDir)) add('keeper', pid);
    // A janitor has the arguments of its warden.
    if (name === 'warden' && argv.includes(join(stateDir, 'HALT'))) add('warden', pid);
    const entry = argv.find((word) => /\/(embedded|split)\.mjs$/.test(word));
    if (entry !== undefined && !['supervisor', 'keeper'].includes(program)) {
      if (argv.includes(stateDir)) add('main', pid);
    }
  }
  const mains = found.main ?? [];
  for (const { pid, argv } of all.filter(({ parent }) => mains.includes(parent))) {
    // A daemon renames itself once it runs.
    const daemon = argv[argv.indexOf('--daemon') + 1];
    const name = DAEMONS.find((known) => known === argv[0] || known === daemon);
    if (name !== undefined) add(name, pid);
    else if (argv.some((word) => basename(word) === 'rehearsal.mjs')) add('rehearsal', pid);
  }
  return found;
}

const listRunners = (stateDir: string): number[] =>
  existsSync(join(stateDir, 'runners'))
    ? readdirSync(join(stateDir, 'runners')).map((entry) => Number(entry.split('-')[0]))
    : [];
