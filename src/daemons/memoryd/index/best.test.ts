// The best of many scores, compared with sorting all of them.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { best } from './best.ts';

describe('memory index: the best scores', () => {
  it('are those that sorting would put first', () => {
    const score = fc.oneof(fc.constant(0), fc.nat(9), fc.double({ min: 0, max: 1e6, noNaN: true }));
    fc.assert(
      fc.property(
        fc.array(score, { maxLength: 300 }),
        fc.integer({ min: 1, max: 50 }),
        (list, n) => {
          const scores = Float32Array.from([0, ...list]);
          const sorted = [...scores.keys()]
            .filter((i) => scores[i]! > 0)
            .sort((a, b) => scores[b]! - scores[a]! || b - a);
          assert.deepEqual(best(scores, n), sorted.slice(0, n));
        },
      ),
    );
  });
});
