// Starts, drives and ends the bench's own processes and the peers' programs, and leaves none
// behind.
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { LoadOrder, LoadResult } from './processes/load.ts';

const children = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
});

/** Kills the child when this process exits. */
export function keep(child: ChildProcess): ChildProcess {
  children.add(child);
  child.once('exit', () => children.delete(child));
  return child;
}

export async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), 10_000);
  await gone;
  clearTimeout(timer);
}

/** BENCH_PROFILE=DIR: our processes write a CPU profile there when they end. */
export function profiling(): string[] {
  const dir = process.env.BENCH_PROFILE ?? '';
  return dir === '' ? [] : ['--cpu-prof', `--cpu-prof-dir=${dir}`];
}

export type BenchProcess = {
  /** The value of its ready message. */
  ready: unknown;
  ask(order: unknown): Promise<unknown>;
  stop(): Promise<void>;
};

type ProcessReply = { value?: unknown; error?: string };

export async function startProcess(url: URL): Promise<BenchProcess> {
  const child = keep(
    spawn(process.execPath, [fileURLToPath(url)], { stdio: ['pipe', 'pipe', 'inherit'], env: {} }),
  );
  const waiting: { resolve: (value: unknown) => void; reject: (error: Error) => void }[] = [];
  const lines = createInterface({ input: child.stdout! });
  lines.on('line', (line) => {
    const { value, error } = JSON.parse(line) as ProcessReply;
    const next = waiting.shift();
    if (error === undefined) next?.resolve(value);
    else next?.reject(new Error(error));
  });
  child.once('exit', () => {
    for (const { reject } of waiting.splice(0)) reject(new Error(`${url} ended`));
  });
  const answer = () => new Promise<unknown>((resolve, reject) => waiting.push({ resolve, reject }));
  const ready = await answer();
  return {
    ready,
    ask(order) {
      const answered = answer();
      child.stdin!.write(`${JSON.stringify(order)}\n`);
      return answered;
    },
    stop: () => end(child),
  };
}

export type Load = { drive(order: LoadOrder): Promise<LoadResult>; stop(): Promise<void> };

export async function startLoad(): Promise<Load> {
  const { ask, stop } = await startProcess(new URL('./processes/load.ts', import.meta.url));
  return { drive: (order) => ask(order) as Promise<LoadResult>, stop };
}

export type BenchUpstream = {
  port: number;
  /** The time of the first request about this goal, in ms of the monotonic clock. */
  arrivalOf(goal: number): Promise<number | null>;
  /** The number of requests so far. */
  requests(): Promise<number>;
  stop(): Promise<void>;
};

export async function startUpstream(): Promise<BenchUpstream> {
  const { ready, ask, stop } = await startProcess(
    new URL('./processes/upstream.ts', import.meta.url),
  );
  return {
    port: ready as number,
    arrivalOf: (goal) => ask({ arrivalOf: String(goal) }) as Promise<number | null>,
    requests: () => ask({}) as Promise<number>,
    stop,
  };
}
