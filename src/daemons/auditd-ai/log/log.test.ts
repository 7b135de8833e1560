// Tests the log without faults: appended events are durable, in order, signed and provable.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import fc from 'fast-check';
import { CompactRange } from './compact-range.ts';
import {
  bodies,
  body,
  formatLine,
  isFault,
  makeDir,
  makeManualClock,
  makeTestDisk,
  ORIGIN,
  open,
  readLines,
  segmentPath,
} from './fixture.ts';
import { checkConsistency, checkInclusion, hashLeaf, toRaw } from './merkle.ts';
import { checkNote, parseCheckpoint, parseNote, parseVkey } from './note.ts';
import { verifyLog } from './verify.ts';

function rootOf(lines: readonly string[]): Buffer {
  const edge = new CompactRange();
  for (const line of lines) edge.add(toRaw(hashLeaf(Buffer.from(line))));
  return edge.root();
}

test('appended events get their seq in front and are one line each', async (t) => {
  const dir = makeDir(t);
  const log = await open(dir);
  assert.deepEqual(await log.append([body(0), body(1)]), { firstSeq: 0, size: 2 });
  assert.deepEqual(await log.append([body(2, { text: 'ünï – 🙂 \u2028' })]), {
    firstSeq: 2,
    size: 3,
  });
  assert.deepEqual(await log.append([]), { firstSeq: 3, size: 3 });
  const lines = readLines(segmentPath(dir));
  assert.deepEqual(lines.slice(0, 2), [formatLine(0), formatLine(1)]);
  assert.deepEqual(Object.keys(JSON.parse(lines[2]!))[0], 'seq');
  assert.deepEqual(log.readRange(0, 10), lines);
  assert.deepEqual(log.root, rootOf(lines));
  await log.close();
});

test('appends that are queued together share one write and one sync, and keep their order', async (t) => {
  const disk = makeTestDisk();
  const log = await open(makeDir(t), { disk });
  const before = disk.syncs;
  const all = Array.from({ length: 200 }, (_, i) => log.append(bodies(i * 3, 3)));
  const answers = await Promise.all(all);
  assert.equal(disk.syncs - before, 1);
  answers.forEach((answer, i) => {
    assert.deepEqual(answer, { firstSeq: i * 3, size: i * 3 + 3 });
  });
  assert.deepEqual(
    log.readRange(0, 600),
    Array.from({ length: 600 }, (_, seq) => formatLine(seq)),
  );
  await log.close();
});

test('an append resolves only after the sync', async (t) => {
  const disk = makeTestDisk();
  const dir = makeDir(t);
  const log = await open(dir, { disk });
  let bytesAtSync = -1;
  disk.failSync = () => {
    if (bytesAtSync < 0) bytesAtSync = fs.statSync(segmentPath(dir)).size;
    return undefined;
  };
  await log.append([body(0)]);
  assert.equal(bytesAtSync, formatLine(0).length + 1);
  await log.close();
});

test('anything but a JSON object on one line is refused with its whole append', async (t) => {
  const log = await open(makeDir(t), { lineBytesMax: 200 });
  for (const bad of ['', '[]', '{}', 'null', '{"a":1}\n', '{"a":\n1}', ' {"a":1}']) {
    await assert.rejects(log.append([body(0), bad]), isFault('bad_request'), bad);
  }
  await assert.rejects(log.append([body(0, { t: 'x'.repeat(200) })]), isFault('too_large'));
  const forged = JSON.stringify({ id: 'audit.key_rotated:1', event: 'audit.key_rotated' });
  await assert.rejects(log.append([forged]), isFault('bad_request'));
  assert.equal(log.size, 0);
  await log.close();
});

test('the queue is bounded, and accepts appends again once it has space', async (t) => {
  const log = await open(makeDir(t), { queueBytesMax: 1_000 });
  const taken = log.append(bodies(0, 10));
  await assert.rejects(log.append(bodies(10, 10)), isFault('overloaded'));
  await taken;
  assert.equal((await log.append(bodies(10, 10))).size, 20);
  await log.close();
});

test('segments are sealed at the limit, named by their first seq, and read as one', async (t) => {
  const dir = makeDir(t);
  let log = await open(dir, { segmentBytesMax: 1_000 });
  for (let n = 0; n < 60; n += 1) await log.append([body(n)]);
  const names = fs.readdirSync(dir).filter((name) => name.endsWith('.jsonl'));
  assert.ok(names.length > 4);
  for (const name of names) {
    const file = segmentPath(dir, name);
    assert.ok(fs.statSync(file).size <= 1_000);
    const sealed = /^audit-(\d{12})\.jsonl$/.exec(name);
    if (sealed === null) continue;
    assert.equal(fs.statSync(file).mode & 0o777, 0o440);
    assert.equal(JSON.parse(readLines(file)[0]!).seq, Number(sealed[1]));
  }
  const all = Array.from({ length: 60 }, (_, seq) => formatLine(seq));
  for (const isReopened of [false, true]) {
    if (isReopened) log = await open(dir, { segmentBytesMax: 1_000 });
    assert.deepEqual(log.readRange(0, 100), all);
    for (let from = 0; from < 62; from += 1) {
      assert.deepEqual(log.readRange(from, 7), all.slice(from, from + 7));
    }
    const scanned: string[] = [];
    for await (const batch of log.scan(5)) scanned.push(...batch);
    assert.deepEqual(scanned, all.slice(5));
    await log.close();
  }
});

test('random batches: lines, roots and proofs are those of a plain list', async (t) => {
  const sizes = fc.array(fc.integer({ min: 0, max: 12 }), { minLength: 1, maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(sizes, fc.nat(), fc.nat(), async (batches, a, b) => {
      const dir = makeDir(t);
      const model: string[] = [];
      let log = await open(dir, { segmentBytesMax: 700 });
      for (const [i, count] of batches.entries()) {
        await log.append(bodies(model.length, count));
        for (let n = 0; n < count; n += 1) model.push(formatLine(model.length));
        if (i % 4 !== 3) continue;
        await log.close();
        log = await open(dir, { segmentBytesMax: 700 });
      }
      assert.equal(log.size, model.length);
      assert.deepEqual(log.root, rootOf(model));
      if (model.length > 0) {
        const size2 = 1 + (a % model.length);
        const size1 = 1 + (b % size2);
        const index = b % size2;
        const [root1, root2] = [log.rootAt(size1), log.rootAt(size2)];
        assert.deepEqual(root2, rootOf(model.slice(0, size2)));
        const hashes = log.proveInclusion(index, size2);
        const leaf = hashLeaf(Buffer.from(model[index]!));
        assert.ok(checkInclusion({ leaf, index, size: size2, hashes, root: root2 }));
        const steps = log.proveConsistency(size1, size2);
        assert.ok(checkConsistency({ size1, root1, size2, root2, hashes: steps }));
      }
      await log.close();
      const { ok, size, problems } = await verifyLog({ dir });
      assert.deepEqual({ ok, size, problems }, { ok: true, size: model.length, problems: [] });
    }),
    { numRuns: 25 },
  );
});

test('a log that grew is signed in time, and one that did not is left alone', async (t) => {
  const dir = makeDir(t);
  const clock = makeManualClock();
  const log = await open(dir, { clock, checkpointEveryMs: 1_000 });
  const read = () => {
    const note = parseNote(fs.readFileSync(`${dir}/checkpoint`, 'utf8'));
    assert.equal(checkNote(note, [parseVkey(log.vkey)]).valid.length, 1);
    return parseCheckpoint(note.text);
  };
  assert.equal(read().size, 0);
  await log.append(bodies(0, 5));
  clock.advance(999);
  assert.equal(read().size, 0);
  clock.advance(1);
  assert.deepEqual(read(), { origin: ORIGIN, size: 5, root: log.root });
  const { mtimeMs } = fs.statSync(`${dir}/checkpoint`);
  clock.advance(100_000);
  assert.equal(fs.statSync(`${dir}/checkpoint`).mtimeMs, mtimeMs);
  await log.append(bodies(5, 1));
  assert.equal((await log.signNow()).size, 6);
  assert.equal(read().size, 6);
  await log.append(bodies(6, 1));
  await log.close();
  assert.equal(read().size, 7);
});

test('replaced checkpoints are kept in the history: all requested ones, and some signed by the timer', async (t) => {
  const dir = makeDir(t);
  const clock = makeManualClock();
  const log = await open(dir, { clock, historyEveryMs: 10_000 });
  const older = (): number[] =>
    fs
      .readFileSync(`${dir}/checkpoints.log`, 'utf8')
      .split('\n')
      .flatMap((line) => (/^\d+$/.test(line) ? [Number(line)] : []));
  for (let n = 0; n < 5; n += 1) {
    await log.append([body(n)]);
    await log.signNow();
  }
  assert.deepEqual(older(), [0, 1, 2, 3, 4]);
  for (let n = 5; n < 30; n += 1) {
    await log.append([body(n)]);
    clock.advance(1_000);
  }
  assert.equal(older().length, 8);
  await log.close();
  assert.ok((await verifyLog({ dir })).ok);
});

test('a closed log refuses appends, and closing it twice is harmless', async (t) => {
  const log = await open(makeDir(t));
  const waiting = log.append([body(0)]);
  await Promise.all([log.close(), log.close()]);
  assert.deepEqual(await waiting, { firstSeq: 0, size: 1 });
  await assert.rejects(log.append([body(1)]), isFault('stopping'));
});

test('a log is opened under its own name only', async (t) => {
  const dir = makeDir(t);
  await (await open(dir)).close();
  await assert.rejects(open(dir, { origin: 'other.example/audit' }), isFault('bad_config'));
  await assert.rejects(open(makeDir(t), { origin: 'two words' }), isFault('bad_config'));
});

test('opening again does not hash signed events', async (t) => {
  const dir = makeDir(t);
  const log = await open(dir);
  await log.append(bodies(0, 100));
  await log.close();
  // Only hashing could notice this; that is left to verify, so that opening a large log is fast.
  const lines = readLines(segmentPath(dir));
  fs.writeFileSync(
    segmentPath(dir),
    `${lines.with(3, lines[3]!.replace('evt_', 'EVT_')).join('\n')}\n`,
  );
  const again = await open(dir);
  assert.equal(again.size, 100);
  await again.close();
  assert.ok(!(await verifyLog({ dir })).ok);
});

test('a held log is signed as it is, and appends wait for the end of the hold', async (t) => {
  const dir = makeDir(t);
  const log = await open(dir, { segmentBytesMax: 200 });
  await log.append(bodies(0, 5));
  const held = log.hold();
  const waiting = Promise.all([log.append([body(5)]), log.append([body(6)])]);
  const settled = await Promise.race([
    waiting.then(() => 'done'),
    new Promise((resolve) => setTimeout(resolve, 30, 'waits')),
  ]);
  assert.equal(settled, 'waits');
  assert.deepEqual([held.checkpoint.size, log.size], [5, 5]);
  const bytes = held.parts.map(({ name, sizeBytes }) =>
    fs.readFileSync(`${dir}/${name}`).subarray(0, sizeBytes),
  );
  const second = log.hold();
  held.release();
  second.release();
  assert.deepEqual((await waiting)[1], { firstSeq: 6, size: 7 });
  const lines = Buffer.concat(bytes).toString('utf8').trimEnd().split('\n');
  assert.deepEqual(rootOf(lines), held.checkpoint.root, 'the parts are what was signed');
  await log.close();
});
