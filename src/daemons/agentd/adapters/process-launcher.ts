// Starts and ends the processes of runs: nothing inherited, a group of its own, and no survivor of
// a dead agentd. The interface is what a stronger launcher fits later; leases and fences are the
// service's.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readdirSync, readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../../platform/log.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import { openProcessRecords, type ProcessRecords } from './process-records.ts';

export type RunExit = { code: number | null; signal: string | null; stderrTail: string };

export type LaunchPlan = {
  runId: string;
  fence: number;
  agent: string;
  /** What follows the runner's own path. */
  argv: string[];
  /** Called once, when the process is gone. */
  onExit: (exit: RunExit) => void;
};

export type Launched = {
  pid: number;
  /** Hands it a line; what it was not given at its start it learns so. */
  tell(line: string): void;
  /** Asks it to end, then makes it; returns when it is gone. */
  kill(reason: string): Promise<void>;
};

export type Launcher = {
  start(plan: LaunchPlan): Promise<Launched>;
  /**
   * Ends every process started here and returns when all are gone. Starting goes on to be possible.
   */
  stopAll(): Promise<void>;
};

export type LauncherOptions = {
  /** The runner's program. */
  runnerPath: string;
  /** Where to remember live processes, for whoever comes after this agentd. */
  recordsDir: string;
  log: Log;
  /** How long a process may take to end by itself. */
  graceMs?: number;
};

export type ProcessLauncher = Launcher & {
  /**
   * Ends what an earlier agentd left running; returns how many there were. To be called before
   * start.
   */
  sweep(): Promise<number>;
};

const stderrTailBytesMax = 8_192;
/** A halt must end a runner that does not listen within two seconds; it has nothing to lose. */
const GRACE_MS = 500;
/** Output that is still on its way when the process has gone. */
const lastWordsMs = 500;

type Stdio = ('pipe' | 'ignore' | number)[];
type Live = { kill(reason: string): Promise<void> };

export function makeProcessLauncher(options: LauncherOptions): ProcessLauncher {
  const { log } = options;
  const records = openProcessRecords(options.recordsDir);
  const graceMs = options.graceMs ?? GRACE_MS;
  const live = new Set<Live>();
  const stdio = makeStdio();

  const start = async (plan: LaunchPlan): Promise<Launched> => {
    // No await before it is in `live`: a stopAll that comes next must find it.
    const child = spawnRunner(options.runnerPath, stdio, plan);
    const { pid } = child;
    if (pid === undefined) throw whyNotStarted(plan, (await once(child, 'error'))[0]);
    const forget = remember(records, pid, plan, log);
    const ended = watchEnd(child, pid).then((exit) => {
      live.delete(entry);
      forget();
      try {
        plan.onExit(exit);
      } catch (error) {
        log.error('the end of a runner could not be handled', { run: plan.runId, error });
      }
    });
    const entry = { kill: makeKill({ child, pid, ended, graceMs, plan, log }) };
    live.add(entry);
    return { pid, tell: (line) => void child.stdin!.write(`${line}\n`), kill: entry.kill };
  };

  return {
    start,
    async stopAll() {
      await Promise.all([...live].map((one) => one.kill('everything is stopped')));
    },
    sweep: () => records.sweep(log),
  };
}

/**
 * stdin is where a runner is told things, and a lifeline: it ends when this process does, however
 * that happens, and a runner whose stdin has ended ends itself. stderr is kept for the report of a
 * crash.
 */
function makeStdio(): Stdio {
  const stdio: Stdio = ['pipe', 'ignore', 'pipe'];
  for (const fd of listLeaking()) {
    while (stdio.length < fd) stdio.push('ignore');
    stdio[fd] = openSync('/dev/null', 'r');
  }
  return stdio;
}

/**
 * Descriptors that this process was itself started with and that would pass through to its
 * children: Node marks those it opens, and the low ones it finds, but not all. A child gets
 * /dev/null in their place.
 */
function listLeaking(): number[] {
  const closeOnExec = 0o2000000;
  return readdirSync('/proc/self/fdinfo')
    .map(Number)
    .filter((fd) => fd > 2 && (flagsOf(fd) & closeOnExec) === 0)
    .sort((a, b) => a - b);
}

function flagsOf(fd: number): number {
  try {
    const flags = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'));
    return Number.parseInt(flags?.[1] ?? '0', 8);
  } catch {
    return -1; // Closed meanwhile: it was the listing's own.
  }
}

function spawnRunner(runnerPath: string, stdio: Stdio, plan: LaunchPlan): ChildProcess {
  try {
    return spawn(process.execPath, [runnerPath, ...plan.argv], {
      cwd: '/',
      env: {},
      detached: true,
      stdio,
    });
  } catch (error) {
    throw whyNotStarted(plan, error as NodeJS.ErrnoException);
  }
}

function whyNotStarted(plan: LaunchPlan, cause: NodeJS.ErrnoException): Fault {
  const busy = ['EAGAIN', 'ENOMEM', 'EMFILE', 'ENFILE'].includes(cause.code ?? '');
  return fault(
    busy ? 'overloaded' : 'unavailable',
    `no process could be started for ${plan.runId} of ${plan.agent}: ${cause.message}`,
    { cause },
  );
}

/** Without its record a process can still be run: it only is not swept should agentd be killed. */
function remember(records: ProcessRecords, pid: number, plan: LaunchPlan, log: Log): () => void {
  try {
    return records.add(pid, { runId: plan.runId, fence: plan.fence });
  } catch (error) {
    log.warn('a runner could not be noted for a later sweep', { run: plan.runId, pid, error });
    return () => {};
  }
}

async function watchEnd(child: ChildProcess, pid: number): Promise<RunExit> {
  const tail = keepTail(child.stderr!);
  // The lifeline breaks when the child dies first; that is no error of ours.
  child.stdin!.on('error', () => {});
  const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((done) =>
    child.once('exit', (...how) => done(how)),
  );
  // Whatever it started and left behind goes with it.
  signalGroup(pid, 'SIGKILL');
  await Promise.race([tail.ended, sleep(lastWordsMs, undefined, { ref: false })]);
  child.stderr!.destroy();
  child.stdin!.destroy();
  return { code, signal, stderrTail: tail.text() };
}

/** The last bytes of a stream, however much comes. */
function keepTail(stream: Readable): { text(): string; ended: Promise<void> } {
  let kept: Buffer = Buffer.alloc(0);
  stream.on('data', (chunk: Buffer) => {
    const all = kept.length === 0 ? chunk : Buffer.concat([kept, chunk]);
    kept = all.length > stderrTailBytesMax ? Buffer.from(all.subarray(-stderrTailBytesMax)) : all;
  });
  const ended = new Promise<void>((done) => {
    stream.once('close', done);
    stream.once('error', () => done());
  });
  return { text: () => kept.toString('utf8'), ended };
}

function makeKill(parts: {
  child: ChildProcess;
  pid: number;
  ended: Promise<void>;
  graceMs: number;
  plan: LaunchPlan;
  log: Log;
}): (reason: string) => Promise<void> {
  const { child, pid, ended, graceMs, plan, log } = parts;
  const isGone = () => child.exitCode !== null || child.signalCode !== null;
  let asked = false;
  return async (reason) => {
    if (!asked && !isGone()) {
      asked = true;
      log.info('ending a runner', { run: plan.runId, fence: plan.fence, pid, reason });
      signalGroup(pid, 'SIGTERM');
      // Real time, not the runtime's clock: this waits for the kernel.
      const force = setTimeout(() => void (isGone() || signalGroup(pid, 'SIGKILL')), graceMs);
      ended.finally(() => clearTimeout(force));
    }
    await ended;
  };
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
