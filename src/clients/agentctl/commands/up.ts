// agentctl up: starts the runtime under its supervisor, waits until it is ready, and prints a
// summary.
import { spawn } from 'node:child_process';
import {
  closeSync,
  constants,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import type { RuntimeInfo } from '../../../platform/state-dir.ts';
import { fault } from '../../../wire/errors.ts';
import type { Args, Session } from '../command.ts';
import { sleep } from '../follow.ts';
import { EXIT_INTERRUPTED, onInterrupt } from '../interrupt.ts';
import { makeStateDir, runAsOwner } from '../make-state-dir.ts';
import { findNative, findProgram } from '../programs.ts';
import { findRunning, type RuntimeState } from '../running.ts';
import { pluralize } from '../show/amounts.ts';
import { renderProblem } from '../show/problem.ts';
import { renderFields } from '../show/table.ts';
import { readRuntimeInfo } from '../state.ts';
import { describeRestart, readSupervisor, SUPERVISOR_FILE } from '../supervisor.ts';
import { describeNoAgents } from './agents.ts';
import { describeModels } from './catalog.ts';
import { readLastError } from './runtime-log.ts';
import { waitUntilReady, waitUntilUp } from './up-ready.ts';

const LOG_BYTES_MAX = 20_000_000;
const PORT_TIMEOUT_MS = 10_000;
const READY_FD = 3;
const STATUS_FD = 4;
/** In ten minutes. */
const RESTARTS_DEFAULT = 10;

export async function up(session: Session): Promise<number> {
  const { args, stateDir, out } = session;
  if (await isAlreadyUp(session)) return 0;
  const program = [
    ...listProgram(args),
    ...buildEntryArgs(args, stateDir),
    '--ready-fd',
    String(READY_FD),
  ];
  makeStateDir(stateDir);
  const listNewBackups = watchBackups(stateDir);
  if (args.flag('foreground')) return runInForeground(session, program, listNewBackups);
  const { signal, done } = onInterrupt();
  out.info(`Starting the runtime on ${stateDir} …`);
  const opened = runAsOwner(stateDir, (here) => openLog(join(here, 'logs', 'runtime.log')));
  const log = { ...opened, file: join(stateDir, 'logs', 'runtime.log') };
  const { argv, statusFd } = supervise(program, session);
  const [command = '', ...rest] = argv;
  const child = spawn(command, rest, {
    cwd: stateDir,
    detached: true,
    env: runtimeEnv(session.env),
    stdio: ['ignore', log.fd, log.fd, 'pipe', statusFd ?? 'ignore'],
  });
  closeSync(log.fd);
  if (statusFd !== undefined) closeSync(statusFd);
  try {
    const isUp = await waitUntilUp(child, {
      stateDir,
      out,
      signal,
      readLastError: () => readLastError(log),
    });
    if (!isUp) return EXIT_INTERRUPTED;
  } finally {
    done();
    (child.stdio[3] as Readable | null)?.destroy();
    child.unref();
  }
  await describeStart(session, listNewBackups());
  return 0;
}

/** The supervisor becomes the program: nothing restarts it. */
const withoutCoreFiles = (program: string[]): string[] => [
  findNative('supervisor'),
  '--once',
  '--',
  ...program,
];

/** Prefixes the supervisor, which gets supervisor.json open: as root it opens nothing in there. */
function supervise(
  program: string[],
  { args, stateDir }: Session,
): { argv: string[]; statusFd?: number } {
  if (args.flag('no-restart')) {
    removeSupervisorFile(stateDir);
    return { argv: withoutCoreFiles(program) };
  }
  const { O_CREAT, O_RDWR, O_NOFOLLOW } = constants;
  const statusFd = runAsOwner(stateDir, (here) =>
    openSync(join(here, SUPERVISOR_FILE), O_CREAT | O_RDWR | O_NOFOLLOW, 0o600),
  );
  const restarts = String(args.number('restarts') ?? RESTARTS_DEFAULT);
  const options = ['--ready-fd', READY_FD, '--status-fd', STATUS_FD, '--restarts', restarts];
  const argv = [findNative('supervisor'), ...options.map(String), '--', ...program];
  return { argv, statusFd };
}

const removeSupervisorFile = (stateDir: string): void =>
  runAsOwner(stateDir, (here) => rmSync(join(here, SUPERVISOR_FILE), { force: true }));

/** Returns a function that lists the database backups made since. */
function watchBackups(stateDir: string): () => string[] {
  const names = () => readdirSync(stateDir).filter((name) => /\.before-[\d.]+$/.test(name));
  const before = names();
  return () => names().filter((name) => !before.includes(name));
}

/** As root, starts the keeper, which keeps root for the warden; the daemons run without. */
function listProgram(args: Args): string[] {
  const node = process.execPath;
  if (process.getuid?.() === 0) return [findNative('keeper'), node, findProgram('as-root')];
  return [node, findProgram(args.flag('split') ? 'split' : 'embedded')];
}

const RUNTIME_VARIABLES = new RegExp(
  '^(PATH|HOME|LANG|LC_\\w+|TZ|XDG_RUNTIME_DIR|CREDENTIALS_DIRECTORY|SSL_CERT_\\w+|' +
    'NODE_EXTRA_CA_CERTS|AGENTD_\\w+)$',
);

/** A shell's environment contains keys and tokens that the runtime must not see. */
function runtimeEnv(env: Session['env']): NodeJS.ProcessEnv {
  const kept = Object.entries(env).filter(([name]) => RUNTIME_VARIABLES.test(name));
  return Object.fromEntries(kept);
}

/** Describes a runtime that is up, after opening the port that was asked for. */
async function isAlreadyUp(session: Session): Promise<boolean> {
  const { args, stateDir, out } = session;
  const running = await findRunning(stateDir);
  if (running?.answers !== true || args.flag('foreground')) {
    assertFree(stateDir, running);
    return false;
  }
  const { info } = running;
  const port = args.number('port');
  const opened = port === undefined ? info : await requestPort(stateDir, checkPort(port));
  await describeStart({ ...session, info: opened, already: true }, []);
  const changed = listChangedOptions(args, info);
  if (changed.length > 0)
    out.info(`${changed.join(', ')}: no effect on a running runtime; use agentctl restart.`);
  return true;
}

function listChangedOptions(args: Args, info: RuntimeInfo): string[] {
  const isChanged = {
    split: args.flag('split') && info.mode !== 'split',
    agents: isOtherPath(args.text('agents'), info.agents_dir),
    config: isOtherPath(args.text('config'), info.config_file),
    restarts: args.number('restarts') !== undefined,
    'no-restart': args.flag('no-restart'),
  };
  return Object.entries(isChanged).flatMap(([name, is]) => (is ? [`--${name}`] : []));
}

const isOtherPath = (given: string | undefined, now: string | undefined): boolean =>
  given !== undefined && resolve(given) !== now;

/** The runtime reads the file, opens the port, and writes the result to runtime.json. */
async function requestPort(stateDir: string, port: number): Promise<RuntimeInfo> {
  runAsOwner(stateDir, (here) =>
    writeFileSync(join(here, 'port-request'), `${port}\n`, { mode: 0o600 }),
  );
  const endMs = Date.now() + PORT_TIMEOUT_MS;
  while (Date.now() < endMs) {
    const info = readRuntimeInfo(stateDir);
    if (info?.port === port) return info;
    const problem = info?.port_problem;
    if (problem?.port === port) throw fault('conflict', problem.message, { hint: problem.hint });
    await sleep(50);
  }
  throw fault('deadline', `port ${port} was not opened within ${PORT_TIMEOUT_MS / 1_000} s`, {
    hint: 'See logs/runtime.log in the state directory.',
  });
}

function assertFree(stateDir: string, running: RuntimeState | undefined): void {
  const supervisor = readSupervisor(stateDir);
  if (running === undefined && supervisor?.isAlive === true)
    throw fault('state_in_use', `${stateDir} is in use: ${describeRestart(supervisor)}`, {
      hint: 'Wait, then run agentctl status; or stop it with agentctl down.',
    });
  if (running === undefined) return;
  const { pid, mode, started_at } = running.info;
  throw fault(
    'state_in_use',
    `${stateDir} is in use by a runtime: pid ${pid}, ${mode}, since ${started_at}`,
    {
      hint: 'Use it, stop it with agentctl down, or name another --state.',
      details: { ...running.info },
    },
  );
}

export function buildEntryArgs(args: Args, stateDir: string): string[] {
  const path = (name: string) => {
    const value = args.text(name);
    return value === undefined ? [] : [`--${name}`, resolve(value)];
  };
  const port = args.number('port');
  return [
    '--state',
    stateDir,
    '--mode',
    args.flag('split') ? 'split' : 'embedded',
    ...(port === undefined ? [] : ['--port', String(checkPort(port))]),
    ...path('agents'),
    ...path('config'),
  ];
}

function checkPort(port: number): number {
  if (port <= 65_535) return port;
  throw fault('bad_usage', `invalid port ${port}`, { hint: 'Use one from 1 to 65535.' });
}

/** Rotates a large log; keeps one old file. */
function openLog(file: string): { fd: number; from: number } {
  const sizeNow = () => statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  if (sizeNow() > LOG_BYTES_MAX) renameSync(file, `${file}.1`);
  const { O_APPEND, O_CREAT, O_WRONLY, O_NOFOLLOW } = constants;
  const fd = openSync(file, O_APPEND | O_CREAT | O_WRONLY | O_NOFOLLOW, 0o600);
  return { fd, from: sizeNow() };
}

/** Shares the log's output and forwards signals. */
async function runInForeground(
  session: Session,
  program: string[],
  listNewBackups: () => string[],
): Promise<number> {
  removeSupervisorFile(session.stateDir);
  const [command = '', ...rest] = withoutCoreFiles(program);
  const child = spawn(command, rest, {
    cwd: session.stateDir,
    // Its own process group: Ctrl-C reaches it once, through the handler below.
    detached: true,
    env: runtimeEnv(session.env),
    stdio: ['ignore', 'inherit', 'inherit', 'pipe'],
  });
  const forward = (): void => void child.kill('SIGTERM');
  process.on('SIGINT', forward);
  process.on('SIGTERM', forward);
  const exited = new Promise<string | undefined>((done) =>
    child.once('exit', (code, name) =>
      done(code === 0 ? undefined : (name ?? `exit status ${code}`)),
    ),
  );
  await waitUntilReady(child, () => undefined);
  await describeStart(session, listNewBackups());
  session.out.info('Ctrl-C stops it.');
  const how = await exited;
  if (how === undefined) return 0;
  throw fault('internal', `the runtime ended (${how})`, {
    hint: 'Start it again: agentctl up. Unfinished work resumes.',
  });
}

async function describeStart(
  session: Session & { info?: RuntimeInfo; already?: true },
  copies: readonly string[],
): Promise<void> {
  const { out, stateDir, runtime, already } = session;
  const info = session.info ?? runtime().info;
  const [models, team] = await Promise.all([
    runtime().call('modeld', 'listModels', {}),
    runtime().call('agentd', 'listAgents', {}),
  ]);
  const rehearsal = models.models.every((model) => model.rehearsal);
  const names = team.agents.map(({ name }) => name);
  const document = {
    ...info,
    already_up: already === true,
    state_dir: stateDir,
    rehearsal,
    agents: names,
    problems: team.problems,
    copies,
  };
  out.print({ runtime: document }, () => [
    `${out.paint('green', `The runtime is ${already === true ? 'already up' : 'up'}`)}: ${info.mode}, pid ${info.pid}`,
    ...renderFields(
      [
        ['state', stateDir],
        ['backups', copies.length === 0 ? undefined : formatBackups(copies)],
        ['port', info.port === null ? undefined : `127.0.0.1:${info.port}`],
        ['model', describeModels(models)],
        [
          'agents',
          names.length === 0 ? 'none' : `${pluralize(names.length, 'agent')}: ${names.join(', ')}`,
        ],
      ],
      out.paint,
      out.columns,
    ),
    ...team.problems.flatMap((problem) => renderProblem(problem, out.paint)),
    '',
    names.length === 0
      ? describeNoAgents(team.problems.length)
      : 'Next: agentctl task create "what you want done" --wait',
  ]);
}

function formatBackups(copies: readonly string[]): string {
  return `upgraded from an earlier version; backups: ${copies.toSorted().join(', ')}`;
}
