// Processes as the kernel tells of them, for tests that look at boxes from outside.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** Nothing of one that has gone, be it just now. */
function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch {
    return '';
  }
}
export const fieldOf = (pid: number, name: string) =>
  new RegExp(`^${name}:\\s+(.*)$`, 'm').exec(statusOf(pid))?.[1]?.split(/\s+/)[0];

/** The processes whose parent this is. */
export function childrenOf(parent: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => Number(fieldOf(pid, 'PPid')) === parent);
}

export const descendantsOf = (pid: number): number[] =>
  childrenOf(pid).flatMap((child) => [child, ...descendantsOf(child)]);

export const linkOf = (pid: number, space: string) => readlinkSync(`/proc/${pid}/ns/${space}`);

/** One that has ended may stay a zombie for as long as nobody collects it. */
export function isAlive(pid: number): boolean {
  const state = fieldOf(pid, 'State');
  return state !== undefined && state !== 'Z';
}
