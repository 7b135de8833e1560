// Runs git in the box, never through a shell, and without settings of the repository or the user
// that could make it run a program, prompt or fetch.
import { posix } from 'node:path';
import { buildSafeGitEnv, SAFE_GIT_ENV, type SafeGitSetting } from '../../../../policy/safe-git.ts';
import { fault } from '../../../../wire/errors.ts';
import { type Box, describeEnd, type ExecResult, execOnce } from '../box.ts';
import { statIfThere } from '../files/limits.ts';
import type { ToolContext } from '../tool.ts';
import { overrideSettings, parseSettings } from './config.ts';
import { buildGitIdentity } from './identity.ts';
import { findRepository, type Repository } from './repository.ts';

const WALL_MS = 60_000;
const OUTPUT_BYTES_MAX = 2_000_000;
/** Earlier versions silently ignore GIT_CONFIG_COUNT. */
const VERSION_MIN = [2, 31] as const;

export type GitOutput = { stdout: string; truncated: boolean };
export type Git = Repository & {
  /** Throws a fault with git's output when it fails. */
  run(args: readonly string[], stdin?: string): Promise<GitOutput>;
  /** Returns the result even when git fails. */
  try(args: readonly string[], stdin?: string): Promise<ExecResult>;
  /** Uses another index, so that staging is not visible to others. */
  withIndex(file: string): Git;
};

/** Every box has the host's git, so it is checked once. */
let isNewEnough = false;

async function assertVersion(box: Box): Promise<void> {
  if (isNewEnough) return;
  const { stdout } = await box.exec({ argv: ['git', '--version'], cwd: '/', env: SAFE_GIT_ENV });
  const [, major, minor] = /^git version (\d+)\.(\d+)/.exec(stdout.toString()) ?? [];
  const [minMajor, minMinor] = VERSION_MIN;
  isNewEnough =
    Number(major) > minMajor || (Number(major) === minMajor && Number(minor) >= minMinor);
  if (!isNewEnough)
    throw fault('unavailable', 'the box has no git that can be kept from running programs', {
      hint: `Ask an operator to install git ${VERSION_MIN.join('.')} or newer on this host.`,
    });
}

/**
 * Uses git's own parser, so that both read the file alike, and runs outside every repository, so
 * that none of the settings applies yet.
 */
async function readSettings(box: Box, file: string): Promise<SafeGitSetting[]> {
  const argv = ['git', '--no-pager', 'config', '--file', file, '--no-includes', '-z', '--list'];
  const done = await box.exec({
    argv,
    cwd: '/',
    env: SAFE_GIT_ENV,
    wallMs: 10_000,
    outputBytesMax: 500_000,
  });
  if (done.exitCode === 0 && done.endedBy === null) return parseSettings(done.stdout.toString());
  throw fault('denied', `the settings of the repository in ${file} cannot be read`, {
    hint: 'Ask a person to correct that file.',
  });
}

async function readOverrides(
  box: Box,
  { gitDir, commonDir }: Repository,
): Promise<SafeGitSetting[]> {
  const own: SafeGitSetting[] = [];
  for (const file of [posix.join(commonDir, 'config'), posix.join(gitDir, 'config.worktree')]) {
    if ((await statIfThere(box, file)) !== undefined) own.push(...(await readSettings(box, file)));
  }
  const verdict = overrideSettings(own);
  if ('settings' in verdict) return verdict.settings;
  throw fault('denied', `git is not used with the settings of ${commonDir}: ${verdict.refused}`, {
    hint: 'Ask a person to remove that from its config.',
  });
}

function buildEnv(
  repository: Repository,
  settings: readonly SafeGitSetting[],
  context: ToolContext,
) {
  return buildSafeGitEnv(settings, {
    GIT_DIR: repository.gitDir,
    GIT_COMMON_DIR: repository.commonDir,
    GIT_WORK_TREE: repository.top,
    ...buildGitIdentity(context),
  });
}

function gitFault(args: readonly string[], { stderr, stdout, endedBy }: ExecResult) {
  if (endedBy !== null)
    return fault('limit', `git ${args[0]} was ended ${describeEnd(endedBy)}`, {
      hint: 'Request less at once: fewer paths, fewer commits.',
    });
  const printed = stderr.toString().trim() || stdout.toString().trim() || 'nothing';
  return fault('bad_request', `git ${args[0]} failed: ${printed.slice(0, 1_000)}`, {
    hint: 'Correct the arguments as git says.',
  });
}

/** `once`: a command must not be repeated when its end is unknown. */
export async function openGit(
  context: ToolContext,
  from: string,
  { once }: { once: boolean } = { once: false },
): Promise<Git> {
  const box = await context.box();
  await assertVersion(box);
  const repository = await findRepository(box, from);
  const env = buildEnv(repository, await readOverrides(box, repository), context);
  const exec = once ? execOnce.bind(undefined, box) : box.exec;
  const withEnv = (own: Record<string, string>): Git => {
    const tryGit = (args: readonly string[], stdin?: string): Promise<ExecResult> =>
      exec({
        argv: ['git', '--no-pager', ...args],
        cwd: repository.top,
        env: own,
        ...(stdin === undefined ? {} : { stdin: Buffer.from(stdin) }),
        wallMs: WALL_MS,
        outputBytesMax: OUTPUT_BYTES_MAX,
        signal: context.signal,
      });
    return {
      ...repository,
      try: tryGit,
      async run(args, stdin) {
        const done = await tryGit(args, stdin);
        const truncated = done.endedBy === 'output';
        if (!truncated && (done.exitCode !== 0 || done.endedBy !== null))
          throw gitFault(args, done);
        return { stdout: done.stdout.toString(), truncated };
      },
      withIndex: (file) => withEnv({ ...own, GIT_INDEX_FILE: file }),
    };
  };
  return withEnv(env);
}
