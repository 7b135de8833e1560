// Finds the other names of a path: where the host has mounted its file system, or a part of it, a
// second time (bind mounts). A denied directory could be read by such a name.
import { readFileSync } from 'node:fs';
import { isWithin } from '../../../policy/paths.ts';

/** A line of /proc/self/mountinfo: `root`, a path in the file system, is visible at `at`. */
type Mount = { device: string; root: string; at: string };

export const readMounts = (text = readFileSync('/proc/self/mountinfo', 'utf8')): Mount[] =>
  text.split('\n').flatMap((line) => {
    const [, , device, root, at] = line.split(' ');
    if (device === undefined || root === undefined || at === undefined) return [];
    return [{ device, root: unescapeOctal(root), at: unescapeOctal(at) }];
  });

/** Spaces and other separators are octal escapes. */
const unescapeOctal = (text: string): string =>
  text.replace(/\\([0-7]{3})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 8)));

const below = (dir: string, rest: string): string => (dir === '/' ? rest || '/' : dir + rest);
const restOf = (path: string, dir: string): string => (dir === '/' ? path : path.slice(dir.length));

/**
 * Every mount above the path counts, not only the last: this process may see other mounts on top
 * than boxes get.
 */
export function findAliases(path: string, mounts: readonly Mount[]): string[] {
  const found = new Set<string>();
  for (const holder of mounts) {
    if (!isWithin(path, holder.at)) continue;
    const inner = below(holder.root, restOf(path, holder.at));
    for (const { device, root, at } of mounts) {
      if (device !== holder.device) continue;
      if (isWithin(inner, root)) found.add(below(at, restOf(inner, root)));
      else if (isWithin(root, inner)) found.add(at);
    }
  }
  found.delete(path);
  return [...found].filter((alias) => !isWithin(alias, path));
}
