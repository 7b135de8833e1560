// An approved call acts on exactly the state that its preview was based on, or does nothing and
// says so, whatever another agent does in the same workspace meanwhile.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { openTestBox, type TestBox } from '../../../../test/support/test-box.ts';
import { isFault } from '../../../platform/daemon.ts';
import { fileTools } from './files.ts';
import { gitTools } from './git.ts';
import type { Effect } from './tool.ts';

let world: TestBox;
beforeEach(async () => {
  world = await openTestBox();
});
afterEach(() => world.close());
const at = (name: string) => join(world.workspace, name);
const read = (name: string) => readFileSync(at(name), 'utf8');

/** Renders the preview, runs `meanwhile`, then performs the call as approved. */
async function approved(name: string, input: object, meanwhile: () => void): Promise<Effect> {
  const all = [...fileTools(world.workspace), ...gitTools(world.workspace)];
  const tool = all.find((one) => one.name === name)!;
  const { basis } = await world.show(tool, input);
  assert.ok(basis, `${name} says what it rests on`);
  meanwhile();
  return tool.perform(tool.input.parse(input), { ...world.context, basis });
}
const nothing = () => {};
const isChanged = (error: unknown) =>
  isFault(error, 'conflict') && (error as { details?: object }).details !== undefined;
const resultOf = (effect: Effect) => (effect as { result: Record<string, unknown> }).result;

describe('an approved file change', () => {
  beforeEach(() => writeFileSync(at('a'), 'one\n'));
  const other = () => writeFileSync(at('a'), 'of another agent\n');
  const edits = [{ old_text: 'o', new_text: 'O' }];
  const rows: [string, object][] = [
    ['file.write', { path: 'a', text: 'two\n' }],
    ['file.write', { path: 'a', base64: 'AAH/' }],
    ['file.edit', { path: 'a', edits: [{ old_text: 'one', new_text: 'two' }] }],
    ['file.delete', { path: 'a' }],
  ];
  for (const [name, input] of rows)
    it(`${name} ${Object.keys(input).at(-1)}: only while the file is the same`, async () => {
      await assert.rejects(approved(name, input, other), isChanged);
      assert.equal(read('a'), 'of another agent\n');
      writeFileSync(at('a'), 'one\n');
      assert.ok('result' in (await approved(name, input, nothing)), 'control');
      assert.notEqual(existsSync(at('a')) && read('a'), 'one\n');
    });

  for (const [name, input] of rows)
    it(`${name} ${Object.keys(input).at(-1)}: only in the directory that was shown`, async () => {
      mkdirSync(at('shown'));
      mkdirSync(at('other'));
      for (const dir of ['shown', 'other']) writeFileSync(at(`${dir}/a`), 'one\n');
      const replace = () => {
        renameSync(at('shown'), at('moved'));
        symlinkSync('other', at('shown'));
      };
      const inDir = { ...input, path: 'shown/a' };
      await assert.rejects(approved(name, inDir, replace), isChanged);
      for (const dir of ['moved', 'other']) assert.equal(read(`${dir}/a`), 'one\n', dir);
      assert.ok('result' in (await approved(name, inDir, nothing)), 'control');
      assert.notEqual(existsSync(at('other/a')) && read('other/a'), 'one\n', 'through the link');
    });

  it('file.write into new directories: only below the one that was shown', async () => {
    mkdirSync(at('other'));
    const input = { path: 'new/deep/b', text: 'two\n' };
    const link = () => symlinkSync('other', at('new'));
    await assert.rejects(approved('file.write', input, link), isChanged);
    assert.equal(existsSync(at('other/deep')), false);
    rmSync(at('new'));
    assert.ok('result' in (await approved('file.write', input, nothing)), 'control');
    assert.equal(read('new/deep/b'), 'two\n');
  });

  it('file.edit: also where its pieces would still fit', async () => {
    writeFileSync(at('a'), 'one o');
    const input = { path: 'a', edits: edits.map((edit) => ({ ...edit, all: true })) };
    await assert.rejects(
      approved('file.edit', input, () => writeFileSync(at('a'), 'rm o')),
      isChanged,
    );
    assert.equal(read('a'), 'rm o');
  });

  it('does not overwrite a file that did not exist', async () => {
    const input = { path: 'new', text: 'mine' };
    const made = () => writeFileSync(at('new'), 'theirs');
    await assert.rejects(approved('file.write', input, made), isChanged);
    assert.equal(read('new'), 'theirs');
    rmSync(at('new'));
    assert.ok('result' in (await approved('file.write', input, nothing)), 'control');
  });

  it('does not delete a file that did not exist', async () => {
    const made = () => writeFileSync(at('new'), 'theirs');
    await assert.rejects(approved('file.delete', { path: 'new' }, made), isChanged);
    assert.ok(existsSync(at('new')));
    assert.equal(resultOf(await approved('file.delete', { path: 'none' }, nothing)).deleted, 0);
  });

  it('identifies a file too large for a hash by size and time', async () => {
    const touched = () => utimesSync(at('a'), 1, 1);
    for (const [name, more] of [
      ['file.write', { text: 'x' }],
      ['file.delete', {}],
    ] as const) {
      truncateSync(at('a'), 65 * 1024 * 1024);
      await assert.rejects(approved(name, { path: 'a', ...more }, touched), isChanged);
      assert.ok('result' in (await approved(name, { path: 'a', ...more }, nothing)));
    }
  });

  it('deletes a link as the link that it was', async () => {
    writeFileSync(at('b'), 'b');
    symlinkSync('a', at('link'));
    const turned = () => {
      rmSync(at('link'));
      symlinkSync('b', at('link'));
    };
    await assert.rejects(approved('file.delete', { path: 'link' }, turned), isChanged);
    assert.ok(lstatSync(at('link')).isSymbolicLink());
    const replaced = () => {
      rmSync(at('a'));
      symlinkSync('b', at('a'));
    };
    await assert.rejects(approved('file.delete', { path: 'a' }, replaced), isChanged);
    assert.ok(lstatSync(at('a')).isSymbolicLink());
    assert.equal(resultOf(await approved('file.delete', { path: 'link' }, nothing)).deleted, 1);
  });
});

describe('an approved commit', () => {
  const env = { PATH: process.env.PATH, GIT_CONFIG_GLOBAL: '/dev/null', HOME: '/nonexistent' };
  const who = ['-c', 'user.name=p', '-c', 'user.email=p@x'];
  const plain = (...args: string[]) =>
    execFileSync('git', [...who, ...args], { cwd: world.workspace, env, encoding: 'utf8' });
  const input = { message: 'add b\n\n\nbody', all: true };
  beforeEach(() => {
    plain('init', '--quiet', '--initial-branch=main');
    writeFileSync(at('a'), 'one\n');
    plain('add', '.');
    plain('commit', '--quiet', '-m', 'first');
    writeFileSync(at('b'), 'b\n');
  });

  it('contains what was shown, and nothing that another agent added since', async () => {
    const done = await approved('git.commit', input, () => {
      writeFileSync(at('a'), 'evil\n');
      writeFileSync(at('b'), 'evil\n');
      writeFileSync(at('c'), 'evil\n');
      plain('add', '--all');
    });
    const { commit, branch, summary } = resultOf(done);
    assert.equal(plain('rev-parse', 'main').trim(), commit);
    assert.deepEqual([branch, summary], ['main', '1 file changed, 1 insertion(+)']);
    assert.doesNotMatch(plain('show', '--format=%an%n%B', 'main'), /evil/);
    assert.equal(plain('log', '-1', '--format=%an|%B').trim(), 'coder (agent)|add b\n\nbody');
    assert.equal(plain('show', 'main:b'), 'b\n');
    assert.equal(read('b'), 'evil\n', 'the other work is still there');
  });

  it('leaves the repository as a plain commit does', async () => {
    const { commit } = resultOf(await approved('git.commit', input, nothing));
    assert.equal(plain('status', '--porcelain'), '');
    assert.match(plain('reflog', '-1', 'HEAD'), /commit: add b/);
    assert.equal(plain('rev-parse', 'HEAD').trim(), commit);
  });

  it('is not made on another commit or branch than shown', async () => {
    const moved = () => plain('commit', '--quiet', '--allow-empty', '-m', 'theirs');
    await assert.rejects(approved('git.commit', input, moved), isChanged);
    assert.equal(plain('log', '-1', '--format=%s').trim(), 'theirs');
    const switched = () => plain('switch', '--quiet', '-c', 'other');
    await assert.rejects(approved('git.commit', input, switched), isChanged);
    assert.equal(plain('log', '-1', '--format=%s', 'other').trim(), 'theirs');
    assert.equal(plain('log', '-1', '--format=%s', 'main').trim(), 'theirs');
  });

  it('can be the first, end a merge, or be on no branch', async () => {
    plain('checkout', '--quiet', '--orphan', 'fresh');
    await approved('git.commit', input, nothing);
    assert.equal(plain('rev-list', '--count', 'fresh').trim(), '1');
    plain('switch', '--quiet', '-c', 'side', 'main');
    writeFileSync(at('c'), 'c\n');
    plain('add', 'c');
    plain('commit', '--quiet', '-m', 'side');
    plain('switch', '--quiet', 'main');
    plain('commit', '--quiet', '--allow-empty', '-m', 'more');
    plain('merge', '--no-commit', '--no-ff', '--quiet', 'side');
    await approved('git.commit', { message: 'merged' }, nothing);
    assert.equal(plain('log', '-1', '--format=%p').trim().split(' ').length, 2);
    assert.equal(existsSync(at('.git/MERGE_HEAD')), false);
    plain('switch', '--quiet', '--detach', 'main');
    mkdirSync(at('d'));
    writeFileSync(at('d/e'), 'e');
    const { branch } = resultOf(await approved('git.commit', { ...input, all: true }, nothing));
    assert.equal(branch, null);
    assert.equal(plain('status', '--porcelain'), '');
  });
});
