// Reads the state of a repository that tools need before they change it.
import { posix } from 'node:path';
import { fault } from '../../../../wire/errors.ts';
import { statIfThere } from '../files/limits.ts';
import type { ToolContext } from '../tool.ts';
import type { Git } from './run.ts';

/**
 * Throws when a submodule is checked out: staging would read its settings, which are not checked.
 */
export async function refuseInnerRepositories(git: Git, context: ToolContext): Promise<void> {
  const { stdout, truncated } = await git.run(['ls-files', '--stage', '-z']);
  if (truncated) throw fault('limit', 'the repository has too many files to look through');
  const box = await context.box();
  for (const line of stdout.split('\0').filter((entry) => entry.startsWith('160000 '))) {
    const path = line.slice(line.indexOf('\t') + 1);
    const dotGit = posix.join(git.top, path, '.git');
    if ((await statIfThere(box, dotGit)) === undefined) continue;
    throw fault('denied', `${path} is a checked-out submodule, and git is not used with those`, {
      hint: 'Ask a person to commit it, or to take the submodule out of the workspace.',
    });
  }
}

export async function readBranch(git: Git): Promise<string | null> {
  const { exitCode, stdout } = await git.try(['symbolic-ref', '--quiet', '--short', 'HEAD']);
  return exitCode === 0 ? stdout.toString().trim() : null;
}
