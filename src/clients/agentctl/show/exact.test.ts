// Text of others can neither hide nor imitate anything, however it is written.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { noPaint } from '../out.ts';
import { exact, exactLines, fenced, oddLetters } from './exact.ts';
import { widthOf } from './width.ts';

test('what does not show is written out', () => {
  assert.equal(exact('a\u001b[2Jb'), 'a\\u{001b}[2Jb');
  assert.equal(exact('pay\u202eevil'), 'pay\\u{202e}evil');
  assert.equal(exact('a\u200bb\u00adc\ufeff'), 'a\\u{200b}b\\u{00ad}c\\u{feff}');
  assert.equal(exact('a\u00a0b'), 'a\\u{00a0}b');
  assert.equal(exact('one\ntwo\rthree'), 'one\\u{000a}two\\u{000d}three');
  assert.equal(exact('\u{e0041}'), '\\u{e0041}');
  assert.equal(exact('größe 値 👍'), 'größe 値 👍');
});

test('no character that acts on a terminal gets through', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      for (const line of exactLines(text))
        assert.doesNotMatch(line, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u);
      assert.doesNotMatch(exact(text), /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u);
    }),
  );
});

test('every line stands behind a bar and none is wider than the terminal', () => {
  const columns = 40;
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 300 }), (text) => {
      const lines = fenced(exactLines(text), { columns, paint: noPaint });
      for (const line of lines) {
        assert.match(line, /^ {2}[│┆]/);
        assert.ok(widthOf(line) <= columns + 1, `${widthOf(line)} ${line}`);
      }
    }),
  );
});

test('nothing of a long line is left out', () => {
  const text = 'x'.repeat(1_000);
  const lines = fenced([text], { columns: 40, paint: noPaint });
  assert.equal(lines.map((line) => line.slice(4)).join(''), text);
});

test('letters that may look like others are counted', () => {
  assert.equal(oddLetters('paypal'), 0);
  assert.equal(oddLetters('pаypаl'), 2);
});
