// Finds what an agent that works in place could change outside a directory: files that have another
// hard link, and mounts below it.
import { type Dirent, lstatSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export type DirectoryOpenings = {
  /** Files whose content has another name, here or elsewhere: nothing says where. */
  hardLinks: { count: number; example: string | undefined };
  mounts: string[];
  /** False: it is too large to be looked at as a whole, or parts of it are closed. */
  isComplete: boolean;
};

const ENTRIES_MAX = 50_000;
const TIME_MAX_MS = 2_000;

export function inspectDirectory(
  dir: string,
  mountinfo: string = readFileSync('/proc/self/mountinfo', 'utf8'),
): DirectoryOpenings {
  const mounts = listMounts(mountinfo).filter((path) => path.startsWith(`${dir}/`));
  const found: DirectoryOpenings = {
    hardLinks: { count: 0, example: undefined },
    mounts,
    isComplete: true,
  };
  const endMs = performance.now() + TIME_MAX_MS;
  const pending = [dir];
  let entries = 0;
  for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
    for (const entry of readEntries(at, found)) {
      const path = join(at, entry.name);
      if (++entries > ENTRIES_MAX || performance.now() > endMs)
        return { ...found, isComplete: false };
      if (entry.isDirectory() && !mounts.includes(path)) pending.push(path);
      else if (entry.isFile()) countLinks(path, found);
    }
  }
  return found;
}

function readEntries(dir: string, found: DirectoryOpenings): Dirent[] {
  try {
    return readdirSync(dir, { withFileTypes: true });
  } catch {
    found.isComplete = false;
    return [];
  }
}

function countLinks(path: string, { hardLinks }: DirectoryOpenings): void {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat === undefined || stat.nlink < 2) return;
  hardLinks.count++;
  hardLinks.example ??= path;
}

/** Spaces and other separators in mountinfo are octal escapes. */
const listMounts = (mountinfo: string): string[] =>
  mountinfo
    .split('\n')
    .map((line) => line.split(' ')[4] ?? '')
    .map((path) =>
      path.replace(/\\([0-7]{3})/g, (_, code) => String.fromCharCode(Number.parseInt(code, 8))),
    );

/** Returns one sentence for each way out; empty if there is none. */
export function describeOpenings(dir: string, found: DirectoryOpenings): string[] {
  const { count, example } = found.hardLinks;
  const files = count === 1 ? '1 file has' : `${count} files have`;
  return [
    ...(count === 0
      ? []
      : [
          `${files} other hard links in ${dir}, such as ${example}: ` +
            'an agent that works in place changes them under every name',
        ]),
    ...found.mounts.map((path) => `${path} is a mount: an agent that works in place can change it`),
    ...(found.isComplete ? [] : [`${dir} was not searched completely for hard links`]),
  ];
}
