// Keeps the file tools out of .git, because the next git command would follow settings and hooks
// there. The box protects the workspace's own .git; this covers every other.
import { posix } from 'node:path';
import { fault } from '../../../../wire/errors.ts';
import type { Box } from '../box.ts';
import { statIfThere } from './limits.ts';

const isInGit = (path: string): boolean =>
  path.split('/').some((part) => part.toLowerCase() === '.git');

const gitOwnedFault = (path: string) =>
  fault('denied', `${path} belongs to git and cannot be changed as a file`, {
    hint: 'Use the git tools.',
    details: { reason: 'denied' },
  });

/** Throws for a path in .git, also through a link. */
export async function assertNotGit(box: Box, path: string): Promise<void> {
  if (isInGit(path)) throw gitOwnedFault(path);
  // Undefined for a directory that does not exist yet.
  const above = await statIfThere(box, posix.dirname(path));
  if (above !== undefined && isInGit(above.real_path)) throw gitOwnedFault(path);
}
