// A diff is right when applying it as patch(1) does makes the second text from the first.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { unifiedDiff } from './diff.ts';

const names = { from: 'a', to: 'a' };

/** Applies a unified diff, and checks every line it claims. */
function patch(before: string[], diff: string): string[] {
  const out: string[] = [];
  let at = 0;
  for (const line of diff.split('\n').slice(2, -1)) {
    const hunk = /^@@ -(\d+),(\d+) \+\d+,\d+ @@$/.exec(line);
    if (hunk !== null) {
      const start = Number(hunk[1]) - (hunk[2] === '0' ? 0 : 1);
      out.push(...before.slice(at, start));
      at = start;
    } else if (line[0] === '+') out.push(line.slice(1));
    else {
      assert.equal(before[at], line.slice(1));
      if (line[0] === ' ') out.push(line.slice(1));
      at++;
    }
  }
  return [...out, ...before.slice(at)];
}

test('shows changes with three lines of context', () => {
  const before = Array.from({ length: 12 }, (_, i) => `line ${i}`).join('\n');
  const after = before.replace('line 6', 'line six\nline 6.5');
  assert.equal(
    unifiedDiff(before, after, names),
    [
      '--- a',
      '+++ a',
      '@@ -4,7 +4,8 @@',
      ' line 3',
      ' line 4',
      ' line 5',
      '-line 6',
      '+line six',
      '+line 6.5',
      ' line 7',
      ' line 8',
      ' line 9',
      '',
    ].join('\n'),
  );
  assert.equal(unifiedDiff('x\n', 'x\n', names), '');
  assert.equal(unifiedDiff('', 'a\nb\n', names), '--- a\n+++ a\n@@ -0,0 +1,2 @@\n+a\n+b\n');
});

test('any two texts: the diff leads from one to the other', () => {
  const line = fc.constantFrom('a', 'b', 'c', '', '+x', '-y');
  const lines = fc.array(line, { maxLength: 30 });
  fc.assert(
    fc.property(lines, lines, (before, after) => {
      // A last empty line and a last line end look the same in a diff without a marker for it.
      if (before.at(-1) === '' || after.at(-1) === '') return;
      const diff = unifiedDiff(before.join('\n'), after.join('\n'), names);
      assert.deepEqual(patch(before, diff), after);
    }),
  );
});

test('texts with nothing in common are shown in full, and fast', () => {
  const many = (word: string) => Array.from({ length: 5_000 }, (_, i) => `${word}${i}`).join('\n');
  const diff = unifiedDiff(many('a'), many('b'), names);
  assert.deepEqual(patch(many('a').split('\n'), diff), many('b').split('\n'));
});
