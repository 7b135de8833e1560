// Postings survive encoding.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { decode, encode, frequencyOf, lengthOf, weightOf } from './postings.ts';

describe('memory index: postings', () => {
  it('come back as they were encoded', () => {
    const ordinals = fc.uniqueArray(fc.integer({ min: 1, max: 2 ** 31 - 1 }), { maxLength: 200 });
    fc.assert(
      fc.property(ordinals, fc.nat(255), (list, weight) => {
        const postings = list
          .sort((a, b) => a - b)
          .map((ordinal, i) => ({ ordinal, weight: (weight + i) % 256 }));
        const from = postings[0]?.ordinal ?? 0;
        assert.deepEqual(decode(encode(postings, from), from), postings);
      }),
    );
  });

  it('keep how often a term occurs, and about how long the record is', () => {
    assert.equal(frequencyOf(weightOf(1, 0, 10)), 1);
    assert.ok(frequencyOf(weightOf(3, 0, 10)) > frequencyOf(weightOf(2, 0, 10)));
    assert.ok(frequencyOf(weightOf(0, 1, 10)) < 1);
    assert.ok(frequencyOf(weightOf(1, 1, 10)) > 1);
    for (const length of [1, 2, 7, 40, 150]) {
      const ratio = lengthOf(weightOf(9, 9, length)) / length;
      assert.ok(ratio > 0.9 && ratio < 1.1, `${length}: ${ratio}`);
    }
    assert.ok(weightOf(999, 999, 1e7) < 256);
  });
});
