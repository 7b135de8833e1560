// The file tools over the real boxfs: their results, and their errors.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import fc from 'fast-check';
import { openTestBox, type TestBox } from '../../../../test/support/test-box.ts';
import { isWithin } from '../../../policy/paths.ts';
import { fault } from '../../../wire/errors.ts';
import { boxPath } from './box.ts';
import { applyEdits } from './files/write.ts';
import { fileTools } from './files.ts';
import type { Tool } from './tool.ts';

let world: TestBox;
const tool = (name: string): Tool | undefined =>
  fileTools(world.workspace).find((one) => one.name === name);
const at = (name: string) => join(world.workspace, name);
const ask = (name: string, input: object) => world.result(tool(name), input);

before(async () => {
  world = await openTestBox();
});
after(() => world.close());
beforeEach(() => {
  mkdirSync(at('src'), { recursive: true });
  writeFileSync(at('src/a.ts'), 'const a = 1;\nconst b = a;\n');
});

describe('file.read', () => {
  it('reads text by path in the workspace, in pages', async () => {
    const whole = await ask('file.read', { path: 'src/a.ts' });
    assert.equal(whole.text, 'const a = 1;\nconst b = a;\n');
    assert.equal(whole.path, at('src/a.ts'));
    const first = await ask('file.read', { path: at('src/a.ts'), length: 13 });
    assert.deepEqual([first.text, first.next_offset], ['const a = 1;\n', 13]);
    const rest = await ask('file.read', { path: 'src/a.ts', offset: 13 });
    assert.deepEqual([rest.text, rest.next_offset], ['const b = a;\n', undefined]);
  });

  it('has errors that a model can act on', async () => {
    await assert.rejects(ask('file.read', { path: 'none' }), {
      code: 'not_found',
      message: `${at('none')} does not exist`,
    });
    await assert.rejects(ask('file.read', { path: '/etc/passwd' }), { code: 'denied' });
    symlinkSync('../outside', at('way'));
    await assert.rejects(ask('file.read', { path: 'way/x' }), { code: 'denied' });
  });
});

describe('file.write', () => {
  it("makes directories, refuses to overwrite another agent's change", async () => {
    const made = await ask('file.write', { path: 'new/deep/x.txt', text: 'one' });
    assert.equal(made.created, true);
    writeFileSync(at('new/deep/x.txt'), 'other');
    const stale = { path: 'new/deep/x.txt', text: 'two', expected_sha256: made.sha256 };
    await assert.rejects(ask('file.write', stale), { code: 'conflict' });
    assert.equal(readFileSync(at('new/deep/x.txt'), 'utf8'), 'other');
    const again = { path: 'new/deep/x.txt', text: 'x', create_only: true };
    await assert.rejects(ask('file.write', again), { code: 'conflict' });
  });

  it('accepts base64 and makes programs', async () => {
    const base64 = Buffer.from([0, 1, 255]).toString('base64');
    await ask('file.write', { path: 'p', base64, executable: true });
    assert.deepEqual([...readFileSync(at('p'))], [0, 1, 255]);
    assert.equal(statSync(at('p')).mode & 0o100, 0o100);
    assert.equal(tool('file.write')!.input.safeParse({ path: 'p' }).success, false);
  });

  it('shows the diff before it is done', async () => {
    const input = { path: at('src/a.ts'), text: 'const a = 2;\nconst b = a;\n' };
    const { text } = await world.show(tool('file.write'), input);
    assert.match(text, /-const a = 1;\n\+const a = 2;\n const b/);
    assert.equal(readFileSync(at('src/a.ts'), 'utf8'), 'const a = 1;\nconst b = a;\n');
  });
});

describe('what git reads its settings from', () => {
  const isRefused = { code: 'denied', details: { reason: 'denied', protects: 'git' } };
  const write = (path: string) => ask('file.write', { path, text: 'x' });
  const made = ['sub', 'into-git', 'plain', 'src', 'bare', 'wt', 'steps', 'app'];
  after(() => {
    for (const name of made) rmSync(at(name), { recursive: true, force: true });
  });

  it('is not written through a link when directories are new', async () => {
    mkdirSync(at('sub/.git'), { recursive: true });
    symlinkSync('sub/.git', at('into-git'));
    for (const path of [
      'into-git/hooks/pre-commit',
      'into-git/new/deep/config',
      'into-git/config',
      'sub/.GIT/a',
    ])
      await assert.rejects(write(path), isRefused, path);
    assert.deepEqual(readdirSync(at('sub/.git')), []);
    // The control: without the guard, boxfs follows the link.
    const { files } = await world.context.box();
    const raw = { op: 'write', content: 'x', make_parents: true } as const;
    await files.perform({ ...raw, path: at('into-git/hooks/pre-commit') });
    assert.ok(existsSync(at('sub/.git/hooks/pre-commit')));
    symlinkSync('src', at('plain'));
    await write('plain/new/deep/x');
    assert.ok(existsSync(at('src/new/deep/x')), 'another link is followed');
  });

  it('is not made of plain files: no name completes or changes a repository', async () => {
    for (const dir of ['bare/objects', 'bare/refs/heads', 'wt'])
      mkdirSync(at(dir), { recursive: true });
    for (const path of [
      'bare/HEAD',
      'bare/config',
      'bare/hooks/pre-commit',
      'bare/info/attributes',
    ])
      await assert.rejects(write(path), isRefused, path);
    writeFileSync(at('bare/HEAD'), 'ref: refs/heads/main\n');
    for (const path of ['bare/config', 'bare/refs/heads/main', 'bare/objects/a/b'])
      await assert.rejects(write(path), isRefused, path);
    await assert.rejects(ask('file.delete', { path: 'bare/HEAD' }), isRefused);
    await write('wt/HEAD');
    await assert.rejects(write('wt/commondir'), isRefused);
    await write('steps/HEAD');
    await write('steps/objects/a');
    await assert.rejects(write('steps/refs/a'), isRefused);
    // The control: git takes what was completed without the guard for a repository.
    writeFileSync(at('bare/config'), '[core]\n\tbare = true\n[alias]\n\tx = !echo ran\n');
    const out = execFileSync('git', ['-c', 'safe.directory=*', 'x'], { cwd: at('bare') });
    assert.equal(String(out), 'ran\n');
  });

  it('leaves the same names elsewhere alone', async () => {
    for (const path of ['app/config', 'app/refs/a', 'app/info/b', 'bare/readme', 'bare/src/config'])
      assert.equal((await write(path)).created, true, path);
  });
});

describe('file.edit', () => {
  const edit = (old_text: string, new_text: string, more: object = {}) => ({
    path: 'src/a.ts',
    edits: [{ old_text, new_text, ...more }],
  });

  it('replaces exactly the named text, once', async () => {
    const done = await ask('file.edit', edit('a = 1', 'a = $& 2'));
    assert.equal(done.replacements, 1);
    assert.match(String(done.diff), /\+const a = \$& 2;/);
    assert.equal(readFileSync(at('src/a.ts'), 'utf8'), 'const a = $& 2;\nconst b = a;\n');
  });

  it('refuses text that is missing or not unique, and leaves the file', async () => {
    await assert.rejects(ask('file.edit', edit('nope', 'x')), { code: 'not_found' });
    await assert.rejects(ask('file.edit', edit('const', 'let')), {
      code: 'conflict',
      message: /2 times/,
    });
    assert.throws(() => applyEdits('aaa', [{ old_text: 'aa', new_text: 'b', all: false }], 'x'), {
      code: 'conflict',
      message: /in overlapping places/,
    });
    const mixed = {
      path: 'src/a.ts',
      edits: [...edit('a = 1', 'a = 2').edits, ...edit('no', '').edits],
    };
    await assert.rejects(ask('file.edit', mixed), { code: 'not_found' });
    assert.equal(readFileSync(at('src/a.ts'), 'utf8'), 'const a = 1;\nconst b = a;\n');
    assert.equal((await ask('file.edit', edit('const', 'let', { all: true }))).replacements, 2);
  });

  it('a box that is closed during the write leaves the outcome open, not "nothing was done"', async () => {
    const box = await world.context.box();
    const perform = async (request: { op: string }) => {
      if (request.op === 'write') throw fault('unavailable', 'gone');
      return box.files.perform(request as { op: 'read'; path: string });
    };
    const context = { ...world.context, box: async () => ({ ...box, files: { perform } }) };
    const one = tool('file.edit')!;
    const doing = one.perform(one.input.parse(edit('a = 1', 'x')), context as never);
    await assert.rejects(doing, { name: 'Error', message: /the box ended/ });
  });

  it('any edits: text that is not named stays', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 6 });
    const word = fc.oneof(fc.string({ maxLength: 6 }), letters);
    fc.assert(
      fc.property(word, word, word, word, (head, tail, old, fresh) => {
        fc.pre(old !== '');
        const before = `${head}${old}${tail}`;
        const isOnce = before.indexOf(old) === before.lastIndexOf(old);
        const edits = [{ old_text: old, new_text: fresh, all: false }];
        if (!isOnce) assert.throws(() => applyEdits(before, edits, 'x'));
        else assert.equal(applyEdits(before, edits, 'x').text, `${head}${fresh}${tail}`);
      }),
    );
  });
});

describe('file.list and file.search', () => {
  it('list a directory with kinds and sizes', async () => {
    const { entries } = await ask('file.list', { path: 'src' });
    assert.deepEqual(
      (entries as { name: string; kind: string; size_bytes: number }[]).map(
        ({ name, kind, size_bytes }) => [name, kind, size_bytes],
      ),
      [['a.ts', 'file', 26]],
    );
  });

  it('search finds lines, and names', async () => {
    const found = await ask('file.search', { pattern: 'const b', glob: '*.ts' });
    assert.deepEqual(found.matches, [
      { path: 'src/a.ts', line: 2, column: 1, text: 'const b = a;' },
    ]);
    const named = await ask('file.search', { mode: 'names', glob: '*.ts' });
    assert.deepEqual(named.matches, [{ path: 'src/a.ts' }]);
    assert.equal(tool('file.search')!.input.safeParse({}).success, false);
  });
});

describe('file.delete and delete.recursive', () => {
  it('delete once, and return the same when repeated', async () => {
    assert.equal((await ask('file.delete', { path: 'src/a.ts' })).deleted, 1);
    assert.equal((await ask('file.delete', { path: 'src/a.ts' })).deleted, 0);
  });

  it('a name with line breaks cannot imitate another line of the preview', async () => {
    writeFileSync(at('src/x\nand nothing else'), '');
    const { text } = await world.show(tool('delete.recursive'), { path: at('src') });
    assert.doesNotMatch(text, /^and nothing else/m);
    assert.match(text, /x\\nand nothing else" \(0 bytes, sha256 e3b0c442\w+\)$/m);
    assert.equal((await ask('file.delete', { path: 'src/x\nand nothing else' })).deleted, 1);
  });

  it('a tree is shown with its distinguishing details, however large it is', async () => {
    mkdirSync(at('big'));
    writeFileSync(at('big/a.ts'), 'let a = 1;');
    const show = async () => (await world.show(tool('delete.recursive'), { path: at('big') })).text;
    const first = await show();
    assert.equal(await show(), first, 'control');
    const { atime, mtime } = statSync(at('big/a.ts'));
    const text = readFileSync(at('big/a.ts'), 'utf8');
    writeFileSync(at('big/a.ts'), text.replace(/\w/, 'Z'));
    utimesSync(at('big/a.ts'), atime, mtime);
    assert.notEqual(await show(), first, 'another content of the same size and time');
    writeFileSync(at('big/a.ts'), text);
    assert.equal(await show(), first);
    mkdirSync(at('big/many/deep'), { recursive: true });
    for (let i = 0; i < 2_100; i++) writeFileSync(at(`big/many/deep/${i}`), 'x');
    const all = await show();
    assert.match(all, /^and 103 more, together \w{64}$/m);
    writeFileSync(at('big/many/deep/999'), 'y');
    assert.notEqual(await show(), all, 'a file that is not listed');
    const link = await world.show(tool('delete.recursive'), { path: at('none') });
    assert.match(link.text, /does not exist/);
  });

  it('a directory that is not empty needs delete.recursive', async () => {
    await assert.rejects(ask('file.delete', { path: 'src' }), { code: 'conflict' });
    const { text } = await world.show(tool('delete.recursive'), { path: at('src') });
    assert.match(text, /- .*src\/a\.ts/);
    const done = await ask('delete.recursive', { path: 'src' });
    assert.deepEqual([done.deleted, done.complete], [2, true]);
    assert.equal(existsSync(at('src')), false);
  });
});

describe('resources for policy', () => {
  it('every tool names the paths it touches, as they will be opened', () => {
    const touched = (name: string, input: object) => {
      const one = fileTools().find((each) => each.name === name)!;
      return one.touches!(one.input.parse(input));
    };
    assert.deepEqual(touched('file.read', { path: 'a/../../etc/passwd' }), [
      { action: 'file.read', path: '/etc/passwd' },
    ]);
    assert.deepEqual(touched('file.list', {}), [{ action: 'file.read', path: '/workspace' }]);
    assert.deepEqual(
      touched('file.edit', { path: 'x', edits: [{ old_text: 'a', new_text: 'b' }] }),
      [
        { action: 'file.read', path: '/workspace/x' },
        { action: 'file.write', path: '/workspace/x' },
      ],
    );
    for (const one of fileTools()) {
      assert.ok(one.timeoutMs! > 0 && one.callsPerRunMax! > 0 && one.box !== undefined);
      assert.ok(one.touches!(one.input.parse(sample(one.name))).length > 0);
    }
  });

  it('a path is the same wherever it is made: absolute, without dots', () => {
    const path = boxPath('/workspace');
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), (given) => {
        const made = path.safeParse(given);
        if (given.includes('\0')) return assert.equal(made.success, false);
        const whole = made.data!;
        assert.ok(whole.startsWith('/'));
        assert.ok(!whole.split('/').some((part) => part === '..' || part === '.'));
        assert.equal(path.parse(whole), whole);
      }),
    );
    assert.ok(isWithin('/workspace/a', '/workspace') && !isWithin('/workspaces', '/workspace'));
  });
});

function sample(name: string): object {
  const more: Record<string, object> = {
    'file.write': { text: '' },
    'file.edit': { edits: [{ old_text: 'a', new_text: '' }] },
    'file.search': { pattern: 'x' },
  };
  return { path: 'x', ...more[name] };
}
