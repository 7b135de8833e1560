// git.commit. A person approves one tree on one parent of one branch; exactly that is committed,
// even if the files have changed since. The author is the agent.
import * as z from 'zod';
import { fault } from '../../../../wire/errors.ts';
import { describeEnd, reads, writes } from '../box.ts';
import { type Basis, type Tool, type ToolContext, tool } from '../tool.ts';
import { commitExactly, readBasis, renderDiff } from './exact.ts';
import { CHANGES, PLAIN, RepoPath, repo } from './input.ts';
import { type Git, openGit } from './run.ts';
import { readBranch, refuseInnerRepositories } from './state.ts';

const CommitInput = (workspace: string) =>
  z
    .strictObject({
      repo: repo(workspace),
      message: z.string().min(1).max(20_000),
      paths: z.array(RepoPath).max(500).default([]).describe('stage exactly these first'),
      all: z.boolean().default(false).describe('stage everything that changed first'),
    })
    .refine(({ paths, all }) => !all || paths.length === 0, 'give paths or all, not both');
type CommitInput = z.output<ReturnType<typeof CommitInput>>;

export const gitCommit = (workspace: string): Tool =>
  tool({
    name: 'git.commit',
    description:
      'Commit to the current branch: what is staged, after staging paths, or all that changed. ' +
      'You are the author. Hooks are not run.',
    ...CHANGES,
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
      await refuseInnerRepositories(git, context);
      const basis = await readBasis(git, input, context);
      return { text: await renderDiff(git, basis), basis };
    },
    async perform(input, context) {
      const git = await openGit(context, input.repo, { once: true });
      const commit = await makeCommit(git, input, context);
      const { stdout } = await git.run([
        'log',
        '-1',
        '--format=%H',
        '--shortstat',
        ...PLAIN,
        commit,
      ]);
      const [, ...summary] = stdout.split('\n').filter((line) => line !== '');
      const branch = await readBranch(git);
      return { result: { top: git.top, commit, branch, summary: summary.join(' ').trim() } };
    },
  });

async function makeCommit(git: Git, input: CommitInput, context: ToolContext): Promise<string> {
  const { message, paths, all } = input;
  const basis: Basis | undefined = context.basis;
  if (basis !== undefined) return commitExactly(git, basis, message);
  await refuseInnerRepositories(git, context);
  if (all) await git.run(['add', '--all']);
  if (paths.length > 0) await git.run(['add', '--', ...paths]);
  const how = ['--no-verify', '--no-gpg-sign', '--cleanup=whitespace', '--quiet', '--file=-'];
  const done = await git.try(['commit', ...how], message);
  if (done.endedBy !== null) throw new Error(`git commit was ended ${describeEnd(done.endedBy)}`);
  if (done.exitCode !== 0) throw notCommittedFault(done.stdout.toString(), done.stderr.toString());
  const { stdout } = await git.run(['rev-parse', '--verify', 'HEAD']);
  return stdout.trim();
}

function notCommittedFault(stdout: string, stderr: string) {
  const printed = (stderr.trim() || stdout.trim()).slice(0, 1_000);
  return fault('conflict', `nothing was committed: ${printed}`, {
    hint: 'See git.status; name paths, or set all, to stage what changed.',
  });
}
