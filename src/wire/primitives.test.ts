// Timestamps: nonexistent dates are rejected, existing ones are accepted unchanged.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Timestamp } from './primitives.ts';

test('a date or time that does not exist is rejected', () => {
  for (const text of [
    '2026-02-31T25:61:00Z',
    '2026-02-31T00:00:00Z',
    '2025-02-29T00:00:00Z',
    '2026-04-31T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-00-10T00:00:00Z',
    '2026-06-00T00:00:00Z',
    '2026-06-29T24:00:00Z',
    '2026-06-29T23:60:00Z',
    '2026-06-29T23:59:61Z',
    '2026-06-29T23:59:59',
    'yesterday',
    '',
  ])
    assert.equal(Timestamp.safeParse(text).success, false, text);
});

test('every existing time is accepted unchanged', () => {
  const within = {
    min: new Date('0000-01-01T00:00:00Z'),
    max: new Date('9999-12-31T23:59:59.999Z'),
    noInvalidDate: true,
  };
  fc.assert(
    fc.property(fc.date(within), fc.nat(999_999_999), (date, nanos) => {
      const second = date.toISOString().slice(0, 19);
      for (const text of [`${second}Z`, date.toISOString(), `${second}.${nanos}Z`])
        assert.equal(Timestamp.parse(text), text);
    }),
  );
});
