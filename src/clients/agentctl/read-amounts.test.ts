// Money, time spans and times as people type them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readDuration, readTime, readUsd } from './read-amounts.ts';

test('dollars become micro-dollars exactly', () => {
  assert.equal(readUsd('0.1'), 100_000);
  assert.equal(readUsd('$2'), 2_000_000);
  assert.equal(readUsd('0.000001'), 1);
  for (const text of ['', '-1', '1.0000001', '1,5', '1e3', 'five'])
    assert.equal(readUsd(text), undefined);
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 999_999_999_999 }), (micro) => {
      const text = `${Math.floor(micro / 1e6)}.${String(micro % 1e6).padStart(6, '0')}`;
      assert.equal(readUsd(text), micro);
    }),
  );
});

test('time spans become seconds', () => {
  assert.equal(readDuration('90'), 90);
  assert.equal(readDuration('1h30m5s'), 5_405);
  assert.equal(readDuration('2d'), 172_800);
  for (const text of ['', '0', '0s', '-5', '5x', '1.5h', 'h'])
    assert.equal(readDuration(text), undefined);
});

test('times are absolute or count from now', () => {
  const now = Date.parse('2026-06-29T18:00:00Z');
  assert.equal(readTime('2h', now, 'ago'), '2026-06-29T16:00:00.000Z');
  assert.equal(readTime('2h', now, 'ahead'), '2026-06-29T20:00:00.000Z');
  assert.equal(readTime('2026-07-01T10:00:00+02:00', now, 'ago'), '2026-07-01T08:00:00.000Z');
  assert.equal(readTime('2026-07-01', now, 'ago'), '2026-07-01T00:00:00.000Z');
  assert.throws(() => readTime('yesterday', now, 'ago'), { code: 'bad_usage' });
  assert.throws(() => readTime('tomorrow', now, 'ahead'), { hint: /2026-06-30T18:00:00Z/ });
  assert.throws(() => readTime('yesterday', now, 'ago'), { hint: /2026-06-28T18:00:00Z/ });
  assert.throws(() => readTime('2026-13-45', now, 'ago'), { code: 'bad_usage' });
});
