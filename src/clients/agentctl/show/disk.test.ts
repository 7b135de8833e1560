// The warning before a disk is full.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeDisk } from './disk.ts';

const GIB = 2 ** 30;
const isLow = (sizeGib: number, freeGib: number): boolean =>
  describeDisk({ size_bytes: sizeGib * GIB, free_bytes: freeGib * GIB }).fix !== undefined;

test('warns when less than a tenth of the disk, or less than 2 GiB, is free', () => {
  assert.deepEqual(
    [isLow(100, 11), isLow(100, 9), isLow(10, 3), isLow(10, 1.9)],
    [false, true, false, true],
  );
  const { text } = describeDisk({ size_bytes: 100 * GIB, free_bytes: 9 * GIB });
  assert.equal(text, '9.0 GiB of 100.0 GiB free');
});
