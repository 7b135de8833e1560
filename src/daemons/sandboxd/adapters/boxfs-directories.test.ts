// Tests directories in boxfs under the sanitizers: list, search, create and delete, within limits
// of time and size.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, it } from 'node:test';
import type { Fault } from '../../../wire/errors.ts';
import {
  files,
  inWork,
  outside,
  read,
  reason,
  setUpEachTest,
  work,
} from '../testing/boxfs-files.ts';

setUpEachTest();

describe('listing', () => {
  it('is sorted, typed and paged, and stays small for a large directory', async () => {
    for (let i = 0; i < 500; i++) writeFileSync(inWork(`f${String(i).padStart(4, '0')}`), 'x');
    mkdirSync(inWork('a-dir'));
    symlinkSync('f0001', inWork('b-link'));
    const names: string[] = [];
    for (let after: string | null = ''; after !== null; ) {
      const page: { entries: { name: string }[]; next: string | null } = await files.perform({
        op: 'list',
        path: work,
        limit: 70,
        after,
      });
      names.push(...page.entries.map(({ name }) => name));
      after = page.next;
    }
    assert.deepEqual(names, readdirSync(work).sort());
    const { entries } = await files.perform({ op: 'list', path: work, limit: 2 });
    const kinds = entries.map(({ name, kind }) => [name, kind]);
    assert.deepEqual(kinds, [
      ['a-dir', 'directory'],
      ['b-link', 'link'],
    ]);
    await assert.rejects(
      files.perform({ op: 'list', path: inWork('f0001') }),
      reason('not_directory'),
    );
  });
});

describe('searching', () => {
  const search = (pattern: string, more: object = {}) =>
    files.perform({ op: 'search', path: work, pattern, ...more });

  beforeEach(() => {
    mkdirSync(inWork('src/deep'), { recursive: true });
    mkdirSync(inWork('.git'));
    writeFileSync(inWork('.git/x'), 'needle\n');
    writeFileSync(inWork('src/a.ts'), 'one\nthe needle here\r\nthree Needle\n');
    writeFileSync(inWork('src/deep/b.md'), 'no newline needle');
    writeFileSync(inWork('bin'), Buffer.from('needle\0'));
    symlinkSync('../outside', inWork('way'));
  });

  it('finds a literal with its line and column, skips binaries, links and .git', async () => {
    const found = await search('needle');
    assert.deepEqual(found.matches, [
      { path: 'src/a.ts', line: 2, column: 5, text: 'the needle here' },
      { path: 'src/deep/b.md', line: 1, column: 12, text: 'no newline needle' },
    ]);
    assert.deepEqual([found.cut, found.files, found.binary], [null, 3, 1]);
    assert.equal((await search('needle', { everywhere: true })).matches.length, 3);
    assert.equal((await search('NEEDLE', { ignore_case: true })).matches.length, 3);
    assert.equal((await search('secret')).matches.length, 0);
  });

  it('accepts extended regular expressions and reports an invalid one', async () => {
    const found = await search('^(one|three) ?[A-Z]?', { mode: 'regex' });
    assert.deepEqual(
      found.matches.map(({ line }) => line),
      [1, 3],
    );
    await assert.rejects(search('(', { mode: 'regex' }), reason('bad_pattern'));
    await assert.rejects(search(''), reason('bad_pattern'));
  });

  it('honors globs, and finds by name', async () => {
    const paths = async (glob: string, more: object = {}) =>
      (await search('needle', { glob, ...more })).matches.map(({ path }) => path);
    assert.deepEqual(await paths('*.md'), ['src/deep/b.md']);
    assert.deepEqual(await paths('src/**/*.md'), ['src/deep/b.md']);
    assert.deepEqual(await paths('src/*.{md}'), []);
    assert.deepEqual(await paths('**/[!b]*.ts'), ['src/a.ts']);
    assert.deepEqual(await paths('src/*'), ['src/a.ts']);
    const named = await files.perform({ op: 'search', path: work, mode: 'names', glob: '*.ts' });
    assert.deepEqual(
      named.matches.map(({ path }) => path),
      ['src/a.ts'],
    );
  });

  it('says when it stopped early', async () => {
    writeFileSync(inWork('many'), 'needle\n'.repeat(100));
    const found = await search('needle', { results_max: 10 });
    assert.deepEqual([found.matches.length, found.cut], [10, 'results']);
  });

  it('a regular expression that never ends is aborted, and other requests are served meanwhile', async () => {
    writeFileSync(inWork('evil'), `${'a'.repeat(5_000)}\n`.repeat(2_000));
    writeFileSync(inWork('src/a.ts'), 'small');
    const slow = search('(a*)*\\1(a*)*\\2b', { mode: 'regex', glob: 'evil', limit_ms: 500 });
    const settled = slow.then(
      ({ cut }) => cut,
      (error: Fault) => error.details?.reason,
    );
    assert.equal((await read('src/a.ts')).content, 'small');
    assert.ok(['time', 'too_slow'].includes(String(await settled)));
  });
});

describe('deleting and creating directories', () => {
  it('deletes a file or an empty directory; a tree only if recursive', async () => {
    mkdirSync(inWork('d/e'), { recursive: true });
    writeFileSync(inWork('d/e/f'), 'x');
    symlinkSync(outside, inWork('d/way'));
    const path = inWork('d');
    await assert.rejects(files.perform({ op: 'delete', path }), reason('not_empty'));
    const done = await files.perform({ op: 'delete', path, recursive: true });
    assert.deepEqual([done.deleted, done.complete], [4, true]);
    assert.equal(existsSync(path), false);
    assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), 'secret\n');
    await assert.rejects(files.perform({ op: 'delete', path }), reason('not_found'));
    const root = files.perform({ op: 'delete', path: work, recursive: true });
    await assert.rejects(root, reason('denied'));
  });

  it('deletes a file only in the expected state, if one is given', async () => {
    writeFileSync(inWork('f'), 'one');
    const seen = createHash('sha256').update('one').digest('hex');
    const ask = (path: string) =>
      files.perform({ op: 'delete', path: inWork(path), expected_sha256: seen });
    writeFileSync(inWork('f'), 'two');
    await assert.rejects(ask('f'), reason('conflict'));
    symlinkSync('f', inWork('to-f'));
    await assert.rejects(ask('to-f'), reason('conflict'));
    mkdirSync(inWork('d'));
    await assert.rejects(ask('d'), reason('is_directory'));
    await assert.rejects(ask('none'), reason('not_found'));
    assert.equal(readFileSync(inWork('to-f'), 'utf8'), 'two');
    writeFileSync(inWork('f'), 'one');
    assert.equal((await ask('f')).deleted, 1);
  });

  it('creates a directory once, with its parents if requested', async () => {
    const path = inWork('a/b/c');
    await assert.rejects(files.perform({ op: 'mkdir', path }), reason('not_found'));
    assert.equal((await files.perform({ op: 'mkdir', path, make_parents: true })).created, true);
    assert.equal((await files.perform({ op: 'mkdir', path })).created, false);
    writeFileSync(inWork('file'), '');
    const over = files.perform({ op: 'mkdir', path: inWork('file') });
    await assert.rejects(over, reason('exists'));
  });
});
