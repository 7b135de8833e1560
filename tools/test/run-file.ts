// Runs one test file in its own process and process group, and returns what its tests reported.
// A file that ran no test, was killed or exceeded the time limit is reported as a failed test.
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestLine } from './reporter.ts';

export type FileOutcome = { file: string; lines: TestLine[]; output: string; tookMs: number };

export const hasFailed = ({ lines }: FileOutcome): boolean =>
  lines.some(({ kind }) => kind === 'failed');

export type FileRunner = {
  readonly isStopping: boolean;
  /** `reportPath` must not exist yet; Node's test runner writes the results there. */
  run(file: string, reportPath: string): Promise<FileOutcome>;
  /** Ends every running file. Processes get five seconds to exit on SIGTERM. */
  stop(): Promise<void>;
};

type FileRunnerOptions = { root: string; env: NodeJS.ProcessEnv; limitMs: number };

const STOP_TIMEOUT_MS = 5_000;

export function makeFileRunner({ root, env, limitMs }: FileRunnerOptions): FileRunner {
  const running = new Set<number>();
  let isStopping = false;

  function run(file: string, reportPath: string): Promise<FileOutcome> {
    const startedAt = performance.now();
    const child = spawn(
      process.execPath,
      [
        '--disable-warning=ExperimentalWarning',
        `--test-reporter=${join(import.meta.dirname, 'reporter.ts')}`,
        `--test-reporter-destination=${reportPath}`,
        file,
      ],
      { cwd: root, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] },
    );
    const pid = child.pid!;
    running.add(pid);
    let output = '';
    let timedOut = false;
    const collect = (chunk: Buffer): void => {
      output += chunk;
    };
    child.stdout.on('data', collect);
    child.stderr.on('data', collect);
    const timer = setTimeout(() => {
      timedOut = true;
      killGroup(pid);
    }, limitMs);
    return new Promise((resolve) => {
      child.on('exit', () => {
        // Processes that the test left behind end with it; in stop() they get time to exit first.
        if (!isStopping) killGroup(pid);
        // A process that left the group may keep the pipes open forever: do not wait for them.
        setTimeout(() => [child.stdout, child.stderr].map((pipe) => pipe.destroy()), 1000).unref();
      });
      child.on('close', (status, signal) => {
        clearTimeout(timer);
        running.delete(pid);
        const lines = readReport(reportPath);
        const why = timedOut
          ? `did not end within ${limitMs / 1000} s; something in it is still open`
          : explainBadExit(lines, status, signal);
        if (why !== undefined) lines.push({ kind: 'failed', name: '(the file as a whole)', why });
        resolve({ file, lines, output, tookMs: performance.now() - startedAt });
      });
    });
  }

  async function stop(): Promise<void> {
    const until = performance.now() + (isStopping ? 0 : STOP_TIMEOUT_MS);
    isStopping = true;
    const groups = [...running].filter((pid) => signalGroup(pid, 'SIGTERM'));
    while (groups.some((pid) => signalGroup(pid, 0)) && performance.now() < until)
      await new Promise((resolve) => setTimeout(resolve, 50));
    groups.forEach(killGroup);
  }

  return {
    get isStopping() {
      return isStopping;
    },
    run,
    stop,
  };
}

/** Returns false when the group is already empty, which is the usual case. */
function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-pid, signal);
  } catch {
    return false;
  }
}
const killGroup = (pid: number): boolean => signalGroup(pid, 'SIGKILL');

function readReport(path: string): TestLine[] {
  if (!existsSync(path)) return [];
  const text = readFileSync(path, 'utf8');
  // A process that was killed may have left half a line.
  const whole = text.slice(0, text.lastIndexOf('\n') + 1);
  return whole
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as TestLine);
}

/** Returns why the file failed although none of its tests reports a failure. */
function explainBadExit(
  lines: readonly TestLine[],
  status: number | null,
  signal: string | null,
): string | undefined {
  if (signal !== null) return `was ended by ${signal}`;
  if (status !== 0 && !lines.some(({ kind }) => kind === 'failed')) return `exited with ${status}`;
  if (!lines.some(({ kind }) => kind !== 'note')) return 'ran no test';
  return undefined;
}
