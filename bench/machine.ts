// Describes the machine and its load, as context for the figures.
import { closeSync, fdatasyncSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { cpus, loadavg, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { type Figure, quantile } from './figure.ts';

const SYNCS = 60;
const PAGE = Buffer.alloc(4096, 1);

/** The median time to write and sync one page, on the disk of the benchmarks' state. */
export function timeSync(): number {
  const file = join(tmpdir(), `agentd-bench-sync-${process.pid}`);
  const fd = openSync(file, 'w', 0o600);
  const took: number[] = [];
  try {
    for (let i = 0; i < SYNCS; i++) {
      writeSync(fd, PAGE);
      const began = performance.now();
      fdatasyncSync(fd);
      took.push(performance.now() - began);
    }
  } finally {
    closeSync(fd);
    rmSync(file, { force: true });
  }
  return quantile(
    took.toSorted((a, b) => a - b),
    0.5,
  );
}

/** CPU time that a process has used so far, in ms. */
export const cpuMsOf = (pid: number): number => sumTicks(pid, 11, 13);

/** The same with that of children that have ended; 0 for a process that is now such a child. */
export function cpuMsWithChildrenOf(pid: number): number {
  try {
    return sumTicks(pid, 11, 15);
  } catch {
    return 0;
  }
}

function sumTicks(pid: number, from: number, to: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const ticksPerSecond = 100;
  const ticks = fields.slice(from, to).reduce((sum, field) => sum + Number(field), 0);
  return (ticks * 1000) / ticksPerSecond;
}

export type Machine = {
  cpu: string;
  cores: number;
  memoryBytes: number;
  node: string;
  /** Load average of the last minute; a high one means that other work was measured too. */
  load: number;
};

export function describeMachine(): Machine {
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryBytes: totalmem(),
    node: process.version,
    load: Math.round(loadavg()[0]! * 100) / 100,
  };
}

export const syncFigure = (own: Figure['own']): Figure => ({
  name: 'one page synced to the disk, p50',
  unit: 'ms',
  own,
});
