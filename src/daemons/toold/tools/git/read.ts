// git.status, git.diff, git.log and git.show.
import * as z from 'zod';
import { READ_ONLY, reads } from '../box.ts';
import { type Tool, tool } from '../tool.ts';
import { NO_SUBMODULES, PLAIN, Ref, RepoPath, repo } from './input.ts';
import { openGit } from './run.ts';

const LIMITS = { timeoutMs: 90_000, callsPerRunMax: 2_000 } as const;
const CHANGES_MAX = 1_000;

export type FileChange = { path: string; status: string; from?: string };
export type Status = {
  branch: string | null;
  commit: string | null;
  upstream?: string;
  ahead?: number;
  behind?: number;
  changes: FileChange[];
};

/** `git status --porcelain=v2 --branch -z`. */
export function parseStatus(output: string): Status {
  const parts = output.split('\0');
  const status: Status = { branch: null, commit: null, changes: [] };
  for (let i = 0; i < parts.length; i++) {
    const line = parts[i]!;
    const [, name, value = ''] = /^# branch\.(\w+) (.*)$/.exec(line) ?? [];
    if (name === 'head') status.branch = value === '(detached)' ? null : value;
    else if (name === 'oid') status.commit = value === '(initial)' ? null : value;
    else if (name === 'upstream') status.upstream = value;
    else if (name === 'ab') {
      const [ahead, behind] = value.split(' ').map((count) => Math.abs(Number(count)));
      Object.assign(status, { ahead, behind });
    } else if (line.startsWith('? ')) status.changes.push({ path: line.slice(2), status: '??' });
    else if (/^[12u] /.test(line)) {
      const fields = { '1': 8, '2': 9, u: 10 }[line[0] as '1' | '2' | 'u'];
      const words = line.split(' ');
      const path = words.slice(fields).join(' ');
      const from = line.startsWith('2 ') ? parts[++i] : undefined;
      status.changes.push({ path, status: words[1]!, ...(from === undefined ? {} : { from }) });
    }
  }
  return status;
}

export const gitStatus = (workspace: string): Tool =>
  tool({
    name: 'git.status',
    description:
      'The branch and what has changed: for each path two letters, staged and not staged, as git ' +
      'shows them (M changed, A added, D deleted, R renamed, ?? not known to git).',
    ...READ_ONLY,
    ...LIMITS,
    level: 'L2',
    box: 'read',
    input: z.strictObject({ repo: repo(workspace) }),
    output: z.object({
      top: z.string(),
      branch: z.string().nullable(),
      commit: z.string().nullable(),
      upstream: z.string().optional(),
      ahead: z.int().optional(),
      behind: z.int().optional(),
      changes: z.array(
        z.object({ path: z.string(), status: z.string(), from: z.string().optional() }),
      ),
      incomplete: z.boolean().optional(),
    }),
    touches: (input) => [reads(input.repo)],
    async perform(input, context) {
      const git = await openGit(context, input.repo);
      const how = ['--porcelain=v2', '--branch', '-z', '--untracked-files=normal'];
      const { stdout, truncated } = await git.run(['status', ...how, NO_SUBMODULES]);
      const status = parseStatus(stdout);
      const incomplete = truncated || status.changes.length > CHANGES_MAX;
      const changes = status.changes.slice(0, CHANGES_MAX);
      const more = incomplete ? { incomplete } : {};
      return { result: { top: git.top, ...status, changes, ...more } };
    },
  });

const Text = {
  text: z.string(),
  incomplete: z.boolean().optional().describe('there was more than fits'),
};
const toText = ({ stdout, truncated }: { stdout: string; truncated: boolean }) => ({
  text: stdout,
  ...(truncated ? { incomplete: true } : {}),
});

export const gitDiff = (workspace: string): Tool =>
  tool({
    name: 'git.diff',
    description:
      'Show differences as a unified diff: by default what is not staged; staged shows what is ' +
      'staged; from shows what changed since that commit, and with to between the two.',
    ...READ_ONLY,
    ...LIMITS,
    level: 'L2',
    box: 'read',
    input: z
      .strictObject({
        repo: repo(workspace),
        staged: z.boolean().default(false),
        from: Ref.optional(),
        to: Ref.optional(),
        paths: z.array(RepoPath).max(100).default([]),
        stat_only: z.boolean().default(false).describe('only how much changed in which file'),
        context_lines: z.int().min(0).max(100).default(3),
      })
      .refine(({ from, to }) => to === undefined || from !== undefined, 'to needs from'),
    output: z.object({ top: z.string(), ...Text }),
    touches: (input) => [reads(input.repo)],
    async perform({ staged, from, to, paths, stat_only, context_lines, ...input }, context) {
      const git = await openGit(context, input.repo);
      const output = await git.run([
        'diff',
        ...PLAIN,
        NO_SUBMODULES,
        `--unified=${context_lines}`,
        ...(stat_only ? ['--stat=120'] : ['--patch']),
        ...(staged ? ['--cached'] : []),
        ...(from === undefined ? [] : ['--end-of-options', from]),
        ...(to === undefined ? [] : [to]),
        '--',
        ...paths,
      ]);
      return { result: { top: git.top, ...toText(output) } };
    },
  });

const FIELDS = ['%H', '%an', '%ae', '%aI', '%s', '%b'];
const Commit = z.object({
  commit: z.string(),
  author: z.string(),
  email: z.string(),
  date: z.string(),
  subject: z.string(),
  body: z.string(),
});

export function parseCommits(output: string): z.output<typeof Commit>[] {
  const records = output.split('\x1e').filter((record) => record.includes('\x1f'));
  return records.map((record) => {
    const [commit = '', author = '', email = '', date = '', subject = '', body = ''] = record
      .replace(/^\n/, '')
      .split('\x1f');
    return { commit, author, email, date, subject, body: body.trim() };
  });
}

export const gitLog = (workspace: string): Tool =>
  tool({
    name: 'git.log',
    description: 'List commits, newest first, of a branch or of some paths.',
    ...READ_ONLY,
    ...LIMITS,
    level: 'L2',
    box: 'read',
    input: z.strictObject({
      repo: repo(workspace),
      ref: Ref.default('HEAD'),
      since: Ref.optional().describe('leave out what is in this commit already'),
      paths: z.array(RepoPath).max(100).default([]),
      max: z.int().min(1).max(200).default(20),
      skip: z.int().min(0).max(1_000_000).default(0),
    }),
    output: z.object({ top: z.string(), commits: z.array(Commit) }),
    touches: (input) => [reads(input.repo)],
    async perform({ ref, since, paths, max, skip, ...input }, context) {
      const git = await openGit(context, input.repo);
      const format = `--format=tformat:${FIELDS.join('%x1f')}%x1e`;
      const { stdout } = await git.run([
        'log',
        ...PLAIN,
        '--no-show-signature',
        '--encoding=UTF-8',
        format,
        `--max-count=${max}`,
        `--skip=${skip}`,
        '--end-of-options',
        ref,
        ...(since === undefined ? [] : [`^${since}`]),
        '--',
        ...paths,
      ]);
      return { result: { top: git.top, commits: parseCommits(stdout) } };
    },
  });

export const gitShow = (workspace: string): Tool =>
  tool({
    name: 'git.show',
    description:
      'Show a commit with its diff, or with path the content of that file as it was in the commit.',
    ...READ_ONLY,
    ...LIMITS,
    level: 'L2',
    box: 'read',
    input: z.strictObject({
      repo: repo(workspace),
      ref: Ref.default('HEAD'),
      path: RepoPath.optional().describe('of a file, relative to the top of the repository'),
    }),
    output: z.object({ top: z.string(), ...Text }),
    touches: (input) => [reads(input.repo)],
    async perform({ ref, path, ...input }, context) {
      const git = await openGit(context, input.repo);
      const whole = [
        'show',
        ...PLAIN,
        '--no-show-signature',
        '--encoding=UTF-8',
        '--stat',
        '--patch',
      ];
      const output = await git.run(
        path === undefined
          ? [...whole, '--submodule=short', '--end-of-options', ref, '--']
          : ['cat-file', 'blob', `${ref}:${path}`],
      );
      return { result: { top: git.top, ...toText(output) } };
    },
  });
