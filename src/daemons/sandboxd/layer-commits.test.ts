// Tests bringing commits from a layer into a person's repository: refs, the index, and conflicts.
import assert from 'node:assert/strict';
import { rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { applyCommits, reverseCommits } from './layer-commits.ts';
import {
  careless,
  commit,
  copyFiles,
  git,
  isFault,
  layer,
  openLayer,
  plan,
  refs,
  setUpRepositories,
  target,
  top,
  write,
} from './testing/layer-repositories.ts';

const apply = async (allowsRefs = false) => {
  const planned = await plan(allowsRefs);
  assert.deepEqual(planned.obstacles, []);
  await applyCommits(target, planned.plan, 'test');
  return planned;
};
setUpRepositories();

describe('commits of a layer', () => {
  it('come over with the index, and go again', async () => {
    const old = refs(target);
    const from = git(target, 'rev-parse', 'main');
    commit(layer, 'a.txt', 'two');
    git(layer, 'switch', '--quiet', '-c', 'feature');
    commit(layer, 'deep/b.txt', 'b');
    git(layer, 'tag', '-m', 'first', 'v1');
    git(layer, 'switch', '--quiet', 'main');
    const to = git(layer, 'rev-parse', 'main');
    const { plan: planned } = await plan();
    assert.equal(refs(target), old);
    assert.deepEqual(planned.head, { ref: 'refs/heads/main', from, to });
    await applyCommits(target, planned, 'apply 1');
    copyFiles(layer, target);
    assert.equal(refs(target), refs(layer));
    assert.equal(git(target, 'status', '--porcelain'), '');
    assert.equal(git(target, 'show', 'v1:deep/b.txt'), 'b');
    assert.match(git(target, 'reflog', 'main'), /apply 1/);
    git(target, 'fsck', '--strict');
    assert.deepEqual(await applyCommits(target, planned, 'again'), planned.updates);
    assert.deepEqual((await plan()).plan.updates, []);
    await applyCommits(target, reverseCommits(planned), 'undo');
    write(target, 'a.txt', 'one');
    assert.equal(refs(target), old);
    assert.equal(git(target, 'status', '--porcelain'), '');
  });

  it('come over from and to packed refs and packs', async () => {
    for (const place of [target, layer]) git(place, 'gc', '--quiet');
    commit(layer, 'a.txt', 'two');
    git(layer, 'branch', 'other');
    git(layer, 'pack-refs', '--all');
    git(layer, 'gc', '--quiet', '--prune=now');
    await apply();
    assert.equal(refs(target), refs(layer));
  });

  it('come to an unborn branch, and go again', async () => {
    rmSync(join(target.top, '.git'), { recursive: true });
    git(target, 'init', '--quiet', '--initial-branch=main');
    openLayer();
    commit(layer, 'a.txt', 'two');
    const { plan: planned } = await apply();
    copyFiles(layer, target);
    assert.equal(git(target, 'status', '--porcelain'), '');
    await applyCommits(target, reverseCommits(planned), 'undo');
    assert.equal(refs(target), '');
    assert.equal(git(target, 'ls-files'), '');
  });

  it('of a branch that is not checked out leave a detached HEAD and the index alone', async () => {
    git(target, 'checkout', '--quiet', '--detach');
    openLayer();
    git(layer, 'switch', '--quiet', 'main');
    commit(layer, 'a.txt', 'two');
    const { plan: planned, skipped } = await apply();
    assert.equal(planned.head, null);
    assert.deepEqual(skipped, []);
    assert.equal(git(target, 'rev-parse', 'main'), git(layer, 'rev-parse', 'main'));
    assert.equal(git(target, 'status', '--porcelain'), '');
  });

  it('on no branch stay in the layer, and are named', async () => {
    git(layer, 'checkout', '--quiet', '--detach');
    commit(layer, 'a.txt', 'two');
    assert.deepEqual(await plan(), {
      plan: { updates: [], head: null },
      obstacles: [],
      skipped: [{ ref: 'HEAD', reason: 'detached' }],
      left: [],
    });
  });

  it('do not come without a repository on both sides', async () => {
    rmSync(join(target.top, '.git'), { recursive: true });
    commit(layer, 'a.txt', 'two');
    const { plan: found, left } = await plan();
    assert.deepEqual([found.updates, left], [[], [{ ref: 'refs/heads/main', count: 2 }]]);
  });
});

describe('a ref', () => {
  it('moves only forward, unless the person allows it', async () => {
    const lost = commit(target, 'mine.txt', 'mine');
    git(target, 'tag', 'v1');
    commit(layer, 'a.txt', 'two');
    git(layer, 'tag', 'v1');
    assert.deepEqual((await plan()).obstacles, [
      { ref: 'refs/heads/main', reason: 'not_fast_forward' },
      { ref: 'refs/tags/v1', reason: 'tag_moved' },
    ]);
    assert.equal(git(target, 'rev-parse', 'main'), lost);
    const { plan: planned } = await apply(true);
    assert.equal(git(target, 'rev-parse', 'main'), git(layer, 'rev-parse', 'main'));
    await applyCommits(target, reverseCommits(planned), 'undo');
    assert.equal(git(target, 'rev-parse', 'main'), lost);
  });

  it('that the person moved on, or that the agent deleted, stays', async () => {
    git(target, 'branch', 'old');
    const ahead = commit(target, 'mine.txt', 'mine');
    assert.deepEqual((await plan(true)).skipped, [
      { ref: 'refs/heads/old', reason: 'deleted' },
      { ref: 'refs/heads/main', reason: 'behind' },
    ]);
    await apply(true);
    assert.equal(git(target, 'rev-parse', 'main'), ahead);
  });

  it('that changed after it was looked at is a conflict, and no other ref moves', async () => {
    commit(layer, 'a.txt', 'two');
    git(layer, 'branch', 'other');
    const { plan: planned } = await plan();
    commit(target, 'mine.txt', 'mine');
    const before = refs(target);
    await assert.rejects(applyCommits(target, planned, 'test'), isFault('conflict'));
    assert.equal(refs(target), before);
  });

  it('that another working tree uses does not move under it', async () => {
    git(target, 'branch', 'side');
    git(target, 'worktree', 'add', '--quiet', join(top, 'elsewhere'), 'side');
    openLayer();
    careless(layer, 'update-ref', 'refs/heads/side', commit(layer, 'a.txt', 'two'));
    const side = { ref: 'refs/heads/side', reason: 'used_elsewhere' };
    assert.deepEqual((await plan()).obstacles, [side]);
  });

  it('with a name that deceives does not come', async () => {
    const head = commit(layer, 'a.txt', 'two');
    git(layer, 'update-ref', 'refs/heads/ma\u202ein', head);
    assert.deepEqual((await plan()).obstacles, [{ ref: 'refs/heads/ma\u202ein', reason: 'name' }]);
  });

  it('that is a link to another does not come, and is not written through', async () => {
    const head = commit(layer, 'a.txt', 'two');
    git(layer, 'symbolic-ref', 'refs/heads/alias', 'refs/heads/main');
    git(target, 'branch', 'real');
    git(target, 'symbolic-ref', 'refs/heads/link', 'refs/heads/real');
    git(layer, 'update-ref', 'refs/heads/link', head);
    const real = git(target, 'rev-parse', 'real');
    assert.deepEqual((await plan()).obstacles, [
      { ref: 'refs/heads/alias', reason: 'symbolic' },
      { ref: 'refs/heads/link', reason: 'symbolic' },
    ]);
    assert.equal(git(target, 'rev-parse', 'real'), real);
  });

  it('that is a symbolic link in the file system gives nothing of other files', async () => {
    const secret = join(top, 'secret');
    writeFileSync(secret, `${'a'.repeat(40)}\n`);
    symlinkSync(secret, join(layer.top, '.git/refs/heads/leak'));
    // The control: git follows the link, and takes what is there for a hash.
    assert.match(git(layer, 'rev-parse', 'leak'), /^a{40}$/);
    const planned = await plan().catch((error: unknown) => error);
    assert.ok(isFault('denied')(planned) || isFault('unavailable')(planned), String(planned));
    assert.ok(!refs(target).includes('leak'));
  });
});

describe('the index of a person', () => {
  it('with staged changes is never replaced', async () => {
    write(target, 'a.txt', 'staged');
    git(target, 'add', 'a.txt');
    commit(layer, 'a.txt', 'two');
    const before = refs(target);
    const { obstacles, plan: planned } = await plan();
    assert.deepEqual(obstacles, [{ ref: 'refs/heads/main', reason: 'staged_changes' }]);
    await assert.rejects(applyCommits(target, planned, 'test'), isFault('conflict'));
    assert.equal(refs(target), before);
    assert.equal(git(target, 'diff', '--cached', '--name-only'), 'a.txt');
  });

  it('that is locked leaves the branch where it was', async () => {
    commit(layer, 'a.txt', 'two');
    const before = refs(target);
    const { plan: planned } = await plan();
    writeFileSync(join(target.top, '.git/index.lock'), '');
    await assert.rejects(applyCommits(target, planned, 'test'), isFault('conflict'));
    assert.equal(refs(target), before);
    rmSync(join(target.top, '.git/index.lock'));
    await applyCommits(target, planned, 'test');
    assert.equal(git(target, 'diff', '--cached', '--name-only'), '');
  });

  it('follows when an interrupted apply is repeated', async () => {
    const to = commit(layer, 'a.txt', 'two');
    const { plan: planned } = await plan();
    git(target, 'update-ref', 'refs/heads/main', to);
    await applyCommits(target, planned, 'test');
    assert.equal(git(target, 'diff', '--cached', '--name-only'), '');
  });
});
