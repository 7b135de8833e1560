// Tests verification that continues where the last one ended: it finds what a verification of
// everything finds, except changes to events it does not hash again, which its report admits.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import {
  addEvents,
  bodies,
  copyDir,
  editLines,
  formatLine,
  listKinds,
  makeDir,
  open,
  readLines,
  segmentPath,
  writeLines,
  writeLog,
} from './fixture.ts';
import type { AuditLog } from './log.ts';
import { listSealed } from './segments.ts';
import { readVerified, VERIFIED_FILE, writeVerified } from './verified-file.ts';
import { verifyLog } from './verify.ts';
import { verifyOwnLog } from './verify-own.ts';
import type { VerifyReport } from './verify-report.ts';

const SEALING = { segmentBytesMax: 2_000 };

/** Verifies as agentctl does: a good result is remembered. */
async function verify(dir: string, { isFull = false, nowMs = 0 } = {}): Promise<VerifyReport> {
  const { report, verified } = await verifyOwnLog({ dir, isFull, nowMs });
  if (verified !== undefined) writeVerified(dir, verified);
  return report;
}

async function writeVerifiedLog(t: TestContext): Promise<string> {
  const dir = makeDir(t);
  await writeLog(dir, 6, SEALING);
  assert.ok((await verify(dir)).ok);
  return dir;
}

test('the first verification hashes everything, the next only newer events', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 6, SEALING);
  const first = await verify(dir, { nowMs: 1_000 });
  assert.deepEqual([first.ok, first.hashed, first.verified_earlier], [true, 60, null]);
  const again = await verify(dir, { nowMs: 2_000 });
  const at = '1970-01-01T00:00:01.000Z';
  assert.deepEqual([again.ok, again.hashed, again.size], [true, 0, 60]);
  assert.deepEqual(again.verified_earlier, { events: 60, at, full_at: at });
  await addEvents(dir, 25, SEALING);
  const later = await verify(dir, { nowMs: 3_000 });
  assert.deepEqual([later.ok, later.hashed, later.size], [true, 25, 85]);
  assert.deepEqual(later.verified_earlier, {
    events: 60,
    at: '1970-01-01T00:00:02.000Z',
    full_at: at,
  });
  const full = await verify(dir, { isFull: true, nowMs: 4_000 });
  assert.deepEqual([full.ok, full.hashed, full.verified_earlier], [true, 85, null]);
  assert.equal(full.root, later.root);
  assert.equal((await verify(dir)).verified_earlier?.full_at, '1970-01-01T00:00:04.000Z');
});

test('events that no checkpoint covers yet are hashed again', async (t) => {
  const dir = makeDir(t);
  const log = await open(dir);
  await log.append(bodies(0, 20));
  await log.signNow();
  await log.append(bodies(20, 5));
  for (const hashed of [25, 5, 5]) assert.equal((await verify(dir)).hashed, hashed);
  await log.close();
  assert.deepEqual([(await verify(dir)).hashed, (await verify(dir)).hashed], [5, 0]);
});

const steps = fc.array(fc.constantFrom('append', 'sign', 'rotate', 'reopen', 'verify'), {
  minLength: 4,
  maxLength: 30,
});

test('after any sequence of steps it agrees with a full verification', async (t) => {
  await fc.assert(
    fc.asyncProperty(steps, async (list) => {
      const dir = makeDir(t);
      let log: AuditLog = await open(dir, SEALING);
      for (const step of [...list, 'verify']) {
        if (step === 'append') await log.append(bodies(log.size, 7));
        if (step === 'sign') await log.signNow();
        if (step === 'rotate') await log.rotateKey();
        if (step === 'reopen') {
          await log.close();
          log = await open(dir, SEALING);
        }
        if (step !== 'verify') continue;
        const report = await verify(dir);
        const { ok, root, keys, signed_size } = await verifyLog({ dir });
        assert.deepEqual(report.problems, []);
        assert.deepEqual(report.remarks, []);
        assert.deepEqual(
          [report.ok, report.root, report.keys, report.signed_size],
          [ok, root, keys, signed_size],
        );
      }
      await log.close();
      fs.rmSync(dir, { recursive: true });
    }),
    { numRuns: 40 },
  );
});

test('a change after the verified part is found and named', async (t) => {
  const dir = await writeVerifiedLog(t);
  await addEvents(dir, 20, SEALING);
  const lines = readLines(segmentPath(dir));
  const seq = 78;
  const at = lines.findIndex((line) => line.startsWith(`{"seq":${seq},`));
  writeLines(segmentPath(dir), lines.with(at, formatLine(seq).replace('task', 'tusk')));
  const report = await verify(dir);
  assert.deepEqual(listKinds(report), [['changed', seq]]);
  assert.deepEqual([report.hashed, report.verified_earlier], [80, null], 'all of it, to name it');
  assert.match(report.remarks[0]!, /^Everything was hashed: /);
});

test('a sealed segment that was edited, moved or replaced is not trusted', async (t) => {
  const dir = await writeVerifiedLog(t);
  const [, second] = listSealed(dir);
  const text = fs.readFileSync(second!.path, 'utf8');
  fs.chmodSync(second!.path, 0o640);
  fs.writeFileSync(second!.path, text.replace('task', 'tusk'));
  const edited = await verify(dir);
  assert.deepEqual(listKinds(edited), [['changed', second!.firstSeq]]);
  assert.match(edited.remarks[0]!, new RegExp(`${second!.name} changed since it was verified`));
  fs.rmSync(second!.path);
  const missing = await verify(dir);
  assert.deepEqual(listKinds(missing), [['removed', second!.firstSeq]]);
  assert.match(missing.remarks[0]!, /is missing/);
  fs.writeFileSync(second!.path, text);
  const restored = await verify(dir);
  assert.deepEqual([restored.ok, restored.hashed], [true, 60], 'whole again, and hashed again');
  assert.equal((await verify(dir)).hashed, 0);
});

test('an edit in the verified part of the segment in use is found only with --full', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 6);
  await verify(dir);
  const lines = readLines(segmentPath(dir));
  writeLines(segmentPath(dir), lines.with(3, lines[3]!.replace('task', 'tusk')));
  assert.ok((await verify(dir)).ok);
  assert.deepEqual(listKinds(await verify(dir, { isFull: true })), [['changed', 3]]);
});

test('a log truncated before a verified checkpoint, with all evidence removed, is found', async (t) => {
  const dir = makeDir(t);
  const log = await open(dir);
  await log.append(bodies(0, 40));
  await log.signNow();
  const older = copyDir(t, dir);
  await log.append(bodies(40, 20));
  await log.close();
  await verify(dir);
  fs.copyFileSync(`${dir}/${VERIFIED_FILE}`, `${older}/${VERIFIED_FILE}`);
  for (const isFull of [false, true])
    assert.deepEqual(listKinds(await verify(older, { isFull })), [['truncated', 40]]);
  fs.rmSync(`${older}/${VERIFIED_FILE}`);
  assert.ok((await verify(older)).ok, 'without the file it looks whole');
});

test("another directory's file does not shorten the verification of a copy", async (t) => {
  const dir = await writeVerifiedLog(t);
  const copy = copyDir(t, dir);
  editLines(copy, (lines) => lines.with(3, formatLine(3).replace('task', 'tusk')));
  assert.deepEqual(listKinds(await verify(copy)), [['changed', 3]]);
});

test('a file that cannot be used is named, and everything is hashed', async (t) => {
  const dir = await writeVerifiedLog(t);
  const file = `${dir}/${VERIFIED_FILE}`;
  const verified = readVerified(dir)!;
  const hashes = verified.range.hashes.toReversed();
  for (const text of [
    'nonsense',
    'null',
    '{}',
    JSON.stringify({ ...verified, format: 2 }),
    JSON.stringify({ ...verified, note: 'x' }),
    JSON.stringify({ ...verified, range: { ...verified.range, hashes } }),
    JSON.stringify({ ...verified, position: { first: 0 } }),
    JSON.stringify({ ...verified, earlier_segments: undefined }),
  ]) {
    fs.writeFileSync(file, text);
    const report = await verify(dir);
    assert.deepEqual([report.ok, report.hashed], [true, 60], text);
    assert.match(report.remarks[0]!, /^verified\.json was not used: /);
    assert.equal((await verify(dir)).hashed, 0, 'and replaced');
  }
  fs.writeFileSync(file, JSON.stringify({ ...verified, keys: [] }));
  assert.equal((await verify(dir)).hashed, 60);
});

test('a checkpoint in it that this log never signed is a problem', async (t) => {
  const dir = await writeVerifiedLog(t);
  const other = await writeVerifiedLog(t);
  fs.copyFileSync(`${other}/${VERIFIED_FILE}`, `${dir}/${VERIFIED_FILE}`);
  assert.deepEqual(listKinds(await verify(dir)), [['bad_signature', null]]);
});

test('a link under its name is replaced, not followed', async (t) => {
  const dir = await writeVerifiedLog(t);
  const file = `${dir}/${VERIFIED_FILE}`;
  const verified = readVerified(dir)!;
  const target = `${makeDir(t)}-target`;
  fs.writeFileSync(target, 'kept');
  fs.rmSync(file);
  fs.symlinkSync(target, file);
  writeVerified(dir, verified);
  assert.equal(fs.readFileSync(target, 'utf8'), 'kept');
  assert.ok(fs.lstatSync(file).isFile());
  fs.rmSync(target);
});

test('a log in use is verified repeatedly while it is written and sealed', async (t) => {
  const dir = makeDir(t);
  const log = await open(dir, { segmentBytesMax: 20_000 });
  await log.append(bodies(0, 500));
  await log.signNow();
  let isWriting = true;
  const writing = (async () => {
    while (isWriting) {
      await log.append(bodies(log.size, 20));
      if (log.size % 3 === 0) await log.signNow();
    }
  })();
  let earlier = 0;
  for (let n = 0; n < 20; n += 1) {
    const report = await verify(dir);
    assert.deepEqual([report.problems, report.remarks], [[], []]);
    if (n > 0) assert.ok(report.verified_earlier!.events >= earlier);
    earlier = report.verified_earlier?.events ?? 0;
  }
  isWriting = false;
  await writing;
  await log.close();
});
