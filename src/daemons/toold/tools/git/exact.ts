// Makes a commit of exactly what was shown before: a tree is written from a temporary index, and
// identified by its hash from then on.
import { randomUUID } from 'node:crypto';
import { posix } from 'node:path';
import { fault } from '../../../../wire/errors.ts';
import { describeEnd } from '../box.ts';
import { assertShowable } from '../diff.ts';
import { reasonOf, statIfThere } from '../files/limits.ts';
import { type Basis, changedFault, type ToolContext } from '../tool.ts';
import { PLAIN } from './input.ts';
import type { Git } from './run.ts';

type Staging = { paths: readonly string[]; all: boolean };

const HASH = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;
const NONE = 'none';
/** Built into git, by hash length. */
const EMPTY_TREES: Readonly<Record<number, string>> = {
  40: '4b825dc642cb6eb9a060e54bf8d69288fbee4904',
  64: '6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321',
};

/** Returns tree, branch and parents of the commit; throws when nothing has changed. */
export async function readBasis(git: Git, staging: Staging, context: ToolContext): Promise<Basis> {
  const parent = await readHead(git);
  const merged = await readMergeHeads(git, context);
  const basis = {
    branch: await readRef(git),
    parent,
    ...(merged.length === 0 ? {} : { merges: merged.join(' ') }),
    tree: await writeTree(git, staging, context),
  };
  const before =
    parent === NONE ? emptyTree(basis.tree) : await resolveHash(git, `${parent}^{tree}`);
  if (before !== basis.tree || merged.length > 0) return basis;
  throw fault('conflict', 'nothing would be committed: nothing has changed', {
    hint: 'See git.status; name paths, or set all, to stage what changed.',
  });
}

/** Shows the whole change; repository attributes cannot hide text as binary. */
export async function renderDiff(git: Git, { parent, tree }: Basis): Promise<string> {
  const whole = [...PLAIN, '--text', '--ignore-submodules=none', '--submodule=short'];
  const from = parent === NONE ? emptyTree(tree!) : `${parent}^{tree}`;
  const args = ['diff-tree', '-r', '--patch', '--find-renames', ...whole, from, tree!];
  const { stdout, truncated } = await git.run(args);
  if (!truncated) return assertShowable(stdout);
  throw fault('too_large', 'the change is too long to be shown to a person as a whole', {
    hint: 'Commit in smaller parts, so that a person can look at each.',
  });
}

/** Returns the new commit. The branch moves only from the parent that was shown. */
export async function commitExactly(git: Git, basis: Basis, message: string): Promise<string> {
  const { branch, parent, merges, tree } = basis as Basis & { branch: string; tree: string };
  if ((await readRef(git)) !== branch) throw changedFault(`the current branch in ${git.top}`);
  const { stdout: text } = await git.run(['stripspace'], message);
  if (text.trim() === '') throw fault('bad_request', 'the message of the commit is empty');
  const parents = [parent!, ...(merges?.split(' ') ?? [])].filter((hash) => hash !== NONE);
  const make = ['commit-tree', tree, ...parents.flatMap((hash) => ['-p', hash])];
  const commit = (await git.run(make, text)).stdout.trim();
  const old = parent === NONE ? '0'.repeat(tree.length) : parent!;
  const note = `commit: ${text.split('\n')[0]!.slice(0, 200)}`;
  const moved = await git.try(['update-ref', '--no-deref', '-m', note, branch, commit, old]);
  if (moved.endedBy !== null)
    throw new Error(`git update-ref was ended ${describeEnd(moved.endedBy)}`);
  if (moved.exitCode !== 0) throw changedFault(`${branch} (was at ${parent})`);
  // The commit is done; the rest only updates index and merge state.
  if (merges !== undefined) await git.try(['merge', '--quit']);
  await git.try(['read-tree', '-m', tree]);
  await git.try(['update-index', '-q', '--refresh']);
  return commit;
}

const emptyTree = (like: string): string => EMPTY_TREES[like.length]!;

/** The ref that a commit moves: a branch, or HEAD when detached. */
async function readRef(git: Git): Promise<string> {
  const { exitCode, stdout } = await git.try(['symbolic-ref', '--quiet', 'HEAD']);
  return exitCode === 0 ? stdout.toString().trim() : 'HEAD';
}

async function readHead(git: Git): Promise<string> {
  const { exitCode, stdout } = await git.try(['rev-parse', '--verify', '--quiet', 'HEAD^{commit}']);
  return exitCode === 0 ? parseHash(stdout.toString()) : NONE;
}

const resolveHash = async (git: Git, name: string): Promise<string> =>
  parseHash((await git.run(['rev-parse', '--verify', name])).stdout);

function parseHash(text: string): string {
  const hash = text.trim();
  if (HASH.test(hash)) return hash;
  throw fault('bad_output', `git printed ${JSON.stringify(hash.slice(0, 100))} instead of a hash`);
}

async function readMergeHeads({ gitDir }: Git, context: ToolContext): Promise<string[]> {
  const { files } = await context.box();
  const path = posix.join(gitDir, 'MERGE_HEAD');
  try {
    const { content } = await files.perform({ op: 'read', path, length: 65_536 });
    return content
      .split('\n')
      .filter((line) => line !== '')
      .map(parseHash);
  } catch (error) {
    if (reasonOf(error) === 'not_found') return [];
    throw error;
  }
}

async function writeTree(git: Git, { paths, all }: Staging, context: ToolContext): Promise<string> {
  const box = await context.box();
  const index = `/tmp/agentd-${context.callId}-${randomUUID()}.index`;
  const plain = { env: { PATH: '/usr/local/bin:/usr/bin:/bin' }, cwd: '/', wallMs: 30_000 };
  const own = posix.join(git.gitDir, 'index');
  const found = await statIfThere(box, own);
  try {
    if (found !== undefined) {
      // -p keeps the time, by which git detects files changed right after they were staged.
      const copied = await box.exec({ ...plain, argv: ['cp', '-p', '--', own, index] });
      if (copied.exitCode !== 0) throw fault('unavailable', `${own} cannot be copied`);
    }
    const apart = git.withIndex(index);
    if (all) await apart.run(['add', '--all']);
    if (paths.length > 0) await apart.run(['add', '--', ...paths]);
    return parseHash((await apart.run(['write-tree'])).stdout);
  } finally {
    await box.exec({ ...plain, argv: ['rm', '-f', '--', index, `${index}.lock`] });
  }
}
