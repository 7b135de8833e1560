// Tests recovery from hand-made crash states: the log opens with every acknowledged event or is
// refused with the reason.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import {
  bodies,
  body,
  copyDir,
  formatLine,
  isFault,
  makeDir,
  open,
  readLines,
  segmentPath,
  writeLines,
  writeLog,
} from './fixture.ts';
import { verifyLog } from './verify.ts';

const expected = (count: number): string[] =>
  Array.from({ length: count }, (_, n) => formatLine(n));

test('a write truncated at any byte: whole lines stay, the partial line is moved to recovered/', async (t) => {
  const dir = makeDir(t);
  const log = await open(dir);
  await log.append(bodies(0, 10));
  await log.signNow();
  await log.append(bodies(10, 3));
  // The tree files as they are before the last group is acknowledged.
  const before = copyDir(t, dir);
  await log.append(bodies(13, 4));
  const whole = fs.readFileSync(segmentPath(dir));
  await log.close();
  const start = fs.statSync(segmentPath(before)).size;
  for (let length = start; length <= whole.length; length += 1) {
    const copy = copyDir(t, before);
    fs.writeFileSync(segmentPath(copy), whole.subarray(0, length));
    const torn = whole.subarray(whole.lastIndexOf(10, length - 1) + 1, length);
    const kept =
      whole
        .subarray(0, length - torn.length)
        .toString()
        .split('\n').length - 1;
    const again = await open(copy);
    assert.equal(again.size, kept);
    assert.equal(again.checkpoint.size, kept);
    if (torn.length === 0) {
      assert.equal(again.cut, undefined);
    } else {
      assert.equal(again.cut?.seq, kept);
      assert.deepEqual(fs.readFileSync(again.cut!.file), torn);
    }
    await again.append([body(kept)]);
    assert.deepEqual(again.readRange(0, 100), expected(kept + 1));
    await again.close();
    const report = await verifyLog({ dir: copy });
    assert.deepEqual(report.problems, []);
    fs.rmSync(copy, { recursive: true });
  }
});

test('a log shorter than its checkpoint is not opened, wherever it was truncated', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 3);
  const whole = fs.readFileSync(segmentPath(dir));
  for (let length = 0; length < whole.length; length += 37) {
    const copy = copyDir(t, dir);
    fs.truncateSync(segmentPath(copy), length);
    await assert.rejects(open(copy), isFault('log_damaged', 'truncated'));
    assert.equal(fs.statSync(segmentPath(copy)).size, length);
    assert.ok(!fs.existsSync(`${copy}/recovered`));
  }
});

test('missing acknowledged events are detected even if they were not signed yet', async (t) => {
  const dir = makeDir(t);
  const log = await open(dir);
  await log.append(bodies(0, 10));
  await log.signNow();
  await log.append(bodies(10, 5));
  const copy = copyDir(t, dir);
  await log.close();
  const whole = fs.readFileSync(segmentPath(copy));
  fs.truncateSync(segmentPath(copy), whole.length - 10);
  await assert.rejects(open(copy), isFault('log_damaged', 'truncated'));
});

test('blocks that never reached the disk are truncated, with all that follows them', async (t) => {
  const dir = makeDir(t);
  const log = await open(dir);
  await log.append(bodies(0, 10));
  const copy = copyDir(t, dir);
  await log.close();
  const tail = `${formatLine(10)}\n{"seq":11,"id":"${'\0'.repeat(50)}"}\n${formatLine(12)}\n`;
  fs.appendFileSync(segmentPath(copy), tail);
  const again = await open(copy);
  assert.equal(again.size, 11);
  assert.equal(again.cut?.sizeBytes, tail.length - formatLine(10).length - 1);
  await again.close();
});

test('a changed unsigned line is not mistaken for a crash', async (t) => {
  const dir = makeDir(t);
  const log = await open(dir);
  await log.append(bodies(0, 10));
  const copy = copyDir(t, dir);
  await log.close();
  writeLines(segmentPath(copy), readLines(segmentPath(copy)).with(4, '{"seq":4,"id":"evt_4'));
  await assert.rejects(open(copy), isFault('log_damaged', 'changed'));
});

test('tree files that are missing, short, long or wrong are rebuilt', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 3, { segmentBytesMax: 1_000 });
  const harms: ((tree: string) => void)[] = [
    (tree) => fs.rmSync(tree, { recursive: true }),
    (tree) => fs.rmSync(`${tree}/L00`),
    (tree) => fs.rmSync(`${tree}/L02`),
    (tree) => fs.truncateSync(`${tree}/L00`, 5 * 32),
    (tree) => fs.truncateSync(`${tree}/L01`, 31),
    (tree) => fs.appendFileSync(`${tree}/L00`, Buffer.alloc(77, 1)),
    (tree) => fs.writeFileSync(`${tree}/L04`, Buffer.alloc(32, 1)),
    (tree) => fs.writeFileSync(`${tree}/L01`, Buffer.alloc(15 * 32)),
  ];
  const good = fs.readFileSync(`${dir}/tree/L00`);
  for (const [index, harm] of harms.entries()) {
    const copy = copyDir(t, dir);
    harm(`${copy}/tree`);
    const log = await open(copy);
    assert.equal(log.size, 30, `harm ${index}`);
    assert.equal(log.proveInclusion(7, 30).length, 5);
    await log.append([body(30)]);
    await log.close();
    assert.deepEqual(fs.readFileSync(`${copy}/tree/L00`).subarray(0, good.length), good);
    assert.ok((await verifyLog({ dir: copy })).ok, `harm ${index}`);
  }
});

test('wrong tree files hide no changed event, and are kept as evidence of which it was', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 3);
  fs.truncateSync(`${dir}/tree/L03`, 0);
  const lines = readLines(segmentPath(dir));
  writeLines(segmentPath(dir), lines.with(7, lines[7]!.replace('task', 'tusk')));
  await assert.rejects(open(dir), isFault('log_damaged', 'root_differs'));
  const { problems } = await verifyLog({ dir });
  assert.deepEqual(
    problems.map(({ kind, seq }) => [kind, seq]),
    [['changed', 7]],
  );
});

test('a crash while a segment is sealed', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 3, { segmentBytesMax: 1_000 });
  const sealed = segmentPath(dir, 'audit-000000000020.jsonl');
  fs.renameSync(segmentPath(dir), sealed);
  fs.writeFileSync(segmentPath(dir, 'audit.jsonl.next'), '');
  const log = await open(dir);
  assert.equal(log.size, 30);
  assert.equal(fs.statSync(sealed).mode & 0o777, 0o440);
  await log.append(bodies(30, 1));
  await log.close();
  assert.ok(!fs.existsSync(segmentPath(dir, 'audit.jsonl.next')));
  assert.ok((await verifyLog({ dir })).ok);
});

test('a missing segment is named', async (t) => {
  for (const name of ['audit-000000000000.jsonl', 'audit-000000000010.jsonl']) {
    const dir = makeDir(t);
    await writeLog(dir, 4, { segmentBytesMax: 1_000 });
    fs.rmSync(segmentPath(dir, name));
    await assert.rejects(open(dir), isFault('log_damaged', 'segment_missing'));
  }
  const dir = makeDir(t);
  await writeLog(dir, 4, { segmentBytesMax: 1_000 });
  fs.rmSync(segmentPath(dir));
  await assert.rejects(open(dir), isFault('log_damaged', 'truncated'));
});

test('a checkpoint that is missing, changed or older than the history is refused', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 3);
  const old = fs.readFileSync(`${dir}/checkpoint`, 'utf8');
  const harms: [string, (copy: string) => void][] = [
    ['no_checkpoint', (copy) => fs.rmSync(`${copy}/checkpoint`)],
    [
      'bad_signature',
      (copy) => fs.writeFileSync(`${copy}/checkpoint`, old.replace('\n30\n', '\n29\n')),
    ],
    ['bad_signature', (copy) => fs.writeFileSync(`${copy}/checkpoint`, 'nonsense')],
    [
      'truncated',
      (copy) => {
        const archive = fs.readFileSync(`${copy}/checkpoints.log`, 'utf8');
        fs.writeFileSync(
          `${copy}/checkpoint`,
          `${archive.split('\n\n').slice(0, 2).join('\n\n')}\n`,
        );
      },
    ],
  ];
  for (const [kind, harm] of harms) {
    const copy = copyDir(t, dir);
    harm(copy);
    await assert.rejects(open(copy), isFault('log_damaged', kind));
  }
});

test('a partial note at the end of the history is not joined to the next', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 3);
  for (const half of ['test.example/audit\n30\n', 'test.example/audit\n30\nAAAA\n\n', '— a']) {
    const copy = copyDir(t, dir);
    fs.appendFileSync(`${copy}/checkpoints.log`, half);
    const report = await verifyLog({ dir: copy });
    assert.ok(report.ok);
    assert.equal(report.remarks.length, 1);
    const log = await open(copy);
    await log.append([body(30)]);
    await log.close();
    const after = await verifyLog({ dir: copy });
    assert.deepEqual([after.ok, after.remarks], [true, []]);
    assert.equal(after.checkpoints_checked, report.checkpoints_checked + 1);
  }
});
