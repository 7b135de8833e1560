// Supervises a child process of the runtime: starts it, waits until it is ready, and restarts it
// when it dies, unless its program has changed. A child sees the end of its parent as the end of
// its standard input.
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { fault, faultFromBody } from '../wire/errors.ts';
import type { Log } from './log.ts';

export type SupervisedProcess = {
  name: string;
  pid(): number | undefined;
  restarts(): number;
  stop(graceMs: number): Promise<void>;
};

export type SuperviseOptions = {
  name: string;
  /** Default: Node. */
  program?: string;
  argv: string[];
  env: Record<string, string>;
  logFile: string;
  log: Log;
  /** For restarts. */
  readyMsMax?: number;
  /** The program's file. After a change, a restart would mix two versions. */
  file?: string;
  /** Called when the child is not restarted because `file` changed, and when it is after all. */
  onOutdated?: (isOutdated: boolean) => void;
};

const READY_MS_MAX = 20_000;
/** A first start may migrate a large database; if it is killed, it starts over. */
const FIRST_READY_MS_MAX = 30 * 60_000;
const BACKOFF_MS_MAX = 5_000;
const DRAIN_TIMEOUT_MS = 2_000;
/** A process that lived this long is not in a crash loop: the backoff starts over. */
const STABLE_MS = 1_000;

/** Resolves when the child is ready for the first time. Rejects if its first start fails. */
export async function supervise(options: SuperviseOptions): Promise<SupervisedProcess> {
  const { name, log, readyMsMax = READY_MS_MAX } = options;
  let child: ChildProcess | undefined;
  let stopping = false;
  let restarts = 0;
  let backoffMs = 50;
  let isOutdated = false;
  let isUnreadable = false;
  const original = digestFile(options.file);

  const startAndWait = async (msMax: number): Promise<void> => {
    const beganAt = Date.now();
    const started = start(options);
    child = started;
    const ended = waitForExit(started);
    await waitForReady(started, name, msMax);
    void ended.then(() => {
      if (stopping) return;
      if (Date.now() - beganAt > STABLE_MS) backoffMs = 50;
      const { exitCode: code, signalCode: signal } = started;
      log.warn('process ended; restarting it', { name, code, signal });
      scheduleRestart();
    });
  };
  const scheduleRestart = (): void => {
    setTimeout(() => void restart(), backoffMs);
    backoffMs = Math.min(backoffMs * 2, BACKOFF_MS_MAX);
  };
  const setOutdated = (now: boolean): void => {
    if (now !== isOutdated) options.onOutdated?.(now);
    isOutdated = now;
  };
  const restart = async (): Promise<void> => {
    if (stopping) return;
    let digest: string | undefined;
    try {
      digest = digestFile(options.file);
    } catch (error) {
      if (!isUnreadable)
        log.error('not restarted: its program cannot be read; retrying', { name, error });
      isUnreadable = true;
      return scheduleRestart();
    }
    isUnreadable = false;
    if (digest !== original) {
      if (!isOutdated) {
        const next = 'agentctl down, then agentctl up';
        const { file } = options;
        log.error('not restarted: its program has changed', { name, file, next });
      }
      setOutdated(true);
      return scheduleRestart(); // The original program may be restored.
    }
    restarts++;
    try {
      await startAndWait(readyMsMax);
      setOutdated(false);
      log.info('process restarted', { name, pid: child?.pid });
    } catch (error) {
      if (stopping) return;
      log.error('restarting a process failed; retrying', { name, error });
      // It may hang. Two of them would compete for sockets and files.
      await kill(child);
      if (!stopping) scheduleRestart();
    }
  };

  try {
    await startAndWait(FIRST_READY_MS_MAX);
  } catch (error) {
    stopping = true;
    await kill(child);
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
      const ended = waitForExit(last);
      last.kill('SIGTERM');
      const timer = setTimeout(() => last.kill('SIGKILL'), graceMs);
      await ended;
      clearTimeout(timer);
    },
  };
}

/** Returns undefined for a missing file: a build may be writing it. */
function digestFile(file: string | undefined): string | undefined {
  if (file === undefined) return undefined;
  try {
    return createHash('sha256').update(readFileSync(file)).digest('hex');
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    throw fault('bad_config', `the program ${file} cannot be read: ${message}`, {
      hint: 'Make the file readable for this user.',
      cause,
    });
  }
}

const isRunning = ({ pid, exitCode, signalCode }: ChildProcess): boolean =>
  pid !== undefined && exitCode === null && signalCode === null;

const waitForExit = (child: ChildProcess): Promise<void> =>
  new Promise((resolve) => child.once('exit', () => resolve()));

/** Resolves when the process has ended. */
async function kill(child: ChildProcess | undefined): Promise<void> {
  if (child === undefined || !isRunning(child)) return;
  const ended = waitForExit(child);
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
    // Waiters have listeners of their own; without any, Node would throw.
    child.on('error', () => undefined);
    child.stdin?.on('error', () => undefined);
    return child;
  } finally {
    closeSync(logFd);
  }
}

function waitForReady(child: ChildProcess, name: string, readyMsMax: number): Promise<void> {
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
        // The warden, a C program, prints just this word.
        if (text.slice(0, end) === 'ready') return settle(resolve);
        const line = JSON.parse(text.slice(0, end)) as { ready?: boolean };
        settle(() => (line.ready === true ? resolve() : reject(faultFromBody(line))));
      } catch (cause) {
        settle(() =>
          reject(
            fault('internal', `${name} sent an unexpected message instead of its ready line`, {
              cause,
            }),
          ),
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
    // Its error may still be in the pipe; its own children may keep the pipe open for ever.
    child.once('close', ended);
    child.once('exit', () => void setTimeout(ended, DRAIN_TIMEOUT_MS).unref());
  });
}
