// Counts what the tests may not leave on the host: processes, zombies, mounts, cgroups.
import { type Dirent, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

const pids = () => readdirSync('/proc').filter((name) => /^\d+$/.test(name));

export type Found = { pid: number; name: string };

// Lists processes with this text in their arguments, except ours. A box's init has the warden's.
export function processesOf(text: string): Found[] {
  return pids()
    .filter((pid) => Number(pid) !== process.pid && read(`/proc/${pid}/cmdline`).includes(text))
    .map((pid) => ({ pid: Number(pid), name: read(`/proc/${pid}/comm`).trim() }));
}

// Lists processes in the cgroups of the warden with this run directory, whatever their names.
export function processesIn(runDir: string): Found[] {
  const name = `/${cgroupName(runDir)}/`;
  return pids()
    .filter((pid) => read(`/proc/${pid}/cgroup`).includes(name))
    .map((pid) => ({ pid: Number(pid), name: read(`/proc/${pid}/comm`).trim() }));
}

const EXITING = 0x4;

// Returns true for a killed process that no longer runs, reaped or not.
export function isExiting(pid: number): boolean {
  const fields = read(`/proc/${pid}/stat`).split(') ').at(-1)?.split(' ') ?? [];
  return fields[0] === 'Z' || fields[0] === 'X' || (Number(fields[6]) & EXITING) !== 0;
}

export function zombiesOf(parent: number): number {
  return pids().filter((pid) => {
    const [state, ppid] = read(`/proc/${pid}/stat`).split(') ').at(-1)?.split(' ') ?? [];
    return state === 'Z' && Number(ppid) === parent;
  }).length;
}

// Mounts that name this directory, here and in the warden's own namespace.
export function mountsOf(dir: string, pid: number): string[] {
  return ['self', pid].flatMap((of) =>
    read(`/proc/${of}/mountinfo`)
      .split('\n')
      .filter((line) => line.includes(dir)),
  );
}

function directories(path: string): Dirent[] {
  try {
    return readdirSync(path, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  } catch {
    return [];
  }
}

// The name of a warden's own cgroup: FNV-1a of its run directory, as in cgroup-detect.c.
function cgroupName(runDir: string): string {
  let hash = 1469598103934665603n;
  for (const byte of Buffer.from(runDir))
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 1099511628211n);
  return `agentd-${hash.toString(16).padStart(16, '0')}`;
}

function find(name: string, path: string, depth: number): string[] {
  if (depth > 5) return [];
  return directories(path).flatMap((entry) => {
    const inside = join(path, entry.name);
    return entry.name === name ? [inside] : find(name, inside, depth + 1);
  });
}

// Finds a warden's cgroups below /sys/fs/cgroup and the names of the boxes in them. A box has one
// of the same name in every hierarchy; idle spares have theirs too.
export const cgroupsOf = (wardenDir: string) => cgroupsAt(join(wardenDir, 'run'));

export function cgroupsAt(runDir: string): { own: string[]; boxes: string[] } {
  const own = find(cgroupName(runDir), '/sys/fs/cgroup', 0);
  const names = own.flatMap((dir) => directories(dir).map(({ name }) => name));
  return { own, boxes: [...new Set(names)] };
}
