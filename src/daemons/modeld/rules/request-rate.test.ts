// A minute's worth of requests may come at once; then one per interval, and refused ones count not.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RequestRate } from './request-rate.ts';

test('no minute has more requests than twice the limit, and a quiet one gives all of it back', () => {
  const rate = new RequestRate();
  const admit = (nowMs: number, name = 'a') => rate.admit(name, 3, nowMs);
  assert.deepEqual([admit(1_000), admit(1_000), admit(1_000)], [0, 0, 0]);
  assert.equal(admit(1_000), 20_000, 'it says when to try again');
  assert.equal(admit(1_000, 'b'), 0, 'names do not share');
  assert.equal(admit(20_999), 1);
  assert.equal(admit(21_000), 0);
  assert.equal(admit(21_000), 20_000);
  const later = 200_000;
  assert.deepEqual([admit(later), admit(later), admit(later)], [0, 0, 0]);
  assert.ok(admit(later) > 0);
  assert.equal(new RequestRate().admit('x', 10_000, 0), 0);
});
