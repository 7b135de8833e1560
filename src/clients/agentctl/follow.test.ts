// A server-sent stream is read the same however it is split into chunks.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readSse, sleep } from './follow.ts';

async function* pieces(bytes: Buffer, sizes: readonly number[]): AsyncGenerator<Buffer> {
  let from = 0;
  for (const size of sizes) {
    yield bytes.subarray(from, from + size);
    from += size;
  }
  yield bytes.subarray(from);
}

async function read(text: string, sizes: readonly number[] = []): Promise<string[]> {
  return Array.fromAsync(readSse(pieces(Buffer.from(text), sizes)));
}

test('messages, comments, several data lines and CRLF', async () => {
  assert.deepEqual(await read('id: 1\ndata: {"a":1}\n\n: ping\n\ndata:x\ndata: y\n\n'), [
    '{"a":1}',
    'x\ny',
  ]);
  assert.deepEqual(await read('data: one\r\n\r\ndata: two\r\n\r\n'), ['one', 'two']);
  assert.deepEqual(await read('data: without an end'), []);
});

test('the split into chunks does not matter', async () => {
  const text = 'id: 7\r\ndata: {"goal":"größer 日本"}\r\n\r\nevent: x\ndata: b\n\n';
  const expected = await read(text);
  assert.equal(expected.length, 2);
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 9 }), { maxLength: 30 }), async (sizes) => {
      assert.deepEqual(await read(text, sizes), expected);
    }),
  );
});

test('a sleep ends when its signal aborts', async () => {
  const controller = new AbortController();
  const paused = sleep(60_000, controller.signal);
  controller.abort();
  await paused;
  await sleep(60_000, controller.signal);
});
