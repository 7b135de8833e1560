// git.commit, git.branch and git.worktree: what changes a repository. The author is the agent.
import { posix } from 'node:path';
import * as z from 'zod';
import { fault } from '../../../../wire/errors.ts';
import { boxPath, isWithin, reads, writes } from '../box.ts';
import { assertShowable } from '../diff.ts';
import { previewOfNew } from '../files/write.ts';
import { type Tool, type ToolContext, tool } from '../tool.ts';
import { BranchName, NO_SUBMODULES, PLAIN, Ref, RepoPath, repo } from './input.ts';
import { type Git, openGit } from './run.ts';

const NEW_FILES_MAX = 50;
const LIMITS = { timeoutMs: 120_000, callsPerRunMax: 500 } as const;

/**
 * Staging looks into repositories that are checked out inside this one, with settings of their own
 * that nobody has looked at.
 */
async function refuseInnerRepositories(git: Git, context: ToolContext): Promise<void> {
  const { stdout, truncated } = await git.run(['ls-files', '--stage', '-z']);
  if (truncated) throw fault('limit', 'the repository has too many files to look through');
  const { files } = await context.box();
  for (const line of stdout.split('\0').filter((one) => one.startsWith('160000 '))) {
    const path = line.slice(line.indexOf('\t') + 1);
    const dotGit = posix.join(git.top, path, '.git');
    const found = await files.perform({ op: 'stat', path: dotGit }).catch(() => undefined);
    if (found === undefined) continue;
    throw fault('denied', `${path} is a checked-out submodule, and git is not used with those`, {
      hint: 'Ask a person to commit it, or to take the submodule out of the workspace.',
    });
  }
}

const CommitInput = (workspace: string) =>
  z
    .strictObject({
      repo: repo(workspace),
      message: z.string().min(1).max(20_000),
      paths: z.array(RepoPath).max(500).default([]).describe('stage exactly these first'),
      all: z.boolean().default(false).describe('stage everything that changed first'),
    })
    .refine(({ paths, all }) => !all || paths.length === 0, 'give paths or all, not both');

export const gitCommit = (workspace: string): Tool =>
  tool({
    name: 'git.commit',
    description:
      'Commit to the current branch: what is staged, after staging paths, or all that changed. ' +
      'You are the author. Hooks are not run.',
    risk: 'medium',
    reversibility: 'reversible',
    idempotent: false,
    ...LIMITS,
    level: 'L2',
    box: 'write',
    input: CommitInput(workspace),
    output: z.object({
      top: z.string(),
      commit: z.string(),
      branch: z.string().nullable(),
      summary: z.string(),
    }),
    touches: (input) => [reads(input.repo), writes(input.repo)],
    rollback: 'git reset --soft HEAD~1 takes the commit back and keeps the files.',
    async preview(input, context) {
      const git = await openGit(context, input.repo);
      return assertShowable(await previewOf(git, input, context));
    },
    async perform({ message, paths, all, ...input }, context) {
      const git = await openGit(context, input.repo, { once: true });
      await refuseInnerRepositories(git, context);
      if (all) await git.run(['add', '--all']);
      if (paths.length > 0) await git.run(['add', '--', ...paths]);
      const how = ['--no-verify', '--no-gpg-sign', '--cleanup=whitespace', '--quiet', '--file=-'];
      const done = await git.try(['commit', ...how], message);
      if (done.endedBy !== null) throw new Error(`git commit was ended by ${done.endedBy}`);
      if (done.exitCode !== 0) throw notCommitted(done.stdout.toString(), done.stderr.toString());
      const { stdout } = await git.run(['log', '-1', '--format=%H', '--shortstat', ...PLAIN]);
      const [commit = '', ...summary] = stdout.split('\n').filter((line) => line !== '');
      const branch = await branchOf(git);
      return { result: { top: git.top, commit, branch, summary: summary.join(' ').trim() } };
    },
  });

type Staging = { paths: readonly string[]; all: boolean };

/** No attribute of the repository's makes text a binary file that only differs. */
const WHOLE = [...PLAIN, '--text'] as const;

/**
 * Everything that would be in the commit: what is staged already, whatever is named besides, and
 * files that git does not know yet.
 */
async function previewOf(git: Git, { paths, all }: Staging, context: ToolContext): Promise<string> {
  // A new commit of a submodule is part of it; into the submodule itself nobody looks.
  const staged = await shownBy(git, [...WHOLE, '--ignore-submodules=dirty', '--cached', '--']);
  if (!all && paths.length === 0) return staged;
  const known = await shownBy(git, [...WHOLE, NO_SUBMODULES, '--', ...paths]);
  const others = ['ls-files', '--others', '--exclude-standard', '-z', '--', ...paths];
  const { stdout } = await git.run(others);
  const fresh = stdout.split('\0').filter((path) => path !== '');
  if (fresh.length > NEW_FILES_MAX)
    throw fault('too_large', `${fresh.length} new files are too many to show to a person`, {
      hint: 'Name the paths, and commit in smaller parts.',
    });
  const box = await context.box();
  const added = fresh.map((path) => previewOfNew(box, posix.join(git.top, path)));
  return [staged, known, ...(await Promise.all(added))].join('');
}

async function shownBy(git: Git, args: readonly string[]): Promise<string> {
  const { stdout, truncated } = await git.run(['diff', ...args]);
  if (!truncated) return stdout;
  throw fault('too_large', 'the change is too long to be shown to a person as a whole', {
    hint: 'Commit in smaller parts, so that a person can look at each.',
  });
}

function notCommitted(stdout: string, stderr: string) {
  const said = (stderr.trim() || stdout.trim()).slice(0, 1_000);
  return fault('conflict', `nothing was committed: ${said}`, {
    hint: 'See git.status; name paths, or set all, to stage what changed.',
  });
}

async function branchOf(git: Git): Promise<string | null> {
  const { exitCode, stdout } = await git.try(['symbolic-ref', '--quiet', '--short', 'HEAD']);
  return exitCode === 0 ? stdout.toString().trim() : null;
}

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
    risk: 'medium',
    reversibility: 'reversible',
    idempotent: false,
    ...LIMITS,
    level: 'L2',
    box: 'write',
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
      // What a branch follows would be written to the settings, which are protected.
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
      return { result: { top: git.top, current: await branchOf(git), branches } };
    },
  });

/** By its reference alone: `git branch --delete` would write to the settings, too. */
async function deleteBranch(git: Git, name: string): Promise<void> {
  const ref = `refs/heads/${name}`;
  const { stdout: found } = await git.run(['rev-parse', '--verify', '--quiet', ref]);
  const { stdout: worktrees } = await git.run(['worktree', 'list', '--porcelain', '-z']);
  if (parseWorktrees(worktrees).some(({ branch }) => branch === name))
    throw fault('conflict', `${name} is checked out`, { hint: 'Switch to another one first.' });
  const holders = ['for-each-ref', '--count=2', '--format=%(refname)', `--contains=${ref}`];
  const { stdout } = await git.run([...holders, 'refs/heads']);
  if (stdout.split('\n').every((one) => one === '' || one === ref))
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
    risk: 'medium',
    reversibility: 'reversible',
    idempotent: false,
    ...LIMITS,
    level: 'L2',
    box: 'write',
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
