// A soak's report: a line per minute while it runs, then the criteria; the same as JSON.
import { quantile } from '../../bench/figure.ts';
import type { Machine } from '../../bench/machine.ts';
import type { Criterion } from './criteria.ts';
import type { MemorySample, Sizes } from './samples.ts';
import type { Kill } from './victims.ts';
import type { SoakTask } from './workload.ts';

export type Minute = {
  minute: number;
  /** Tasks that ended in it. */
  tasks: number;
  upMs: number;
  tasksPerSecond: number;
  /** From creation to end, of the tasks that only count. */
  latencyMs: { p50: number; p95: number } | null;
  /** Those after which the runtime became complete in it. */
  kills: Kill[];
  memory: MemorySample | null;
  sizes: Sizes;
};

export type SoakReport = {
  machine: Machine;
  options: { minutes: number; mode: string; in_flight: number; seed: number };
  minutes: Minute[];
  counts: Record<string, number>;
  criteria: Criterion[];
  passed: boolean;
};

export function latencies(tasks: readonly SoakTask[]): Minute['latencyMs'] {
  const took = tasks
    .filter(({ kind }) => kind === 'count')
    .flatMap(({ ended }) =>
      ended.map(({ created_at, ended_at }) => Date.parse(ended_at!) - Date.parse(created_at)),
    )
    .toSorted((a, b) => a - b);
  if (took.length === 0) return null;
  return { p50: Math.round(quantile(took, 0.5)), p95: Math.round(quantile(took, 0.95)) };
}

const mb = (bytes: number | undefined): string =>
  bytes === undefined ? '–' : (bytes / 1_000_000).toFixed(0);

const COLUMNS: readonly [title: string, width: number, cell: (minute: Minute) => string][] = [
  ['minute', 6, ({ minute }) => String(minute)],
  ['tasks', 6, ({ tasks }) => String(tasks)],
  ['/s', 5, ({ tasksPerSecond }) => tasksPerSecond.toFixed(1)],
  ['p50 ms', 7, ({ latencyMs }) => String(latencyMs?.p50 ?? '–')],
  ['p95 ms', 7, ({ latencyMs }) => String(latencyMs?.p95 ?? '–')],
  ['main', 6, ({ memory }) => mb(memory?.processes.main?.pssBytes)],
  ['log', 5, ({ memory }) => mb(memory?.processes['auditd-ai']?.pssBytes)],
  ['all MB', 7, ({ memory }) => mb(memory?.totalBytes)],
  ['db MB', 6, ({ sizes }) => mb(sizes.databasesBytes)],
  ['wal', 5, ({ sizes }) => mb(sizes.walBytes)],
  ['audit', 6, ({ sizes }) => mb(sizes.auditBytes)],
  ['blobs', 6, ({ sizes }) => mb(sizes.objectsBytes)],
  ['other', 6, ({ sizes }) => mb(sizes.otherBytes)],
  ['files', 8, ({ sizes }) => String(sizes.files)],
];

export const renderHeader = (): string =>
  [...COLUMNS.map(([title, width]) => title.padStart(width)), '  killed'].join('');

export function renderMinute(minute: Minute): string {
  const kills = minute.kills.map(({ name, backMs }) => `${name}, back in ${seconds(backMs)}`);
  const cells = COLUMNS.map(([, width, cell]) => cell(minute).padStart(width));
  return [...cells, `  ${kills.join('; ')}`].join('');
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;

export function renderCriteria({ criteria, counts, passed }: SoakReport): string {
  const list = Object.entries(counts).map(([name, count]) => `${count} ${name}`);
  const lines = criteria.map(
    ({ name, status, detail }) => `${status.padEnd(14)}  ${name}: ${detail}`,
  );
  return ['', list.join(', '), '', ...lines, '', passed ? 'soak: passed' : 'soak: FAILED'].join(
    '\n',
  );
}
