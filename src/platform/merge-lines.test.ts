// Tests merging against git, and where it must leave the choice to a person.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { mergeLines } from './merge-lines.ts';

const BASE = 'a\nb\nc\nd\ne\nf\ng\n';

test('edits of different lines come together', () => {
  const ours = BASE.replace('b\n', 'B\n');
  const theirs = BASE.replace('f\n', 'F\nF2\n').replace('d\n', '');
  assert.equal(mergeLines(BASE, ours, theirs), 'a\nB\nc\ne\nF\nF2\ng\n');
  assert.equal(mergeLines(BASE, theirs, ours), 'a\nB\nc\ne\nF\nF2\ng\n');
});

test('one side alone, and the same edit on both, need no choice', () => {
  const edited = BASE.replace('b\n', 'B\n');
  assert.equal(mergeLines(BASE, BASE, edited), edited);
  assert.equal(mergeLines(BASE, edited, BASE), edited);
  assert.equal(mergeLines(BASE, edited, edited), edited);
  const both = edited.replace('g\n', 'G\n');
  assert.equal(mergeLines(BASE, edited, both), both, 'the same edit, and one more');
});

test('edits of the same line, of neighbours and at the same place overlap', () => {
  const set = (from: string, to: string) => BASE.replace(from, to);
  assert.equal(mergeLines(BASE, set('b', 'X'), set('b', 'Y')), null);
  assert.equal(mergeLines(BASE, set('b', 'X'), set('c', 'Y')), null);
  assert.equal(mergeLines(BASE, set('c\n', 'c\nX\n'), set('c\n', 'c\nY\n')), null);
  assert.equal(mergeLines(BASE, set('c\nd\n', ''), set('d', 'Y')), null);
});

test('a last line without its end is another line', () => {
  assert.equal(mergeLines('a\nb\nc', 'A\nb\nc', 'a\nb\nc\n'), 'A\nb\nc\n');
  assert.equal(mergeLines('a\nb', 'a\nb\n', 'a\nc'), null);
  assert.equal(mergeLines('', 'x\n', 'y\n'), null);
  assert.equal(
    mergeLines('a\r\nb\r\nc\r\n', 'A\r\nb\r\nc\r\n', 'a\r\nb\r\nC\r\n'),
    'A\r\nb\r\nC\r\n',
  );
});

test('texts that have nothing in common overlap, whatever their size', () => {
  const lines = (word: string) =>
    Array.from({ length: 3_000 }, (_, n) => `${word} ${n}\n`).join('');
  assert.equal(mergeLines(lines('a'), lines('b'), lines('c')), null);
});

test('whatever git merges without a conflict, it merges to the same text', () => {
  const dir = mkdtempSync(join(tmpdir(), 'merge-'));
  let seed = 7;
  const next = (below: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor((seed / 2 ** 31) * below);
  };
  // Lines are unique: which of several equal ones was deleted is a matter of taste.
  let made = 0;
  const change = (lines: readonly string[]): string => {
    const copy = [...lines];
    for (let n = next(3) + 1; n > 0; n--) {
      const at = next(copy.length);
      if (next(3) === 0) copy.splice(at, 1);
      else copy.splice(at, next(2), `new ${made++}`);
    }
    return `${copy.join('\n')}\n`;
  };
  const counts = { merged: 0, overlaps: 0 };
  try {
    for (let round = 0; round < 60; round++) {
      const lines = Array.from({ length: 12 + next(10) }, (_, n) => `line ${n}`);
      const texts = { base: `${lines.join('\n')}\n`, ours: change(lines), theirs: change(lines) };
      for (const [name, text] of Object.entries(texts)) writeFileSync(join(dir, name), text);
      const args = ['merge-file', '-p', '-q', 'ours', 'base', 'theirs'];
      let expected: string | null = null;
      try {
        expected = execFileSync('git', args, { cwd: dir, encoding: 'utf8' });
      } catch {
        // It prints conflicts, and ends with their number.
      }
      const merged = mergeLines(texts.base, texts.ours, texts.theirs);
      assert.equal(merged, expected, JSON.stringify(texts));
      counts[merged === null ? 'overlaps' : 'merged']++;
    }
  } finally {
    rmSync(dir, { recursive: true });
  }
  assert.ok(counts.merged > 10 && counts.overlaps > 10, JSON.stringify(counts));
});
