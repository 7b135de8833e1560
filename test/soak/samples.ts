// Measures a running soak: the memory of each long-lived process, and what the state takes.
import { type Dirent, lstatSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ProcessName } from '../support/installation.ts';
import type { SoakSite } from './site.ts';

/** Runners come and go with the load; the others run as long as the runtime. */
const isLongLived = (name: string): boolean => name !== 'runner';
/** Not part of the product, so its memory is reported only. */
const isCounted = (name: string): boolean => name !== 'rehearsal';

export type ProcessMemory = { rssBytes: number; pssBytes: number };
export type MemorySample = {
  atMs: number;
  /** How long the runtime's first process has been running. */
  ageMs: number;
  processes: Partial<Record<ProcessName, ProcessMemory>>;
  /** PSS of all counted processes. */
  totalBytes: number;
};

/** Undefined while the runtime is not complete. */
export function sampleMemory(site: SoakSite, startMs: number): MemorySample | undefined {
  const pids = site.processes();
  const main = pids.main?.[0];
  if (main === undefined || pids['auditd-ai'] === undefined) return undefined;
  const processes: MemorySample['processes'] = {};
  for (const [name, found] of Object.entries(pids).filter(([key]) => isLongLived(key))) {
    const all = found.map(readMemory).filter((memory) => memory !== null);
    // One has just ended.
    if (all.includes(undefined)) return undefined;
    processes[name as ProcessName] = {
      rssBytes: sum(all.map((memory) => memory!.rssBytes)),
      pssBytes: sum(all.map((memory) => memory!.pssBytes)),
    };
  }
  const counted = Object.entries(processes).filter(([name]) => isCounted(name));
  return {
    atMs: performance.now() - startMs,
    ageMs: ageOf(main),
    processes,
    totalBytes: sum(counted.map(([, { pssBytes }]) => pssBytes)),
  };
}

const sum = (values: readonly number[]): number =>
  values.reduce((total, value) => total + value, 0);

/** Null for a process that this user may not read, such as a warden in its user namespace. */
function readMemory(pid: number): ProcessMemory | null | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
    const kb = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1]);
    return { rssBytes: kb('Rss') * 1024, pssBytes: kb('Pss') * 1024 };
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EACCES' ? null : undefined;
  }
}

function ageOf(pid: number): number {
  const uptimeMs = Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * 1_000;
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const ticks = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]);
    return uptimeMs - ticks * 10;
  } catch {
    return 0;
  }
}

export type Sizes = {
  databasesBytes: number;
  walBytes: number;
  auditBytes: number;
  objectsBytes: number;
  otherBytes: number;
  files: number;
};

export function sampleSizes(stateDir: string): Sizes {
  const sizes: Sizes = {
    databasesBytes: 0,
    walBytes: 0,
    auditBytes: 0,
    objectsBytes: 0,
    otherBytes: 0,
    files: 0,
  };
  for (const entry of listEntries(stateDir)) {
    const path = join(stateDir, entry.name);
    const [bytes, files] = entry.isDirectory() ? measureTree(path) : [sizeOf(path), 1];
    sizes[kindOf(entry.name)] += bytes;
    sizes.files += files;
  }
  return sizes;
}

function kindOf(name: string): Exclude<keyof Sizes, 'files'> {
  if (name.endsWith('.sqlite')) return 'databasesBytes';
  if (name.endsWith('-wal')) return 'walBytes';
  if (name === 'audit') return 'auditBytes';
  return name === 'objects' ? 'objectsBytes' : 'otherBytes';
}

function measureTree(dir: string): [bytes: number, files: number] {
  let bytes = 0;
  let files = 0;
  for (const entry of listEntries(dir)) {
    const path = join(dir, entry.name);
    const [innerBytes, innerFiles] = entry.isDirectory() ? measureTree(path) : [sizeOf(path), 1];
    bytes += innerBytes;
    files += innerFiles;
  }
  return [bytes, files];
}

/** Files may be removed meanwhile. */
function listEntries(dir: string): Dirent[] {
  try {
    return readdirSync(dir, { withFileTypes: true });
  } catch {
    return [];
  }
}
const sizeOf = (path: string): number => lstatSync(path, { throwIfNoEntry: false })?.size ?? 0;
