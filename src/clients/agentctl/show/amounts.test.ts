// Amounts as shown to people.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  formatCount,
  formatMoney,
  formatRelative,
  formatSize,
  formatSpan,
  pluralize,
  startOfDay,
} from './amounts.ts';

test('money has four decimals, and a small amount never shows as zero', () => {
  assert.equal(formatMoney(12_300), '$0.0123');
  assert.equal(formatMoney(0), '$0.0000');
  assert.equal(formatMoney(99), '<$0.0001');
  assert.equal(formatMoney(123_456_789), '$123.46');
});

test('counts, sizes and plurals', () => {
  assert.equal(formatCount(1_234_567), '1,234,567');
  assert.equal(formatCount(999), '999');
  assert.equal(pluralize(1, 'task'), '1 task');
  assert.equal(pluralize(0, 'task'), '0 tasks');
  assert.equal(formatSize(512), '512 B');
  assert.equal(formatSize(1_536), '1.5 KiB');
});

test('durations and relative times', () => {
  assert.equal(formatSpan(850), '850 ms');
  assert.equal(formatSpan(2_140), '2.1 s');
  assert.equal(formatSpan(59_900), '59 s');
  assert.equal(formatSpan(200_000), '3 min 20 s');
  assert.equal(formatSpan(7_500_000), '2 h 5 min');
  assert.equal(formatSpan(-5), '0 ms');
  const now = Date.parse('2026-06-29T18:00:00Z');
  assert.equal(formatRelative('2026-06-29T17:59:48Z', now), '12 s ago');
  assert.equal(formatRelative('2026-06-29T21:00:00Z', now), 'in 3 h');
  assert.equal(formatRelative('2026-06-29T18:00:00.400Z', now), 'now');
  assert.equal(startOfDay(now), '2026-06-29T00:00:00.000Z');
});
