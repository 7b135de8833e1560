// Lists the git tools. git/config.ts and git/repository.ts restrict what a repository can make git
// do.
import { WORKSPACE } from './box.ts';
import { gitCommit } from './git/commit.ts';
import { gitDiff, gitLog, gitShow, gitStatus } from './git/read.ts';
import { gitBranch, gitWorktree } from './git/write.ts';
import type { Tool } from './tool.ts';

export function gitTools(workspace: string = WORKSPACE): Tool[] {
  return [
    gitStatus(workspace),
    gitDiff(workspace),
    gitLog(workspace),
    gitShow(workspace),
    gitCommit(workspace),
    gitBranch(workspace),
    gitWorktree(workspace),
  ];
}
