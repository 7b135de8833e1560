// git.branch and git.worktree: change a repository's branches and where they are checked out.
import * as z from 'zod';
import { isWithin } from '../../../../policy/paths.ts';
import { fault } from '../../../../wire/errors.ts';
import { boxPath, reads, writes } from '../box.ts';
import { type Tool, tool } from '../tool.ts';
import { BranchName, CHANGES, Ref, repo } from './input.ts';
import { type Git, openGit } from './run.ts';
import { readBranch, refuseInnerRepositories } from './state.ts';

const BranchInput = (workspace: string) =>
  z
    .strictObject({
      repo: repo(workspace),
      action: z.enum(['list', 'create', 'switch', 'delete']),
      name: BranchName.optional(),
      start: Ref.optional().describe('where a new branch begins; the current commit if absent'),
    })
    .refine(({ action, name }) => action === 'list' || name !== undefined, 'name is missing');

export const gitBranch = (workspace: string): Tool =>
  tool({
    name: 'git.branch',
    description:
      'List branches, create one and switch to it, switch to one, or delete one whose commits ' +
      'are in another.',
    ...CHANGES,
    input: BranchInput(workspace),
    output: z.object({
      top: z.string(),
      current: z.string().nullable(),
      branches: z.array(z.object({ name: z.string(), commit: z.string() })),
    }),
    touches: (input) => [
      reads(input.repo),
      ...(input.action === 'list' ? [] : [writes(input.repo)]),
    ],
    async perform({ action, name = '', start, ...input }, context) {
      const git = await openGit(context, input.repo, { once: true });
      if (action !== 'list') await refuseInnerRepositories(git, context);
      const from = start === undefined ? [] : [start];
      // --no-track: an upstream would be written to the settings, which are protected.
      const create = ['switch', '--quiet', '--no-track', '--create', name, ...from];
      if (action === 'create') await git.run(create);
      if (action === 'switch') await git.run(['switch', '--quiet', '--no-guess', name]);
      if (action === 'delete') await deleteBranch(git, name);
      const format = '--format=%(refname:short)%09%(objectname)';
      const { stdout } = await git.run(['for-each-ref', '--count=500', format, 'refs/heads']);
      const branches = stdout
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => ({ name: line.split('\t')[0]!, commit: line.split('\t')[1] ?? '' }));
      return { result: { top: git.top, current: await readBranch(git), branches } };
    },
  });

/** Deletes only the ref: `git branch --delete` would also write to the settings. */
async function deleteBranch(git: Git, name: string): Promise<void> {
  const ref = `refs/heads/${name}`;
  const { stdout: found } = await git.run(['rev-parse', '--verify', '--quiet', ref]);
  const { stdout: worktrees } = await git.run(['worktree', 'list', '--porcelain', '-z']);
  if (parseWorktrees(worktrees).some(({ branch }) => branch === name))
    throw fault('conflict', `${name} is checked out`, { hint: 'Switch to another one first.' });
  const holders = ['for-each-ref', '--count=2', '--format=%(refname)', `--contains=${ref}`];
  const { stdout } = await git.run([...holders, 'refs/heads']);
  if (stdout.split('\n').every((holder) => holder === '' || holder === ref))
    throw fault('conflict', `${name} has commits that no other branch has`, {
      hint: 'Keep it, or bring its commits into another branch first.',
    });
  await git.run(['update-ref', '-d', ref, found.trim()]);
}

const WorktreeInput = (workspace: string) =>
  z
    .strictObject({
      repo: repo(workspace),
      action: z.enum(['list', 'add', 'remove']),
      path: boxPath(workspace).optional(),
      branch: BranchName.optional().describe('with add: the new branch that is checked out there'),
      start: Ref.optional(),
    })
    .refine(({ action, path }) => action === 'list' || path !== undefined, 'path is missing')
    .refine(({ action, branch }) => action !== 'add' || branch !== undefined, 'branch is missing')
    .refine(({ path }) => path === undefined || isWithin(path, workspace), {
      message: 'path must be in the workspace',
    });

export const gitWorktree = (workspace: string): Tool =>
  tool({
    name: 'git.worktree',
    description:
      'List worktrees, add one in a directory of its own on a new branch, or remove one without ' +
      'changes. So several can work on one repository at once, each in their own files.',
    ...CHANGES,
    input: WorktreeInput(workspace),
    output: z.object({
      top: z.string(),
      worktrees: z.array(
        z.object({ path: z.string(), commit: z.string(), branch: z.string().nullable() }),
      ),
    }),
    touches({ action, path, ...input }) {
      const change = action === 'list' ? [] : [writes(input.repo)];
      return [reads(input.repo), ...change, ...(path === undefined ? [] : [writes(path)])];
    },
    async perform({ action, path = '', branch = '', start, ...input }, context) {
      const git = await openGit(context, input.repo, { once: true });
      if (action !== 'list') await refuseInnerRepositories(git, context);
      const from = start === undefined ? [] : [start];
      if (action === 'add')
        await git.run([
          'worktree',
          'add',
          '--quiet',
          '--no-track',
          '-b',
          branch,
          '--',
          path,
          ...from,
        ]);
      if (action === 'remove') await git.run(['worktree', 'remove', '--', path]);
      const { stdout } = await git.run(['worktree', 'list', '--porcelain', '-z']);
      return { result: { top: git.top, worktrees: parseWorktrees(stdout) } };
    },
  });

export function parseWorktrees(output: string) {
  const records = output.split('\0\0').filter((record) => record.includes('worktree '));
  return records.map((record) => {
    const field = (name: string) =>
      record
        .split('\0')
        .find((line) => line.startsWith(`${name} `))
        ?.slice(name.length + 1);
    const branch = field('branch')?.replace(/^refs\/heads\//, '') ?? null;
    return { path: field('worktree') ?? '', commit: field('HEAD') ?? '', branch };
  });
}
