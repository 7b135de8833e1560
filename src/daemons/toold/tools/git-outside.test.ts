// Repositories that lead plain git out of the workspace (the control), but must not lead the tools.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, it } from 'node:test';
import {
  ask,
  at,
  config,
  gitIn,
  makeRepository,
  plain,
  repositoryForEach,
  world,
} from '../../../../test/support/git-repository.ts';

repositoryForEach();

describe('a repository that points out of the workspace is refused', () => {
  beforeEach(() => makeRepository(join(world.outside, 'secret')));
  const secretGit = () => join(world.outside, 'secret/.git');
  const show = () => plain('log', '--format=%s', '--all').trim();

  const pointers: Record<string, { plant(): void; control(): void }> = {
    'a .git file that names another directory': {
      plant() {
        rmSync(at('.git'), { recursive: true });
        writeFileSync(at('.git'), `gitdir: ${secretGit()}\n`);
      },
      control: () => assert.equal(show(), 'first'),
    },
    'a .git file that goes up': {
      plant() {
        rmSync(at('.git'), { recursive: true });
        writeFileSync(at('.git'), 'gitdir: ../outside/secret/.git\n');
      },
      control: () => assert.equal(show(), 'first'),
    },
    'a .git that is a link': {
      plant() {
        rmSync(at('.git'), { recursive: true });
        execFileSync('ln', ['-s', secretGit(), at('.git')]);
      },
      control: () => assert.equal(show(), 'first'),
    },
    'a common directory elsewhere': {
      plant: () => writeFileSync(at('.git/commondir'), `${secretGit()}\n`),
      control: () => assert.match(plain('rev-parse', '--git-common-dir'), /outside\/secret/),
    },
    'objects borrowed from elsewhere': {
      plant() {
        writeFileSync(join(world.outside, 'secret/b.txt'), 'their secret\n');
        gitIn(join(world.outside, 'secret'), 'add', '.');
        mkdirSync(at('.git/objects/info'), { recursive: true });
        writeFileSync(at('.git/objects/info/alternates'), `${secretGit()}/objects\n`);
      },
      control() {
        const secret = gitIn(join(world.outside, 'secret'), 'rev-parse', ':b.txt').trim();
        assert.equal(plain('cat-file', 'blob', secret), 'their secret\n');
      },
    },
    'objects that are a link': {
      plant() {
        rmSync(at('.git/objects'), { recursive: true });
        execFileSync('ln', ['-s', `${secretGit()}/objects`, at('.git/objects')]);
      },
      // Not compared by commit: one made in another second differs.
      control: () => void plain('cat-file', '-t', plain('hash-object', 'a.txt').trim()),
    },
  };
  for (const [name, { plant, control }] of Object.entries(pointers)) {
    it(name, async () => {
      plant();
      await assert.rejects(ask('git.log'), { code: 'denied' });
      await assert.rejects(ask('git.status'), { code: 'denied' });
      control();
    });
  }

  it('core.worktree is not followed', async () => {
    config('core.worktree', join(world.outside, 'secret'));
    writeFileSync(join(world.outside, 'secret/theirs.txt'), 'x');
    assert.match(plain('status', '--porcelain'), /theirs\.txt/);
    const { changes } = await ask('git.status');
    assert.deepEqual(changes, []);
    await ask('git.commit', { message: 'm', all: true }).catch(() => {});
    assert.equal(plain('ls-files').includes('theirs'), false);
  });
});
