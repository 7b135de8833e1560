// Tests splitting and truncation: no text is lost, and no surrogate pair is split.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { splitText, truncateText } from './split-text.ts';

const text = fc.string({ unit: 'grapheme', maxLength: 400 });

test('the chunks of a text join to the text, and each is well-formed', () => {
  fc.assert(
    fc.property(text, (whole) => {
      const pieces = splitText(whole);
      assert.equal(pieces.join(''), whole);
      assert.ok(pieces.every((piece) => piece !== '' && piece.isWellFormed()));
    }),
  );
  const pairs = `x${'🎭'.repeat(100)}`;
  assert.ok(splitText(pairs).every((piece) => piece.isWellFormed()));
});

test('a truncated text is a well-formed prefix of at most the given length', () => {
  fc.assert(
    fc.property(text, fc.integer({ min: 0, max: 500 }), (whole, charsMax) => {
      const truncated = truncateText(whole, charsMax);
      assert.ok(whole.startsWith(truncated) && truncated.isWellFormed());
      assert.ok(
        truncated.length <= charsMax && truncated.length >= Math.min(whole.length, charsMax) - 1,
      );
    }),
  );
  assert.equal(truncateText('🎭🎭', 3), '🎭');
});
