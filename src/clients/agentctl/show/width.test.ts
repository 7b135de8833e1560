// Text width is counted in terminal columns, and text is truncated to fit.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { paintSgr } from '../out.ts';
import { replaceControls, toOneLine } from './plain.ts';
import { measureWidth, pad, truncate, wrap } from './width.ts';

test('wide characters count two, combining marks none, colors none', () => {
  assert.equal(measureWidth('plain'), 5);
  assert.equal(measureWidth('日本語'), 6);
  assert.equal(measureWidth('ｆｕｌｌ'), 8);
  assert.equal(measureWidth('한국'), 4);
  assert.equal(measureWidth('e\u0301'), 1);
  assert.equal(measureWidth('🚀'), 2);
  assert.equal(measureWidth('👩‍👩‍👧'), 2);
  assert.equal(measureWidth('❤️'), 2);
  assert.equal(measureWidth('Grüße'), 5);
  assert.equal(measureWidth(paintSgr('red', 'red')), 3);
});

test('text that is too long ends in an ellipsis and never splits a character', () => {
  assert.equal(truncate('abcdef', 6), 'abcdef');
  assert.equal(truncate('abcdefg', 6), 'abcde…');
  assert.equal(truncate('日本語', 5), '日本…');
  assert.equal(truncate('日本語', 4), '日…');
  assert.equal(truncate('👩‍👩‍👧👩‍👩‍👧', 3), '👩‍👩‍👧…');
  assert.equal(truncate('anything', 0), '');
});

test('truncated and padded text is never wider than requested', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme' }),
      fc.integer({ min: 1, max: 30 }),
      (text, columns) => {
        const clean = toOneLine(text);
        assert.ok(measureWidth(truncate(clean, columns)) <= columns);
        assert.equal(measureWidth(pad(truncate(clean, columns), columns)), columns);
        if (measureWidth(clean) <= columns) assert.equal(truncate(clean, columns), clean);
      },
    ),
  );
});

test('wrapping loses no word', () => {
  assert.deepEqual(wrap('one two three', 7), ['one two', 'three']);
  assert.deepEqual(wrap('unbreakable x', 5), ['unbreakable', 'x']);
  assert.deepEqual(wrap('a\nb', 5), ['a', 'b']);
  assert.deepEqual(wrap('anything', Number.POSITIVE_INFINITY), ['anything']);
});

test('control characters in untrusted text do not reach the terminal', () => {
  assert.equal(
    replaceControls('a\u001b[2Jb\u0007\u009b31m\u202ec'),
    'a\ufffd[2Jb\ufffd\ufffd31m\ufffdc',
  );
  assert.equal(replaceControls('keeps\nlines\tand tabs\r\n'), 'keeps\nlines\tand tabs\n');
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: this pattern matches them
      assert.doesNotMatch(replaceControls(text), /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
      assert.doesNotMatch(toOneLine(text), /[\n\t]/);
    }),
  );
});
