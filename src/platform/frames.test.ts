// Frames survive any cut into pieces, and one above the limit is refused before it is buffered.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeFrame, FrameError, makeFrameReader } from './frames.ts';

const FRAMES: readonly [number, string][] = [
  [1, ''],
  [2, 'a'],
  [255, 'x'.repeat(1_000)],
  [3, 'end'],
];

test('frames arrive whole and in order, however they are cut', () => {
  const bytes = Buffer.concat(FRAMES.map(([type, text]) => encodeFrame(type, Buffer.from(text))));
  for (const step of [1, 2, 3, 5, 7, 64, bytes.length]) {
    const got: [number, string][] = [];
    const read = makeFrameReader(1_000, (type, body) => got.push([type, body.toString()]));
    for (let at = 0; at < bytes.length; at += step) read(bytes.subarray(at, at + step));
    assert.deepEqual(got, FRAMES);
  }
});

test('a frame above the limit is refused by its head', () => {
  const read = makeFrameReader(999, () => assert.fail('no frame'));
  assert.throws(() => read(encodeFrame(1, Buffer.alloc(1_000)).subarray(0, 5)), FrameError);
});

test('after an error nothing is read again, nor what follows', () => {
  const got: number[] = [];
  const read = makeFrameReader(1_000, (type) => {
    got.push(type);
    if (type === 2) throw new Error('no such frame');
  });
  const bytes = Buffer.concat([encodeFrame(1), encodeFrame(2), encodeFrame(3)]);
  assert.throws(() => read(bytes), /no such frame/);
  read(encodeFrame(4));
  assert.deepEqual(got, [1, 2]);
});
