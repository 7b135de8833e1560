// Tests that hostile settings, objects and repositories in a layer, or settings of the person, run
// no program and bring nothing over; each with a control that shows the danger.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, it } from 'node:test';
import { GIT_ENV } from '../../../test/support/git-env.ts';
import { applyCommits } from './layer-commits.ts';
import type { GitPlace } from './layer-git.ts';
import {
  careless,
  commit,
  git,
  isFault,
  layer,
  openLayer,
  plan,
  refs,
  setUpRepositories,
  target,
  top,
} from './testing/layer-repositories.ts';

/** Exists once a hostile program has run. */
let mark: string;
function makeProgram(path: string): string {
  mkdirSync(join(path, '..'), { recursive: true });
  writeFileSync(path, `#!/bin/sh\ntouch '${mark}'\nexit 0\n`);
  chmodSync(path, 0o755);
  return path;
}

setUpRepositories();
beforeEach(() => {
  mark = join(top, 'mark');
});

describe('settings that name a program', () => {
  const plant = (place: GitPlace): void => {
    const program = makeProgram(join(top, 'evil'));
    for (const hook of ['reference-transaction', 'post-index-change', 'pre-auto-gc'])
      makeProgram(join(place.top, '.git/hooks', hook));
    for (const key of ['core.fsmonitor', 'core.sshCommand', 'core.pager', 'core.askPass'])
      git(place, 'config', key, program);
    for (const key of ['filter.f.clean', 'filter.f.smudge', 'diff.d.textconv', 'diff.external'])
      git(place, 'config', key, program);
    git(place, 'config', 'alias.for-each-ref', `!${program}`);
    writeFileSync(join(place.top, '.git/info/attributes'), '* filter=f diff=d\n');
    rmSync(mark, { force: true });
  };

  for (const side of ['target', 'layer'] as const)
    it(`run nothing in the ${side}`, async () => {
      git(target, 'branch', 'extra');
      openLayer();
      commit(layer, 'a.txt', 'two');
      const place = { target, layer }[side];
      plant(place);
      // The controls: git itself runs a hook when a ref moves, and the monitor for the status.
      careless(place, 'update-ref', 'refs/heads/control', 'HEAD');
      assert.ok(existsSync(mark), 'the hook did not run');
      careless(place, 'update-ref', '-d', 'refs/heads/control');
      rmSync(mark);
      careless(place, '-c', 'core.hooksPath=/dev/null', 'status');
      assert.ok(existsSync(mark), 'the monitor did not run');
      rmSync(mark);
      await applyCommits(target, (await plan()).plan, 'test');
      assert.ok(!existsSync(mark), 'a program ran');
    });
});

describe('hostile objects', () => {
  /** A commit on the current branch whose tree is made by hand. */
  function commitTree(entries: string): void {
    const input = { cwd: layer.top, env: GIT_ENV, encoding: 'utf8' } as const;
    const binary = Buffer.concat(
      entries.split('\n').map((line) => {
        const [mode, name, hash] = line.split(' ');
        return Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(hash!, 'hex')]);
      }),
    );
    const make = ['hash-object', '-t', 'tree', '-w', '--stdin', '--literally'];
    const tree = execFileSync('git', make, { ...input, input: binary }).trim();
    const made = git(layer, 'commit-tree', tree, '-p', 'HEAD', '-m', 'hostile');
    git(layer, 'update-ref', 'refs/heads/main', made);
  }
  const blob = (content: string): string =>
    execFileSync('git', ['hash-object', '-w', '--stdin'], {
      cwd: layer.top,
      env: GIT_ENV,
      input: content,
      encoding: 'utf8',
    }).trim();
  const refuses = async (): Promise<void> => {
    const before = refs(target);
    await assert.rejects(plan(), isFault('denied'));
    assert.equal(refs(target), before);
    git(target, 'fsck', '--strict');
    const packs = readdirSync(join(target.top, '.git/objects/pack'));
    assert.deepEqual(packs, []);
  };

  const trees: Record<string, () => string> = {
    'a tree with .git in it': () => `40000 .git ${git(layer, 'rev-parse', 'HEAD^{tree}')}`,
    'a tree with .GIT in it': () => `40000 .GIT ${git(layer, 'rev-parse', 'HEAD^{tree}')}`,
    'a tree with .. in it': () => `40000 .. ${git(layer, 'rev-parse', 'HEAD^{tree}')}`,
    'a name with a slash': () => `100644 a/b ${blob('x')}`,
    'a submodule with an option for a URL': () =>
      `100644 .gitmodules ${blob('[submodule "x"]\n\tpath = x\n\turl = -u./evil\n')}`,
    'a .gitmodules that is a link': () => `120000 .gitmodules ${blob('a.txt')}`,
  };
  for (const [name, make] of Object.entries(trees))
    it(`${name} is refused`, async () => {
      commitTree(make());
      // The control: a pack with it is accepted without the check.
      const revisions = { cwd: layer.top, env: GIT_ENV, input: 'main\n' };
      const pack = execFileSync('git', ['pack-objects', '--revs', '--stdout', '-q'], revisions);
      const control = join(top, 'control');
      execFileSync('git', ['init', '--quiet', control], { env: GIT_ENV });
      const options = { cwd: control, env: GIT_ENV, input: pack };
      execFileSync('git', ['index-pack', '--stdin'], options);
      await refuses();
    });

  it('a commit with missing objects is refused', async () => {
    commit(layer, 'b.txt', 'b');
    const missing = git(layer, 'rev-parse', 'HEAD:b.txt');
    rmSync(join(layer.top, '.git/objects', missing.slice(0, 2), missing.slice(2)));
    await refuses();
  });

  it('objects with other content than their name are refused', async () => {
    commit(layer, 'b.txt', 'b');
    const [one, other] = [git(layer, 'rev-parse', 'HEAD:b.txt'), blob('swapped')];
    const fileOf = (hash: string) =>
      join(layer.top, '.git/objects', hash.slice(0, 2), hash.slice(2));
    const bytes = readFileSync(fileOf(other));
    rmSync(fileOf(one));
    writeFileSync(fileOf(one), bytes);
    await refuses();
  });

  it('a layer whose .git is anything else brings nothing', async () => {
    const before = refs(target);
    const git = join(layer.top, '.git');
    for (const make of [
      () => writeFileSync(git, 'gitdir: /etc\n'),
      () => symlinkSync('/etc', git),
      () => mkdirSync(git),
    ]) {
      rmSync(git, { recursive: true, force: true });
      make();
      assert.deepEqual((await plan()).plan.updates, []);
      assert.equal(refs(target), before);
    }
  });
});
