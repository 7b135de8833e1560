// Tests the log on a full or broken disk: only durable events are acknowledged, and it recovers.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import {
  bodies,
  body,
  formatLine,
  isFault,
  makeDir,
  makeManualClock,
  makeOsError,
  makeTestDisk,
  open,
  readLines,
  segmentPath,
} from './fixture.ts';
import { verifyLog } from './verify.ts';

const expected = (count: number): string[] =>
  Array.from({ length: count }, (_, n) => formatLine(n));

for (const [code, fault] of [
  ['ENOSPC', 'storage_full'],
  ['EDQUOT', 'storage_full'],
  ['EIO', 'storage_broken'],
] as const) {
  test(`${code} on write: the append fails as ${fault}, a later one works`, async (t) => {
    const dir = makeDir(t);
    const disk = makeTestDisk();
    const log = await open(dir, { disk });
    await log.append(bodies(0, 5));
    disk.failWrite = () => makeOsError(code);
    const failed = [log.append(bodies(5, 3)), log.append(bodies(8, 3))];
    for (const append of failed) await assert.rejects(append, isFault(fault));
    assert.deepEqual(readLines(segmentPath(dir)), expected(5));
    assert.equal(log.size, 5);
    disk.failWrite = () => undefined;
    assert.deepEqual(await log.append(bodies(5, 3)), { firstSeq: 5, size: 8 });
    assert.deepEqual(log.readRange(0, 100), expected(8));
    await log.close();
    assert.ok((await verifyLog({ dir })).ok);
  });
}

test('a failed sync undoes the write, since the kernel may have dropped its pages', async (t) => {
  const dir = makeDir(t);
  const disk = makeTestDisk();
  const log = await open(dir, { disk });
  await log.append(bodies(0, 5));
  disk.failSync = () => makeOsError('EIO');
  await assert.rejects(log.append(bodies(5, 3)), isFault('storage_broken'));
  assert.deepEqual(readLines(segmentPath(dir)), expected(5));
  disk.failSync = () => undefined;
  await log.append(bodies(5, 1));
  await log.close();
  assert.deepEqual(readLines(segmentPath(dir)), expected(6));
  assert.ok((await verifyLog({ dir })).ok);
});

test('leftover bytes of a failed write are truncated before the next write', async (t) => {
  const dir = makeDir(t);
  const disk = makeTestDisk();
  const log = await open(dir, { disk });
  await log.append(bodies(0, 5));
  disk.failWrite = () => makeOsError('ENOSPC');
  disk.failTruncate = () => makeOsError('EIO');
  await assert.rejects(log.append(bodies(5, 3)), isFault('storage_full'));
  assert.ok(fs.statSync(segmentPath(dir)).size > expected(5).join('\n').length + 1);
  disk.failWrite = () => undefined;
  await assert.rejects(log.append(bodies(5, 3)), isFault('storage_broken'));
  disk.failTruncate = () => undefined;
  await log.append(bodies(5, 1));
  await log.close();
  assert.deepEqual(readLines(segmentPath(dir)), expected(6));
  assert.ok((await verifyLog({ dir })).ok);
});

test('an event is kept when only the tree files fail, and none is accepted meanwhile', async (t) => {
  const dir = makeDir(t);
  const disk = makeTestDisk();
  const faults: unknown[] = [];
  const log = await open(dir, { disk, onFault: (problem) => faults.push(problem) });
  await log.append(bodies(0, 5));
  disk.failWrite = (_, position) => (position === null ? undefined : makeOsError('ENOSPC'));
  assert.deepEqual(await log.append(bodies(5, 2)), { firstSeq: 5, size: 7 });
  assert.equal(faults.length, 1);
  await assert.rejects(log.append(bodies(7, 1)), isFault('storage_full'));
  assert.equal(log.size, 7);
  assert.equal(log.proveInclusion(6, 7).length, 2);
  disk.failWrite = () => undefined;
  await log.append(bodies(7, 1));
  await log.close();
  assert.ok((await verifyLog({ dir })).ok);
  const again = await open(dir);
  assert.deepEqual(again.readRange(0, 100), expected(8));
  await again.close();
});

test('a checkpoint that cannot be written is reported and retried', async (t) => {
  const dir = makeDir(t);
  const disk = makeTestDisk();
  const clock = makeManualClock();
  const faults: unknown[] = [];
  const onFault = (problem: unknown): void => void faults.push(problem);
  const log = await open(dir, { disk, clock, onFault });
  await log.append(bodies(0, 5));
  disk.failWrite = () => makeOsError('ENOSPC');
  clock.advance(1_000);
  assert.equal(faults.length, 1);
  assert.ok(isFault('storage_full')(faults[0]));
  await assert.rejects(log.signNow(), isFault('storage_full'));
  assert.equal(log.checkpoint.size, 0);
  disk.failWrite = () => undefined;
  clock.advance(1_000);
  assert.equal(log.checkpoint.size, 5);
  await log.close();
  assert.ok((await verifyLog({ dir })).ok);
});

test('a log on a full disk can be opened and read, and continues when there is space', async (t) => {
  const dir = makeDir(t);
  const log = await open(dir);
  await log.append(bodies(0, 5));
  const copy = makeDir(t);
  fs.cpSync(dir, copy, { recursive: true });
  await log.close();
  const disk = makeTestDisk();
  disk.failWrite = () => makeOsError('ENOSPC');
  const full = await open(copy, { disk });
  assert.deepEqual(full.readRange(0, 100), expected(5));
  await assert.rejects(full.append([body(5)]), isFault('storage_full'));
  disk.failWrite = () => undefined;
  await full.append([body(5)]);
  await full.close();
  assert.deepEqual(readLines(segmentPath(copy)), expected(6));
  assert.ok((await verifyLog({ dir: copy })).ok);
});

test('sealing on a full disk fails the append and loses nothing', async (t) => {
  const dir = makeDir(t);
  const disk = makeTestDisk();
  const log = await open(dir, { disk, segmentBytesMax: 1_000 });
  await log.append(bodies(0, 9));
  disk.failWrite = (bytes) => (bytes.includes('test.example') ? makeOsError('ENOSPC') : undefined);
  await assert.rejects(log.append(bodies(9, 9)), isFault('storage_full'));
  disk.failWrite = () => undefined;
  await log.append(bodies(9, 9));
  await log.close();
  assert.ok(fs.existsSync(segmentPath(dir, 'audit-000000000000.jsonl')));
  const { ok, size } = await verifyLog({ dir });
  assert.deepEqual({ ok, size }, { ok: true, size: 18 });
});

test('a file that another process wrote to, truncated or removed accepts no more events', async (t) => {
  for (const harm of [
    (file: string) => fs.appendFileSync(file, 'stray\n'),
    (file: string) => fs.truncateSync(file, 10),
    (file: string) => fs.rmSync(file),
  ]) {
    const dir = makeDir(t);
    const log = await open(dir);
    await log.append(bodies(0, 5));
    harm(segmentPath(dir));
    await assert.rejects(log.append(bodies(5, 1)), (problem) => {
      assert.match(String((problem as { code?: string }).code), /^(log_damaged|storage_broken)$/);
      return true;
    });
    assert.equal(log.size, 5);
    await log.close();
  }
});
