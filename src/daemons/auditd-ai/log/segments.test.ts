// Compares lines and offsets in a file with a naive model.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import fc from 'fast-check';
import { makeDir } from './fixture.ts';
import { withFile } from './reader.ts';
import {
  findOffset,
  formatSealedName,
  LineCursor,
  listSealed,
  readLastLine,
  readSeq,
} from './segments.ts';

test('the cursor returns the lines that splitting returns, for any chunk size', (t) => {
  const file = makeDir(t);
  const text = fc.array(fc.constantFrom('a', 'é', '\n', '\n\n', 'xyz', '\0'), { maxLength: 60 });
  fc.assert(
    fc.property(text, fc.integer({ min: 1, max: 9 }), (parts, chunkBytes) => {
      fs.writeFileSync(file, parts.join(''));
      const expected = parts.join('').split('\n');
      const rest = expected.pop();
      withFile(file, (fd) => {
        const cursor = new LineCursor(fd, { chunkBytes });
        let offset = 0;
        for (const line of expected) {
          assert.ok(cursor.next() && cursor.isTerminated);
          assert.equal(cursor.line(), line);
          assert.equal(cursor.offset, offset);
          offset += Buffer.byteLength(line) + 1;
        }
        if (rest !== '') {
          assert.ok(cursor.next() && !cursor.isTerminated);
          assert.equal(cursor.line(), rest);
        }
        assert.ok(!cursor.next());
      });
    }),
    { numRuns: 300 },
  );
});

test('a partial line is read again once the file grew', (t) => {
  const file = makeDir(t);
  fs.writeFileSync(file, 'one\ntw');
  withFile(file, (fd) => {
    const cursor = new LineCursor(fd);
    assert.ok(cursor.next() && cursor.next() && !cursor.isTerminated);
    fs.appendFileSync(file, 'o\n');
    cursor.unread();
    assert.ok(cursor.next() && cursor.isTerminated);
    assert.equal(cursor.line(), 'two');
  });
});

test('every line is found by its seq, among short and very long lines', (t) => {
  const file = makeDir(t);
  const first = 995;
  const lines = Array.from({ length: 900 }, (_, i) => {
    const fill = 'x'.repeat(i % 97 === 0 ? 200_000 : (i * 7) % 300);
    return `{"seq":${first + i},"id":"${fill}"}\n`;
  });
  fs.writeFileSync(file, lines.join(''));
  const sizeBytes = fs.statSync(file).size;
  withFile(file, (fd) => {
    let offset = 0;
    for (const [i, line] of lines.entries()) {
      assert.equal(findOffset(fd, sizeBytes, first + i), offset);
      offset += line.length;
    }
    assert.equal(findOffset(fd, sizeBytes, first - 1), -1);
    assert.equal(findOffset(fd, sizeBytes, first + lines.length), -1);
    assert.equal(findOffset(fd, sizeBytes - 1, first + lines.length - 1), -1);
    const last = { seq: first + lines.length - 1, endOffset: sizeBytes };
    assert.deepEqual(readLastLine(fd, sizeBytes), last);
    const before = { seq: last.seq - 1, endOffset: sizeBytes - lines.at(-1)!.length };
    assert.deepEqual(readLastLine(fd, sizeBytes - 1), before);
  });
});

test('only a plain number at the beginning of the object is a seq', () => {
  const seqOf = (line: string): number => readSeq(Buffer.from(line), 0, Buffer.byteLength(line));
  assert.equal(seqOf('{"seq":0,"id":"a"}'), 0);
  assert.equal(seqOf('{"seq":120}'), 120);
  for (const line of [
    '',
    '{"seq":',
    '{"seq":}',
    '{"seq":01,"a":1}',
    '{"seq":-1,"a":1}',
    '{"seq":1.5,"a":1}',
    '{"seq":1e3,"a":1}',
    '{"seq":99999999999999999999,"a":1}',
    '{"seq":12',
    '{ "seq":1}',
    '{"id":"a","seq":1}',
  ]) {
    assert.equal(seqOf(line), -1, line);
  }
});

test('sealed segments are listed by their first seq, and nothing else is', (t) => {
  const dir = makeDir(t);
  fs.mkdirSync(dir);
  for (const name of [
    'audit-000000000100.jsonl',
    formatSealedName(0),
    'audit.jsonl',
    'audit-1.jsonl',
  ]) {
    fs.writeFileSync(`${dir}/${name}`, '');
  }
  assert.deepEqual(
    listSealed(dir).map(({ firstSeq }) => firstSeq),
    [0, 100],
  );
});
