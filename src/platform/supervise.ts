// Child processes of the runtime: started, watched until they say they are ready, started again
// when they die, unless their program is another one by then, and ended with the runtime. A child
// sees the end of its parent as the end of its standard input.
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { fault, faultFromBody } from '../wire/errors.ts';
import type { Log } from './log.ts';

export type Supervised = {
  name: string;
  pid(): number | undefined;
  restarts(): number;
  stop(graceMs: number): Promise<void>;
};

export type SuperviseOptions = {
  name: string;
  /** Node with this program when absent. */
  program?: string;
  argv: string[];
  env: Record<string, string>;
  logFile: string;
  log: Log;
  readyMsMax?: number;
  /** What it is started from. Changed, it would be of another version than those that still run. */
  file?: string;
  /** Told when the child is not started again because `file` changed, and when it is after all. */
  onOutdated?: (isOutdated: boolean) => void;
};

const READY_MS_MAX = 20_000;
const PAUSE_MS_MAX = 5_000;
const LAST_WORDS_MS = 2_000;
/** A process that lived so long is not in a loop of crashes: it is started again at once. */
const SETTLED_MS = 1_000;

/**
 * Resolves when the child has said `{"ready":true}` for the first time; its first refusal is
 * thrown.
 */
export async function supervise(options: SuperviseOptions): Promise<Supervised> {
  const { name, log, readyMsMax = READY_MS_MAX } = options;
  let child: ChildProcess | undefined;
  let stopping = false;
  let restarts = 0;
  let pauseMs = 50;
  let isOutdated = false;
  let isUnreadable = false;
  const original = digestOf(options.file);

  const begin = async (): Promise<void> => {
    const beganAt = Date.now();
    const started = start(options);
    child = started;
    const ended = endOf(started);
    await readyLine(started, name, readyMsMax);
    void ended.then(() => {
      if (stopping) return;
      if (Date.now() - beganAt > SETTLED_MS) pauseMs = 50;
      const { exitCode: code, signalCode: signal } = started;
      log.warn('a process of the runtime ended; starting it again', { name, code, signal });
      later();
    });
  };
  const later = (): void => {
    setTimeout(() => void again(), pauseMs);
    pauseMs = Math.min(pauseMs * 2, PAUSE_MS_MAX);
  };
  const tellOutdated = (now: boolean): void => {
    if (now !== isOutdated) options.onOutdated?.(now);
    isOutdated = now;
  };
  const again = async (): Promise<void> => {
    if (stopping) return;
    let digest: string | undefined;
    try {
      digest = digestOf(options.file);
    } catch (error) {
      if (!isUnreadable)
        log.error('not started again: its program cannot be read; trying again', { name, error });
      isUnreadable = true;
      return later();
    }
    isUnreadable = false;
    if (digest !== original) {
      if (!isOutdated) {
        const next = 'agentctl down, then agentctl up';
        const { file } = options;
        log.error('not started again: its program was changed', { name, file, next });
      }
      tellOutdated(true);
      return later(); // The program may be put back as it was.
    }
    restarts++;
    try {
      await begin();
      tellOutdated(false);
      log.info('a process of the runtime is back', { name, pid: child?.pid });
    } catch (error) {
      if (stopping) return;
      log.error('a process of the runtime did not come back; trying again', { name, error });
      // It may still be there, and hang. Two of them would fight over sockets and files.
      await killed(child);
      if (!stopping) later();
    }
  };

  try {
    await begin();
  } catch (error) {
    stopping = true;
    await killed(child);
    throw error;
  }
  return {
    name,
    pid: () => child?.pid,
    restarts: () => restarts,
    async stop(graceMs) {
      stopping = true;
      const last = child;
      if (last === undefined || !isRunning(last)) return;
      const ended = endOf(last);
      last.kill('SIGTERM');
      const timer = setTimeout(() => last.kill('SIGKILL'), graceMs);
      await ended;
      clearTimeout(timer);
    },
  };
}

/** Nothing for a file that is not there: a build may just be writing it. */
function digestOf(file: string | undefined): string | undefined {
  if (file === undefined) return undefined;
  try {
    return createHash('sha256').update(readFileSync(file)).digest('hex');
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    throw fault('bad_config', `the program ${file} cannot be read: ${message}`, {
      hint: 'Make it a file that this user can read.',
      cause,
    });
  }
}

const isRunning = ({ pid, exitCode, signalCode }: ChildProcess): boolean =>
  pid !== undefined && exitCode === null && signalCode === null;

const endOf = (child: ChildProcess): Promise<void> =>
  new Promise((resolve) => child.once('exit', () => resolve()));

/** Resolves when it is gone. */
async function killed(child: ChildProcess | undefined): Promise<void> {
  if (child === undefined || !isRunning(child)) return;
  const ended = endOf(child);
  child.kill('SIGKILL');
  await ended;
}

function start(options: SuperviseOptions): ChildProcess {
  const logFd = openSync(options.logFile, 'a', 0o600);
  try {
    const child = spawn(options.program ?? process.execPath, options.argv, {
      stdio: ['pipe', 'pipe', logFd],
      env: options.env,
      cwd: '/',
    });
    // Whoever waits for it hears of it there.
    child.on('error', () => undefined);
    child.stdin?.on('error', () => undefined);
    return child;
  } finally {
    closeSync(logFd);
  }
}

function readyLine(child: ChildProcess, name: string, readyMsMax: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let text = '';
    const timer = setTimeout(
      () => reject(fault('unavailable', `${name} did not become ready in ${readyMsMax / 1000} s`)),
      readyMsMax,
    );
    const settle = (work: () => void): void => {
      clearTimeout(timer);
      work();
    };
    child.stdout?.on('data', (chunk: Buffer) => {
      text += chunk.toString('utf8');
      const end = text.indexOf('\n');
      if (end < 0) return;
      child.stdout?.removeAllListeners('data');
      child.stdout?.resume();
      try {
        // A program that is not ours to shape says the one word.
        if (text.slice(0, end) === 'ready') return settle(resolve);
        const line = JSON.parse(text.slice(0, end)) as { ready?: boolean };
        settle(() => (line.ready === true ? resolve() : reject(faultFromBody(line))));
      } catch (cause) {
        settle(() =>
          reject(fault('internal', `${name} said something else than that it is ready`, { cause })),
        );
      }
    });
    child.once('error', (cause) =>
      settle(() => reject(fault('internal', `${name} could not be started`, { cause }))),
    );
    const ended = (): void => {
      const how = child.signalCode ?? `exit ${child.exitCode}`;
      settle(() => reject(fault('unavailable', `${name} ended before it was ready (${how})`)));
    };
    // Why it refused may still be in the pipe; what it left behind may hold the pipe for ever.
    child.once('close', ended);
    child.once('exit', () => void setTimeout(ended, LAST_WORDS_MS).unref());
  });
}
