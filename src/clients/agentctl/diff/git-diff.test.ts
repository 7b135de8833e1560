// A diff is right when git apply and patch make the second side of the first.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, describe, it, test } from 'node:test';
import fc from 'fast-check';
import { type ChangedFile, renderFile, splitTypeChange } from './git-diff.ts';
import { quotePath } from './quote-path.ts';
import { renderStat } from './stat.ts';

const dir = mkdtempSync(join(tmpdir(), 'git-diff-'));
after(() => rmSync(dir, { recursive: true, force: true }));

const change = (
  path: string,
  before: string | null,
  now: string | null,
  more: { modes?: [string, string]; isCut?: boolean } = {},
): ChangedFile => {
  const [from = '100644', to = '100644'] = more.modes ?? [];
  return {
    path,
    before: before === null ? null : { gitMode: from, content: before },
    after: now === null ? null : { gitMode: to, content: now },
    isCut: more.isCut ?? false,
  };
};
const toPatch = (changes: readonly ChangedFile[]): Buffer =>
  Buffer.from(
    changes
      .flatMap(splitTypeChange)
      .flatMap(renderFile)
      .map(({ text }) => `${text}\n`)
      .join(''),
    'latin1',
  );

let made = 0;
/** Applies the diff to a copy of the first sides, and compares it with the second. */
function assertApplies(program: string, argv: readonly string[], changes: readonly ChangedFile[]) {
  const at = join(dir, String(made++));
  mkdirSync(at);
  for (const { path, before } of changes) {
    if (before === null) continue;
    mkdirSync(dirname(join(at, path)), { recursive: true });
    const mode = before.gitMode === '100755' ? 0o755 : 0o644;
    writeFileSync(join(at, path), Buffer.from(before.content, 'latin1'), { mode });
  }
  const options = { cwd: at, input: toPatch(changes), stdio: 'pipe', encoding: 'utf8' } as const;
  execFileSync(program, argv, options);
  for (const { path, after: now } of changes) {
    const file = join(at, path);
    if (now === null) assert.equal(statSync(file, { throwIfNoEntry: false }), undefined, path);
    else {
      assert.equal(readFileSync(file).toString('latin1'), now.content, path);
      const isExecutable = (statSync(file).mode & 0o100) !== 0;
      assert.equal(isExecutable, now.gitMode === '100755', path);
    }
  }
}
const hasProgram = (name: string): boolean => {
  try {
    execFileSync(name, ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
};

const CHANGES: readonly ChangedFile[] = [
  change('src/main.c', 'int a;\nint b;\nint c;\n', 'int a;\nint B;\nint c;\n'),
  change('added', null, 'one\ntwo\n'),
  change('deep/added', null, 'one\ntwo'),
  change('deleted', 'one\ntwo\n', null),
  change('no-newline', 'one\ntwo', 'one\nthree'),
  change('gains-newline', 'one\ntwo', 'one\ntwo\n'),
  change('loses-newline', 'one\n\n', 'one\n'),
  change('run.sh', 'echo\n', 'echo hi\n', { modes: ['100644', '100755'] }),
  change('only-mode', 'same\n', 'same\n', { modes: ['100755', '100644'] }),
  change('with space', 'a\n', 'b\n'),
  change('tab\there "and" \\ there', 'a\n', 'b\n'),
  change('line\nbreak', 'a\n', 'b\n'),
  change('ümläut', 'a\n', 'b\n'),
  change('latin1', 'gr\u00fc\u00dfe\n', 'gr\u00fc\u00dfe!\n'),
  change('crlf', 'a\r\nb\r\n', 'a\r\nc\r\n'),
  change('looks-like-a-diff', '-- a\n', '-- a\n--- b\n+++ c\n@@ -1 +1 @@\n'),
];

for (const [program, argv] of [
  ['git', ['apply', '-']],
  ['patch', ['-p1', '-s', '--no-backup-if-mismatch']],
] as const)
  describe(`the diff of each change, with ${program}`, { skip: !hasProgram(program) }, () => {
    for (const one of CHANGES)
      it(JSON.stringify(one.path), () => assertApplies(program, argv, [one]));
    it('an empty file', { skip: program === 'patch' && 'patch makes none' }, () => {
      assertApplies(program, argv, [change('empty', null, '')]);
      assertApplies(program, argv, [change('empty', '', null)]);
    });
    it('all at once', () => assertApplies(program, argv, CHANGES));
  });

test('any two texts', { skip: !hasProgram('git') }, () => {
  const line = fc.constantFrom('a\n', 'b\n', 'c\n', '\n', '+x\n', '-y\n', '\\ z\n', 'end');
  const text = fc.array(line, { maxLength: 30 }).map((lines) => lines.join(''));
  fc.assert(
    fc.property(text, text, (before, now) => {
      if (before !== now) assertApplies('git', ['apply', '-'], [change('f', before, now)]);
    }),
    { numRuns: 40 },
  );
});

test('is what git prints', { skip: !hasProgram('git') }, () => {
  const at = join(dir, 'repository');
  mkdirSync(at);
  const git = (...argv: string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...argv], {
      cwd: at,
      encoding: 'latin1',
      env: { ...process.env, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_SYSTEM: '/dev/null' },
    });
  git('init', '-q');
  const sides = [
    change('a', 'one\ntwo\nthree\n', 'one\n2\nthree'),
    change('b"c', '1\n', '1\n2\n', { modes: ['100644', '100755'] }),
    change('bin', 'a\0b', 'a\0c'),
    change('gone', 'x\n', null),
    change('with space', 'x\n', 'y\n'),
  ];
  const write = (side: 'before' | 'after') => {
    for (const one of sides) {
      const now = one[side];
      if (now === null) rmSync(join(at, one.path), { force: true });
      else {
        rmSync(join(at, one.path), { force: true });
        const mode = now.gitMode === '100755' ? 0o755 : 0o644;
        writeFileSync(join(at, one.path), Buffer.from(now.content, 'latin1'), { mode });
      }
    }
  };
  write('before');
  git('add', '-A');
  git('commit', '-qm', 'x');
  write('after');
  assert.equal(toPatch(sides).toString('latin1'), git('diff', '--no-renames'));
  const stat = renderStat(
    [
      { name: quotePath('a'), added: 2, deleted: 2 },
      { name: quotePath('b"c'), added: 1, deleted: 0 },
      { name: 'bin', bytesBefore: 3, bytesAfter: 3 },
      { name: 'gone', added: 0, deleted: 1 },
      { name: 'with space', added: 1, deleted: 1 },
    ],
    80,
    (_, text) => text,
  );
  assert.equal(`${stat.join('\n')}\n`, git('diff', '--no-renames', '--stat=80'));
});

test('names binary files and files that are too large, and compares neither', () => {
  const texts = (one: ChangedFile) => toPatch([one]).toString();
  assert.match(texts(change('x', 'a\0', null)), /^Binary files a\/x and \/dev\/null differ$/m);
  const cut = texts(change('x', 'same', 'same', { isCut: true }));
  assert.match(cut, /^Binary files a\/x and b\/x differ$/m);
});

test('a file that becomes a link is removed and made anew', () => {
  const one = change('x', 'text\n', 'target', { modes: ['100644', '120000'] });
  const text = toPatch([one]).toString();
  assert.match(text, /deleted file mode 100644[\s\S]*new file mode 120000[\s\S]*\+target\n\\ No/);
});

test('a long list of changes is scaled as git does', () => {
  const rows = [
    { name: 'a', added: 500, deleted: 100 },
    { name: 'b', added: 1, deleted: 1 },
  ];
  const [first, second] = renderStat(rows, 40, (_, text) => text);
  assert.ok(first!.length <= 40, first);
  assert.match(second!, /\+-$/);
});
