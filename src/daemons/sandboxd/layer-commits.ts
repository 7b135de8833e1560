// Brings the commits of a layer into a person's repository: as objects that git has checked, and
// refs that it compares and swaps, never as files of .git. The output of the layer's box is not
// trusted; everything is checked in the box that holds the person's directory.
import { hasDeceptiveName } from '../../policy/apply-names.ts';
import { fault } from '../../wire/errors.ts';
import { type GitPlace, pipeGit, runGit, tryGit } from './layer-git.ts';

/** Null: the ref did not exist, or does not have to. */
export type CommitUpdate = { ref: string; from: string | null; to: string | null };

export type CommitObstacle = {
  ref: string;
  reason: /** Allowed by the kind `git_refs`: the person's branch has commits that the layer has not. */
    | 'not_fast_forward'
    /** Allowed by the kind `git_refs`: the tag exists and names another object. */
    | 'tag_moved'
    /** Another working tree of the person uses the branch. */
    | 'used_elsewhere'
    /** The person has staged changes on the branch. */
    | 'staged_changes'
    /** The person's ref, or that of the layer, is a link to another ref. */
    | 'symbolic'
    | 'name';
};

/** Refs that are left as they are. */
export type SkippedRef = { ref: string; reason: 'behind' | 'deleted' | 'detached' };

export type CommitPlan = {
  updates: CommitUpdate[];
  /** The person's current branch, if it moves: the index follows it. */
  head: CommitUpdate | null;
};
export type PlannedCommits = {
  plan: CommitPlan;
  obstacles: CommitObstacle[];
  skipped: SkippedRef[];
  /** Branches of the layer, if the directory has no repository that they could come to. */
  left: LeftBranch[];
};
export type LeftBranch = { ref: string; count: number };

const REFS_MAX = 20_000;
const PACK_BYTES_MAX = 2 * 1024 ** 3;
const HASH = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

type Ref = { hash: string; isSymbolic: boolean; isUsedElsewhere: boolean };
type Repository = { refs: Map<string, Ref>; head: string | null; headHash: string | null };

/** Lines that are not as asked for are ignored: a ref that cannot be named does not come over. */
function parseRefs(output: Buffer, top: string): Map<string, Ref> {
  const refs = new Map<string, Ref>();
  for (const line of output.toString().split('\n').slice(0, REFS_MAX)) {
    const [hash, ref, symbolic, usedAt] = line.split('\0');
    if (ref === undefined || !HASH.test(hash!) || !/^refs\/(heads|tags)\/[^-]/.test(ref)) continue;
    const isUsedElsewhere = usedAt !== undefined && usedAt !== '' && usedAt !== top;
    refs.set(ref, { hash: hash!, isSymbolic: symbolic !== '', isUsedElsewhere });
  }
  return refs;
}

async function readHash(place: GitPlace, name: string): Promise<string | null> {
  const args = ['rev-parse', '--verify', '--quiet', '--end-of-options', name];
  const found = (await tryGit(place, args)).stdout.toString().trim();
  return HASH.test(found) ? found : null;
}

/** Undefined: there is no repository with a working tree. */
async function readRepository(place: GitPlace): Promise<Repository | undefined> {
  const probe = await tryGit(place, ['rev-parse', '--git-dir']);
  if (probe.status !== 0) return undefined;
  const fields = ['%(objectname)', '%(refname)', '%(symref)', '%(worktreepath)'];
  const format = `--format=${fields.join('%00')}`;
  const listed = await runGit(place, ['for-each-ref', format, 'refs/heads', 'refs/tags']);
  const symbolic = await tryGit(place, ['symbolic-ref', '-q', 'HEAD']);
  return {
    refs: parseRefs(listed, place.top),
    head: symbolic.status === 0 ? symbolic.stdout.toString().trim() : null,
    headHash: await readHash(place, 'HEAD'),
  };
}

const lines = (values: Iterable<string>): Buffer => Buffer.from([...values, ''].join('\n'));

/** The objects, of these, that a repository has. */
async function findObjects(place: GitPlace, hashes: readonly string[]): Promise<Set<string>> {
  const args = ['cat-file', '--batch-check=%(objectname)'];
  const output = (await runGit(place, args, lines(hashes))).toString().split('\n');
  return new Set(output.filter((line) => HASH.test(line)));
}

/** True if everything that the objects refer to is there, up to what the person's refs have. */
async function areConnected(place: GitPlace, hashes: readonly string[]): Promise<boolean> {
  const args = ['rev-list', '--objects', '--quiet', '--stdin', '--not', '--all'];
  return (await tryGit(place, args, lines(hashes))).status === 0;
}

type ObjectTransfer = { wanted: readonly string[]; known: readonly string[] };

/** Copies what the wanted objects need beyond the known ones; the receiver checks every object. */
async function transferObjects(
  from: GitPlace,
  to: GitPlace,
  { wanted, known }: ObjectTransfer,
): Promise<void> {
  const there = await findObjects(to, wanted);
  const missing = wanted.filter((hash) => !there.has(hash));
  if (missing.length > 0) {
    const shared = await findObjects(from, known);
    const revisions = [...missing, ...[...shared].map((hash) => `^${hash}`)];
    const pack = ['pack-objects', '--revs', '--stdout', '--thin', '--delta-base-offset', '-q'];
    // Strict: every object is checked as `git fsck` does, and what it refers to must be there.
    const index = ['index-pack', '--stdin', '--fix-thin', '--strict'];
    const result = await pipeGit(
      { ...from, args: pack, stdin: lines(revisions) },
      { ...to, args: [...index, `--max-input-size=${PACK_BYTES_MAX}`] },
      PACK_BYTES_MAX,
    );
    if (result.isTooLarge) throw fault('too_large', 'the commits of the layer are too large');
    if (result.from.status !== 0)
      throw refusedFault(`they cannot be read: ${result.from.stderr || 'git was ended'}`);
    if (result.to.status !== 0) throw refusedFault(result.to.stderr || 'git was ended');
  }
  if (!(await areConnected(to, wanted))) throw refusedFault('objects are missing');
}

const refusedFault = (why: string) =>
  fault('denied', `git does not accept the commits of the layer: ${why}`, {
    hint: 'Apply the files without the commits, and commit them yourself.',
    details: { reason: 'commits' },
  });

async function isAncestor(place: GitPlace, older: string, newer: string): Promise<boolean> {
  const { status } = await tryGit(place, ['merge-base', '--is-ancestor', older, newer]);
  return status === 0;
}

/** Whose tree the person's index is: nobody's if changes are staged. Null: no commit. */
async function isIndexOf(target: GitPlace, commit: string | null): Promise<boolean> {
  if (commit === null) return (await runGit(target, ['ls-files', '--cached', '-z'])).length === 0;
  const args = ['diff-index', '--cached', '--quiet', '--no-ext-diff', commit, '--'];
  return (await tryGit(target, args)).status === 0;
}

type Verdict = CommitObstacle['reason'] | SkippedRef['reason'] | undefined;

async function judge(
  target: GitPlace,
  ref: string,
  sides: { before: Ref | undefined; after: Ref },
): Promise<Verdict> {
  const { before, after } = sides;
  if (after.isSymbolic || before?.isSymbolic === true) return 'symbolic';
  if (before === undefined) return undefined;
  if (before.isUsedElsewhere) return 'used_elsewhere';
  if (ref.startsWith('refs/tags/')) return 'tag_moved';
  if (await isAncestor(target, before.hash, after.hash)) return undefined;
  return (await isAncestor(target, after.hash, before.hash)) ? 'behind' : 'not_fast_forward';
}

const ALLOWABLE: ReadonlySet<Verdict> = new Set<Verdict>(['not_fast_forward', 'tag_moved']);

export type CommitsOptions = {
  /** An empty directory in the target's box. Objects are checked there. */
  scratch: string;
  /** The person allows the kind `git_refs`. */
  allowsRefs: boolean;
};

/**
 * Finds the refs that the layer moved. If nothing is in the way their objects come into the
 * person's repository, where they are invisible until a ref names them; no ref changes. `layer` is
 * the merged view, read-only; `target` the person's directory.
 */
export async function planCommits(
  layer: GitPlace,
  target: GitPlace,
  options: CommitsOptions,
): Promise<PlannedCommits> {
  const none = { updates: [], head: null };
  const planned: PlannedCommits = { plan: none, obstacles: [], skipped: [], left: [] };
  const ours = await readRepository(target);
  const theirs = await readRepository(layer);
  if (theirs === undefined) return planned;
  if (ours === undefined) return { ...planned, left: await countBranches(layer, theirs) };
  const { obstacles, skipped, plan } = planned;
  for (const [ref] of ours.refs)
    if (!theirs.refs.has(ref)) skipped.push({ ref, reason: 'deleted' });
  if (theirs.head === null && theirs.headHash !== ours.headHash)
    skipped.push({ ref: 'HEAD', reason: 'detached' });

  const moved = [...theirs.refs].filter(([ref, { hash }]) => ours.refs.get(ref)?.hash !== hash);
  const named = moved.filter(([ref]) => !hasDeceptiveName(ref));
  for (const [ref] of moved) if (hasDeceptiveName(ref)) obstacles.push({ ref, reason: 'name' });
  if (named.length === 0) return planned;
  const wanted = [...new Set(named.map(([, { hash }]) => hash))];
  const known = [...new Set([...ours.refs.values()].map(({ hash }) => hash))];
  // A repository of its own for objects, as git does for a push: what is refused leaves no trace.
  const quarantine = { ...target, objects: options.scratch };
  await transferObjects(layer, quarantine, { wanted, known });

  for (const [ref, after] of named) {
    const before = ours.refs.get(ref);
    const verdict = await judge(quarantine, ref, { before, after });
    if (verdict === 'behind') skipped.push({ ref, reason: verdict });
    else if (verdict === undefined || (options.allowsRefs && ALLOWABLE.has(verdict)))
      plan.updates.push({ ref, from: before?.hash ?? null, to: after.hash });
    else obstacles.push({ ref, reason: verdict as CommitObstacle['reason'] });
  }
  plan.head = plan.updates.find(({ ref }) => ref === ours.head) ?? null;
  if (plan.head !== null && !(await isIndexOf(target, plan.head.from)))
    obstacles.push({ ref: plan.head.ref, reason: 'staged_changes' });
  if (obstacles.length === 0) await transferObjects(quarantine, target, { wanted, known });
  return planned;
}

const BRANCHES_MAX = 20;

/** For a message: the numbers are what the layer's repository says. */
async function countBranches(layer: GitPlace, { refs }: Repository): Promise<LeftBranch[]> {
  const branches = [...refs.keys()].filter((ref) => ref.startsWith('refs/heads/'));
  const left: LeftBranch[] = [];
  for (const ref of branches.filter((name) => !hasDeceptiveName(name)).slice(0, BRANCHES_MAX)) {
    const args = ['rev-list', '--count', '--end-of-options', ref];
    const count = Number((await tryGit(layer, args)).stdout.toString());
    left.push({ ref, count: Number.isSafeInteger(count) ? count : 0 });
  }
  return left;
}

/** Returns the plan that undoes this one. */
export function reverseCommits({ updates, head }: CommitPlan): CommitPlan {
  const reverse = ({ ref, from, to }: CommitUpdate): CommitUpdate => ({ ref, from: to, to: from });
  return { updates: updates.map(reverse), head: head === null ? null : reverse(head) };
}

const conflictFault = (ref: string, why: string) =>
  fault('conflict', `${ref} ${why}`, {
    hint: 'Look at the repository, then apply or undo again.',
    details: { conflicts: [{ path: ref, reason: 'changed' }] },
  });

function encodeUpdate({ ref, from, to }: CommitUpdate): string {
  const command =
    from === null ? `create ${ref}\0${to}\0` : to === null ? `delete ${ref}\0${from}\0` : '';
  return `option no-deref\0${command || `update ${ref}\0${to}\0${from}\0`}`;
}

/** All or none, each only from the value it is expected to have. */
async function swapRefs(
  target: GitPlace,
  updates: readonly CommitUpdate[],
  message: string,
): Promise<void> {
  if (updates.length === 0) return;
  const input = Buffer.from(updates.map(encodeUpdate).join(''));
  const args = ['update-ref', '-m', message, '--stdin', '-z'];
  const { status, stderr } = await tryGit(target, args, input);
  if (status !== 0) throw conflictFault(updates[0]!.ref, `could not be updated: ${stderr}`);
}

/** Files of the working tree are not touched: they are applied by themselves. */
async function moveIndex(target: GitPlace, { from, to }: CommitUpdate): Promise<boolean> {
  const args =
    to === null
      ? ['read-tree', '--empty']
      : from === null
        ? ['read-tree', to]
        : ['read-tree', '-i', '-m', from, to];
  return (await tryGit(target, args)).status === 0;
}

/** Finds what is left to do of a plan; throws `conflict` as `applyCommits` does. */
async function findRest(
  target: GitPlace,
  plan: CommitPlan,
): Promise<{ updates: CommitUpdate[]; mustMove: boolean }> {
  const found = (await readRepository(target))?.refs ?? new Map<string, Ref>();
  const updates = plan.updates.filter(({ ref, from, to }) => {
    const current = found.get(ref)?.hash ?? null;
    if (current !== to && current !== from) throw conflictFault(ref, 'was changed meanwhile');
    return current !== to;
  });
  const { head } = plan;
  const mustMove = head !== null && !(await isIndexOf(target, head.to));
  if (mustMove && !(await isIndexOf(target, head.from)))
    throw conflictFault(head.ref, 'has staged changes of a person');
  return { updates, mustMove };
}

/** Throws what `applyCommits` would throw now, and changes nothing. */
export async function checkCommits(target: GitPlace, plan: CommitPlan): Promise<void> {
  if (plan.updates.length > 0) await findRest(target, plan);
}

/** The commits that each update brings, by ref. */
export async function countCommits(
  target: GitPlace,
  { updates }: CommitPlan,
): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for (const { ref, from, to } of updates) {
    // Options come before the end of options; the second one ends the first.
    const known = from === null ? ['--not', '--branches', '--not'] : [];
    const revisions = from === null ? [to!] : [to!, `^${from}`];
    const args = ['rev-list', '--count', ...known, '--end-of-options', ...revisions];
    const count = Number((await runGit(target, args)).toString());
    counts.set(ref, Number.isSafeInteger(count) ? count : 0);
  }
  return counts;
}

/**
 * Moves the refs of a plan, and the index with the current branch. Repeating it finishes it; the
 * reversed plan undoes it. Throws `conflict` if a ref is neither where it was nor where it goes.
 */
export async function applyCommits(
  target: GitPlace,
  plan: CommitPlan,
  message: string,
): Promise<CommitUpdate[]> {
  if (plan.updates.length === 0) return [];
  const { updates: left, mustMove } = await findRest(target, plan);
  const { head } = plan;
  await swapRefs(target, left, message);
  if (mustMove && head !== null && !(await moveIndex(target, head))) {
    await swapRefs(target, reverseCommits({ updates: left, head: null }).updates, message);
    throw conflictFault(head.ref, 'was not moved: the index is locked or cannot be written');
  }
  return plan.updates;
}
