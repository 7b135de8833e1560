// What lies in a repository's .git is changed by git alone: settings and hooks there would be
// followed by whoever uses git next. The box protects the workspace's own; this is for every other.
import { posix } from 'node:path';
import { fault } from '../../../../wire/errors.ts';
import type { Box } from '../box.ts';
import { statIfThere } from './limits.ts';

const isInGit = (path: string): boolean =>
  path.split('/').some((part) => part.toLowerCase() === '.git');

const gitOwnedFault = (path: string) =>
  fault('denied', `${path} belongs to git and is not changed as a file`, {
    hint: 'Use the git tools.',
    details: { reason: 'denied' },
  });

/** Also when a link leads there under another name. */
export async function assertNotGit(box: Box, path: string): Promise<void> {
  if (isInGit(path)) throw gitOwnedFault(path);
  // Directories that are to be made lead nowhere yet.
  const above = await statIfThere(box, posix.dirname(path));
  if (above !== undefined && isInGit(above.real_path)) throw gitOwnedFault(path);
}
