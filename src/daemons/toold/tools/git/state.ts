// The state a repository is in, as far as the tools that change it must know.
import { posix } from 'node:path';
import { fault } from '../../../../wire/errors.ts';
import { statIfThere } from '../files/limits.ts';
import type { ToolContext } from '../tool.ts';
import type { Git } from './run.ts';

/**
 * Staging looks into repositories that are checked out inside this one, with settings of their own
 * that nobody has looked at.
 */
export async function refuseInnerRepositories(git: Git, context: ToolContext): Promise<void> {
  const { stdout, truncated } = await git.run(['ls-files', '--stage', '-z']);
  if (truncated) throw fault('limit', 'the repository has too many files to look through');
  const box = await context.box();
  for (const line of stdout.split('\0').filter((one) => one.startsWith('160000 '))) {
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
