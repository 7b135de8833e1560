// Measures the memory of a process tree, as the kernel counts it.
import { readdirSync, readFileSync } from 'node:fs';

export type Memory = {
  processes: number;
  /** The sum over all processes: shared memory is counted once for each. */
  rssBytes: number;
  /** Shared pages divided among all processes that share them, also those outside the tree. */
  pssBytes: number;
  /** Private memory, plus shared memory counted once. */
  onceBytes: number;
};

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

/** Lists the process and its descendants. */
export function treeOf(pid: number): number[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const stat = read(`/proc/${name}/stat`);
    if (stat === undefined) continue;
    const parent = Number(stat.slice(stat.lastIndexOf(')') + 4).split(' ')[0]);
    children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const tree = [pid];
  for (const process of tree) tree.push(...(children.get(process) ?? []));
  return tree;
}

type Mapping = { file: string; rss: number; pss: number; shared: number };

function mappingsOf(pid: number): Mapping[] {
  const mappings: Mapping[] = [];
  for (const line of (read(`/proc/${pid}/smaps`) ?? '').split('\n')) {
    const head = /^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ (\d+)\s*(.*)$/.exec(line);
    if (head !== null) {
      mappings.push({ file: head[1] === '0' ? '' : head[2]!, rss: 0, pss: 0, shared: 0 });
      continue;
    }
    const [, name, kb] = /^(\w+):\s+(\d+) kB$/.exec(line) ?? [];
    const last = mappings.at(-1);
    if (name === undefined || last === undefined) continue;
    if (name === 'Rss') last.rss += Number(kb) * 1024;
    if (name === 'Pss') last.pss += Number(kb) * 1024;
    if (name === 'Shared_Clean' || name === 'Shared_Dirty') last.shared += Number(kb) * 1024;
  }
  return mappings;
}

export function memoryOf(pids: readonly number[]): Memory {
  let rssBytes = 0;
  let pssBytes = 0;
  let privateBytes = 0;
  const sharedBytes = new Map<string, number>();
  for (const pid of pids) {
    const own = new Map<string, number>();
    for (const { file, rss, pss, shared } of mappingsOf(pid)) {
      rssBytes += rss;
      pssBytes += pss;
      privateBytes += rss - shared;
      own.set(file, (own.get(file) ?? 0) + shared);
    }
    for (const [file, bytes] of own)
      sharedBytes.set(file, Math.max(sharedBytes.get(file) ?? 0, bytes));
  }
  const onceBytes = [...sharedBytes.values()].reduce((sum, bytes) => sum + bytes, privateBytes);
  return { processes: pids.length, rssBytes, pssBytes, onceBytes };
}
