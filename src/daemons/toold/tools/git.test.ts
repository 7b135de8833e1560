// git's tools at work: their results, commits in a worktree, and that no argument is parsed as an
// option.
import assert from 'node:assert/strict';
import { mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import {
  ask,
  at,
  plain,
  repositoryForEach,
  tool,
  world,
} from '../../../../test/support/git-repository.ts';
import { openTestBox } from '../../../../test/support/test-box.ts';
import { overrideSettings, parseSettings } from './git/config.ts';
import { gitTools } from './git.ts';

repositoryForEach();

describe('reading', () => {
  it('status returns branch, commit and every kind of change', async () => {
    mkdirSync(at('sub dir'));
    for (const name of ['b.txt', 'sub dir/ü.txt']) writeFileSync(at(name), 'x\n');
    writeFileSync(at('a.txt'), 'two\n');
    plain('mv', 'a.txt', 'c d.txt');
    const status = await ask('git.status');
    assert.equal(status.branch, 'main');
    assert.equal(status.commit, plain('rev-parse', 'HEAD').trim());
    assert.deepEqual(status.changes, [
      { status: 'RM', path: 'c d.txt', from: 'a.txt' },
      { status: '??', path: 'b.txt' },
      { status: '??', path: 'sub dir/' },
    ]);
    // Found from a directory inside it too.
    assert.equal((await ask('git.status', { repo: 'sub dir' })).top, world.workspace);
  });

  it('diff shows changes, staged or since a commit, by path', async () => {
    writeFileSync(at('a.txt'), 'two\n');
    assert.match(String((await ask('git.diff')).text), /-one\n\+two/);
    assert.equal((await ask('git.diff', { staged: true })).text, '');
    plain('add', '.');
    assert.match(String((await ask('git.diff', { staged: true })).text), /\+two/);
    assert.match(String((await ask('git.diff', { from: 'HEAD' })).text), /\+two/);
    assert.equal((await ask('git.diff', { from: 'HEAD', paths: ['none'] })).text, '');
    assert.match(String((await ask('git.diff', { from: 'HEAD', stat_only: true })).text), /1 file/);
  });

  it('log and show return commits, and a file at a commit', async () => {
    writeFileSync(at('a.txt'), 'two\n');
    plain('commit', '--quiet', '-am', 'second');
    const { commits } = (await ask('git.log')) as { commits: Record<string, string>[] };
    assert.deepEqual(
      commits.map(({ subject, body, author }) => [subject, body, author]),
      [
        ['second', '', 'p'],
        ['first', 'with a body', 'p'],
      ],
    );
    assert.equal(((await ask('git.log', { since: 'HEAD~1' })).commits as unknown[]).length, 1);
    assert.match(String((await ask('git.show')).text), /second[\s\S]*-one\n\+two/);
    assert.equal((await ask('git.show', { ref: 'HEAD~1', path: 'a.txt' })).text, 'one\n');
    await assert.rejects(ask('git.show', { ref: 'nowhere' }), { code: 'bad_request' });
  });

  it('says when there is no repository, or none in the workspace', async () => {
    const outside = ask('git.status', { repo: world.outside });
    await assert.rejects(outside, { code: 'denied' });
    const none = await openTestBox();
    try {
      const status = gitTools(none.workspace)[0];
      await assert.rejects(none.result(status, {}), { code: 'not_found' });
    } finally {
      await none.close();
    }
  });
});

describe('committing', () => {
  it('commits the named paths, as the agent', async () => {
    writeFileSync(at('b.txt'), 'b\n');
    writeFileSync(at('c.txt'), 'c\n');
    const { text } = await world.show(tool('git.commit'), { message: 'x', paths: ['b.txt'] });
    assert.match(text, /\n--- \/dev\/null\n\+\+\+ .*b\.txt\n@@ -0,0 \+1 @@\n\+b\n$/);
    assert.equal(plain('diff', '--cached', '--name-only'), '', 'a preview stages nothing');
    const done = await ask('git.commit', { message: 'add b\n\n# not a comment', paths: ['b.txt'] });
    assert.equal(done.branch, 'main');
    assert.match(String(done.summary), /1 file changed/);
    assert.equal(
      plain('log', '-1', '--format=%an|%ae|%cn|%B').trim(),
      ['coder (agent)|coder@agents.invalid|coder (agent)|add b', '', '# not a comment'].join('\n'),
    );
    assert.equal(plain('status', '--porcelain'), '?? c.txt\n');
    await ask('git.commit', { message: 'rest', all: true });
    assert.equal(plain('status', '--porcelain'), '');
    const nothing = ask('git.commit', { message: 'none', all: true });
    await assert.rejects(nothing, { code: 'conflict' });
  });

  it('hides nothing of a commit from the approver', async () => {
    const show = async (input: object) =>
      (await world.show(tool('git.commit'), { message: 'x', ...input })).text;
    // Files staged before are committed too, although other paths are named.
    writeFileSync(at('evil.txt'), 'evil\n');
    plain('add', 'evil.txt');
    writeFileSync(at('a.txt'), 'two\n');
    assert.match(await show({ paths: ['a.txt'] }), /\+two[\s\S]*\+evil/);
    await ask('git.commit', { message: 'x', paths: ['a.txt'] });
    assert.match(plain('show', '--stat'), /evil\.txt/);
    // Attributes do not turn a text file into one that only "differs".
    writeFileSync(at('.gitattributes'), '* -diff\n');
    writeFileSync(at('a.txt'), 'three\n');
    assert.match(await show({ all: true }), /\+three/);
    // Nor is a submodule left out.
    const { commit } = await ask('git.status');
    plain('update-index', '--add', '--cacheinfo', `160000,${String(commit)},sub`);
    assert.match(await show({}), /Subproject commit/);
    plain('rm', '--cached', '--quiet', 'sub');
    // Three bytes per character: more than git may print, less than a person may be shown.
    writeFileSync(at('a.txt'), `${'語'.repeat(80)}\n`.repeat(9_000));
    await assert.rejects(show({ all: true }), { code: 'too_large' });
  });

  it('shows a change that git detects only by the time of its index', async () => {
    // Changed within the second in which it was staged, and as long as before.
    const then = 1_700_000_000;
    plain('config', 'core.trustctime', 'false');
    utimesSync(at('a.txt'), then, then);
    plain('update-index', '--refresh');
    utimesSync(at('.git/index'), then, then);
    writeFileSync(at('a.txt'), 'two\n');
    utimesSync(at('a.txt'), then, then);
    const { text } = await world.show(tool('git.commit'), { message: 'x', all: true });
    assert.match(text, /-one\n\+two\n/);
  });

  it('shows a person exactly what would be committed', async () => {
    const show = async (input: object) =>
      (await world.show(tool('git.commit'), { message: 'x', ...input })).text;
    writeFileSync(at('a.txt'), 'two\n');
    writeFileSync(at('b.txt'), 'new\n');
    await assert.rejects(show({}), { code: 'conflict' });
    const all = await show({ all: true });
    assert.match(all, /-one\n\+two\n[\s\S]*\+new\n/);
    assert.doesNotMatch(await show({ paths: ['a.txt'] }), /new/);
    plain('add', 'b.txt');
    assert.match(await show({}), /\+new/);
    for (let i = 0; i < 60; i++) writeFileSync(at(`n${i}`), `new ${i}\n`);
    assert.match(await show({ all: true }), /\+new 59\n/);
    plain('checkout', '--quiet', '--orphan', 'fresh');
    assert.match(await show({ paths: ['a.txt'] }), /\+two/);
  });

  it('works in a worktree of its own, beside the others', async () => {
    const added = await ask('git.worktree', { action: 'add', path: 'wt/fix', branch: 'fix' });
    const worktrees = added.worktrees as { path: string; branch: string }[];
    assert.deepEqual(
      worktrees.map(({ path, branch }) => [path, branch]),
      [
        [world.workspace, 'main'],
        [at('wt/fix'), 'fix'],
      ],
    );
    writeFileSync(at('wt/fix/a.txt'), 'fixed\n');
    const done = await ask('git.commit', { repo: 'wt/fix', message: 'fix it', all: true });
    assert.deepEqual([done.branch, done.top], ['fix', at('wt/fix')]);
    assert.equal(plain('show', 'fix:a.txt'), 'fixed\n');
    assert.equal(plain('show', 'main:a.txt'), 'one\n');
    const left = await ask('git.worktree', { action: 'remove', path: 'wt/fix' });
    assert.equal((left.worktrees as unknown[]).length, 1);
  });

  it('creates, switches and deletes branches', async () => {
    const made = await ask('git.branch', { action: 'create', name: 'feature/x' });
    assert.equal(made.current, 'feature/x');
    assert.equal((await ask('git.branch', { action: 'switch', name: 'main' })).current, 'main');
    const current = ask('git.branch', { action: 'delete', name: 'main' });
    await assert.rejects(current, { code: 'conflict', message: /checked out/ });
    plain('branch', 'alone');
    plain('update-ref', 'refs/heads/alone', plain('commit-tree', '-m', 'x', 'HEAD^{tree}').trim());
    const alone = ask('git.branch', { action: 'delete', name: 'alone' });
    await assert.rejects(alone, { code: 'conflict', message: /no other branch/ });
    plain('branch', '-D', 'alone');
    const left = await ask('git.branch', { action: 'delete', name: 'feature/x' });
    assert.deepEqual(
      (left.branches as { name: string }[]).map(({ name }) => name),
      ['main'],
    );
  });
});

describe('arguments', () => {
  const refused: [string, object][] = [
    ['git.diff', { from: '--output=/tmp/x' }],
    ['git.diff', { from: 'a..b' }],
    ['git.diff', { paths: ['--output=x'] }],
    ['git.log', { ref: '-x' }],
    ['git.show', { ref: '--ext-diff' }],
    ['git.branch', { action: 'create', name: '--force' }],
    ['git.branch', { action: 'create', name: 'a..b' }],
    ['git.branch', { action: 'create' }],
    ['git.worktree', { action: 'add', path: '../out', branch: 'x' }],
    ['git.worktree', { action: 'add', path: 'x', branch: '-f' }],
    ['git.commit', { message: '' }],
  ];
  for (const [name, input] of refused) {
    it(`${name} ${JSON.stringify(input)} is refused`, () => {
      assert.equal(tool(name)!.input.safeParse(input).success, false);
    });
  }

  it('a path is taken literally', async () => {
    writeFileSync(at('b.txt'), 'b\n');
    const magic = ask('git.commit', { message: 'x', paths: [':(top)*'] });
    await assert.rejects(magic, { code: 'bad_request' });
    assert.equal(plain('status', '--porcelain'), '?? b.txt\n');
  });

  it('no command is run by a shell', async () => {
    await ask('git.log', { paths: ['$(touch x)', ';touch x'] });
    assert.ok(world.commands.every(({ argv }) => argv[0] === 'git'));
    assert.equal(plain('status', '--porcelain'), '');
  });
});

describe('settings', () => {
  const over = (text: string) => overrideSettings(parseSettings(text));

  it('keeps harmless settings, disables those not known to be, whatever their case', () => {
    const verdict = over(
      'core.filemode\ntrue\0user.name\nx\0FILTER.a.B=c.CLEAN\nrm\0new.thing\nx\0',
    );
    assert.ok('settings' in verdict);
    const off = verdict.settings.filter(([, value]) => value === '').map(([key]) => key);
    assert.ok(off.includes('FILTER.a.B=c.CLEAN') && off.includes('new.thing'));
    assert.ok(!off.includes('core.filemode') && !off.includes('user.name'));
  });

  it('refuses settings that cannot be disabled', () => {
    for (const text of ['include.path\nx\0', 'includeIf.gitdir:/.path\nx\0', 'core.bare\ntrue\0'])
      assert.ok('refused' in over(text), text);
    const many = Array.from({ length: 500 }, (_, i) => `filter.f${i}.clean\nx\0`).join('');
    assert.ok('refused' in over(many));
  });
});
