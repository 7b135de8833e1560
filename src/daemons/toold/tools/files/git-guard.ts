// Keeps the file tools out of what git reads its settings and hooks from, because the next git
// command, perhaps a person's, would follow them. The box protects the workspace's own .git; this
// covers every other, also without the name .git: a directory with the layout of a repository.
import { posix } from 'node:path';
import { pathsAbove } from '../../../../policy/paths.ts';
import { fault } from '../../../../wire/errors.ts';
import type { Box } from '../box.ts';
import { statIfThere } from './limits.ts';

/** Names in a git directory that decide what git runs, or whether it is one. */
const CONTROL_NAMES: ReadonlySet<string> = new Set([
  'HEAD',
  'commondir',
  'config',
  'config.worktree',
  'hooks',
  'info',
  'modules',
  'objects',
  'packed-refs',
  'refs',
  'worktrees',
]);

const isInGit = (path: string): boolean =>
  path.split('/').some((part) => part.toLowerCase() === '.git');

const gitOwnedFault = (path: string, what: string) =>
  fault('denied', `${path} cannot be changed as a file: ${what}`, {
    hint:
      'Protected are .git and every directory with the layout of a repository (HEAD, objects, refs). ' +
      'Use the git tools, or choose another name or directory.',
    details: { reason: 'denied', protects: 'git' },
  });

/** Throws for a path in a git directory, also through a link, and also when parts are missing. */
export async function assertNotGit(box: Box, path: string): Promise<void> {
  if (isInGit(path)) throw gitOwnedFault(path, 'it belongs to git');
  const real = await resolveMissing(box, path);
  if (isInGit(real)) throw gitOwnedFault(path, 'it belongs to git');
  for (const dir of pathsAbove(real)) {
    const name = real.slice(dir === '/' ? 1 : dir.length + 1).split('/', 1)[0]!;
    if (CONTROL_NAMES.has(name) && (await isRepository(box, dir, name)))
      throw gitOwnedFault(path, `with ${name}, ${dir} is a repository to git`);
  }
}

/**
 * Returns the path with the links of its existing part resolved. Names that do not exist yet cannot
 * be links; the last name is not followed.
 */
async function resolveMissing(box: Box, path: string): Promise<string> {
  for (const dir of pathsAbove(path)) {
    const found = await statIfThere(box, dir);
    if (found === undefined) continue;
    if (found.real_path === '') throw gitOwnedFault(path, 'where it leads cannot be determined');
    return posix.join(found.real_path, posix.relative(dir, path));
  }
  return path;
}

/** Returns whether git would take it for a repository, or nearly, once it has this name too. */
async function isRepository(box: Box, dir: string, name: string): Promise<boolean> {
  const has = async (other: string): Promise<boolean> =>
    name === other || (await statIfThere(box, posix.join(dir, other))) !== undefined;
  if ((await has('HEAD')) && (await has('commondir'))) return true;
  if (!(await has('objects')) || !(await has('refs'))) return false;
  return (name !== 'objects' && name !== 'refs') || has('HEAD');
}
