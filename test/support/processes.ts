// Processes as the kernel tells of them, for tests that look at boxes from outside.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

const statusOf = (pid: number) => readFileSync(`/proc/${pid}/status`, 'utf8');
export const fieldOf = (pid: number, name: string) =>
  new RegExp(`^${name}:\\s+(.*)$`, 'm').exec(statusOf(pid))?.[1]?.split(/\s+/)[0];

/** The processes whose parent this is. */
export function childrenOf(parent: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        return Number(fieldOf(pid, 'PPid')) === parent;
      } catch {
        return false;
      }
    });
}

export const descendantsOf = (pid: number): number[] =>
  childrenOf(pid).flatMap((child) => [child, ...descendantsOf(child)]);

export const linkOf = (pid: number, space: string) => readlinkSync(`/proc/${pid}/ns/${space}`);

/** One that has ended may stay a zombie for as long as nobody collects it. */
export function isAlive(pid: number): boolean {
  try {
    return fieldOf(pid, 'State') !== 'Z';
  } catch {
    return false;
  }
}
