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

// Every process with this text among its arguments, but ours. A box's init has the warden's.
export function processesOf(text: string): Found[] {
  return pids()
    .filter((pid) => Number(pid) !== process.pid && read(`/proc/${pid}/cmdline`).includes(text))
    .map((pid) => ({ pid: Number(pid), name: read(`/proc/${pid}/comm`).trim() }));
}

export function zombiesOf(parent: number): number {
  return pids().filter((pid) => {
    const [state, ppid] = read(`/proc/${pid}/stat`).split(') ').at(-1)?.split(' ') ?? [];
    return state === 'Z' && Number(ppid) === parent;
  }).length;
}

export function mountCount(pid: number): string {
  const count = (path: string) => read(path).split('\n').length;
  return `${count('/proc/self/mountinfo')} ${count(`/proc/${pid}/mountinfo`)}`;
}

function directories(path: string): Dirent[] {
  try {
    return readdirSync(path, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  } catch {
    return [];
  }
}

// The warden's cgroups anywhere below /sys/fs/cgroup, and the boxes inside them.
export function wardenCgroups(
  path = '/sys/fs/cgroup',
  depth = 0,
): { own: string[]; boxes: string[] } {
  const found = { own: [] as string[], boxes: [] as string[] };
  if (depth > 5) return found;
  for (const entry of directories(path)) {
    const inside = join(path, entry.name);
    if (/^agentd-[0-9a-f]{16}$/.test(entry.name)) {
      found.own.push(inside);
      found.boxes.push(...directories(inside).map((box) => join(inside, box.name)));
    } else {
      const deeper = wardenCgroups(inside, depth + 1);
      found.own.push(...deeper.own);
      found.boxes.push(...deeper.boxes);
    }
  }
  return found;
}
