// Repeated ids are never missed, and false positives are rare enough to be looked up.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { IdSet } from './id-set.ts';

test('of many similar ids only the repeated ones are known', () => {
  const ids = new IdSet();
  const makeId = (n: number): string => `evt_01j${n.toString(32).padStart(23, '0')}`;
  let falseHits = 0;
  for (let n = 0; n < 300_000; n += 1) if (ids.add(makeId(n))) falseHits += 1;
  assert.equal(falseHits, 0);
  for (let n = 0; n < 300_000; n += 997) assert.ok(ids.add(makeId(n)));
  assert.ok(!ids.add(''));
  assert.ok(ids.add(''));
});
