// Reads processes from /proc, for tests that inspect boxes from outside.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** Returns an empty string for a process that has ended. */
function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch {
    return '';
  }
}
export const fieldOf = (pid: number, name: string) =>
  new RegExp(`^${name}:\\s+(.*)$`, 'm').exec(statusOf(pid))?.[1]?.split(/\s+/)[0];

/** Lists the children of a process. */
export function childrenOf(parent: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => Number(fieldOf(pid, 'PPid')) === parent);
}

export const descendantsOf = (pid: number): number[] =>
  childrenOf(pid).flatMap((child) => [child, ...descendantsOf(child)]);

export const linkOf = (pid: number, space: string) => readlinkSync(`/proc/${pid}/ns/${space}`);

/** Returns false for a zombie too: it stays until its parent reaps it. */
export function isAlive(pid: number): boolean {
  const state = fieldOf(pid, 'State');
  return state !== undefined && state !== 'Z';
}
