// Untrusted text can neither hide nor imitate anything, however it is written.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { escapeHidden, escapeLines } from '../../../platform/text/hidden.ts';
import { paintNothing } from '../out.ts';
import { countNonAscii, fence } from './exact.ts';
import { measureWidth } from './width.ts';

test('invisible characters are escaped', () => {
  assert.equal(escapeHidden('a\u001b[2Jb'), 'a\\u{001b}[2Jb');
  assert.equal(escapeHidden('pay\u202eevil'), 'pay\\u{202e}evil');
  assert.equal(escapeHidden('a\u200bb\u00adc\ufeff'), 'a\\u{200b}b\\u{00ad}c\\u{feff}');
  assert.equal(escapeHidden('a\u00a0b'), 'a\\u{00a0}b');
  assert.equal(escapeHidden('one\ntwo\rthree'), 'one\\u{000a}two\\u{000d}three');
  assert.equal(escapeHidden('\u{e0041}'), '\\u{e0041}');
  assert.equal(escapeHidden('größe 値 👍'), 'größe 値 👍');
});

test('no terminal control character gets through', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      for (const line of escapeLines(text))
        assert.doesNotMatch(line, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u);
      assert.doesNotMatch(escapeHidden(text), /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u);
    }),
  );
});

test('every line is behind a bar and none is wider than the terminal', () => {
  const columns = 40;
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 300 }), (text) => {
      const lines = fence(escapeLines(text), { columns, paint: paintNothing });
      for (const line of lines) {
        assert.match(line, /^ {2}[│┆]/);
        assert.ok(measureWidth(line) <= columns + 1, `${measureWidth(line)} ${line}`);
      }
    }),
  );
});

test('no part of a long line is left out', () => {
  const text = 'x'.repeat(1_000);
  const lines = fence([text], { columns: 40, paint: paintNothing });
  assert.equal(lines.map((line) => line.slice(4)).join(''), text);
});

test('letters that may look like others are counted', () => {
  assert.equal(countNonAscii('paypal'), 0);
  assert.equal(countNonAscii('pаypаl'), 2);
});
