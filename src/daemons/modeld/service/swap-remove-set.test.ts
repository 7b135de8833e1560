// A crowd has what a Set has, whoever comes and goes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { SwapRemoveSet } from './swap-remove-set.ts';

test('like a Set, for any coming and going', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(9), { maxLength: 200 }), (steps) => {
      const things = Array.from({ length: 10 }, (_, id) => ({ id, place: 0 }));
      const crowd = new SwapRemoveSet<(typeof things)[0]>();
      const known = new Set<(typeof things)[0]>();
      for (const id of steps) {
        const one = things[id]!;
        // Who is there goes, and is told to go once more, which changes nothing.
        if (known.delete(one)) {
          crowd.delete(one);
          crowd.delete(one);
        } else {
          known.add(one);
          crowd.add(one);
        }
        assert.equal(crowd.size, known.size);
        assert.deepEqual(new Set(crowd.all()), known);
      }
    }),
  );
});
