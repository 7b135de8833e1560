// Tests the signing keys: secrecy, persistence, and rotations that a verifier can follow.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import {
  bodies,
  body,
  copyDir,
  isFault,
  makeDir,
  makeManualClock,
  makeOsError,
  makeTestDisk,
  open,
  writeLog,
} from './fixture.ts';
import { checkNote, parseNote, parseVkey } from './note.ts';
import { verifyLog } from './verify.ts';

test('the key is created once, readable by its owner only, and never replaced silently', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 1);
  const file = `${dir}/keys/signing.pem`;
  assert.equal(fs.statSync(file).mode & 0o777, 0o600);
  assert.equal(fs.statSync(`${dir}/keys`).mode & 0o777, 0o700);
  const pem = fs.readFileSync(file, 'utf8');
  await (await open(dir)).close();
  assert.equal(fs.readFileSync(file, 'utf8'), pem);
  fs.chmodSync(file, 0o640);
  await assert.rejects(open(dir), isFault('bad_config'));
  fs.rmSync(file);
  await assert.rejects(open(dir), isFault('storage_broken'));
  assert.ok((await verifyLog({ dir })).ok);
});

test('a rotation is an event with both keys under a checkpoint that both signed', async (t) => {
  const dir = makeDir(t);
  const log = await open(dir);
  await log.append(bodies(0, 3));
  const first = log.vkey;
  const { vkey, previous } = await log.rotateKey({ source: 'auditd-ai' });
  assert.equal(previous, first);
  assert.equal(log.vkey, vkey);
  assert.notEqual(vkey, first);
  assert.deepEqual(log.vkeys, [first, vkey]);
  const event = JSON.parse(log.readRange(3, 1)[0]!);
  assert.equal(event.event, 'audit.key_rotated');
  assert.equal(event.source, 'auditd-ai');
  assert.deepEqual(event.data, { old_key: first, new_key: vkey });
  const note = parseNote(log.checkpoint.note);
  assert.equal(log.checkpoint.size, 4);
  assert.equal(checkNote(note, [first, vkey].map(parseVkey)).valid.length, 2);
  await log.append(bodies(4, 2));
  const later = parseNote((await log.signNow()).note);
  assert.deepEqual(
    checkNote(later, [first, vkey].map(parseVkey)).valid.map((key) => key.vkey),
    [vkey],
  );
  await log.rotateKey();
  await log.append(bodies(7, 2));
  const keys = log.vkeys;
  await log.close();
  assert.equal(keys.length, 3);
  const report = await verifyLog({ dir });
  assert.deepEqual([report.ok, report.size, report.keys], [true, 9, keys]);
  for (const key of keys) assert.ok((await verifyLog({ dir, trustedKeys: [key] })).ok);
  const again = await open(dir);
  assert.equal(again.vkey, keys[2]);
  await again.close();
});

/** A log in the middle of a rotation, stopped after each step of it. */
async function stopDuringRotation(t: Parameters<typeof makeDir>[0]) {
  const dir = makeDir(t);
  const stops: { name: string; dir: string; isDone: boolean }[] = [];
  const stop = (name: string, isDone: boolean) =>
    stops.push({ name, dir: copyDir(t, dir), isDone });
  const disk = makeTestDisk();
  const log = await open(dir, { disk });
  await log.append(bodies(0, 3));
  await log.signNow();
  let step = 0;
  disk.failWrite = (bytes, position) => {
    const text = bytes.toString('latin1');
    if (text.includes('PRIVATE KEY')) stop('before the key is written', false);
    if (position === null && text.includes('key_rotated')) stop('before the event', false);
    if (text.startsWith('test.example/audit\n4\n')) stop('before the checkpoint', true);
    if (text.startsWith('test.example/audit+')) stop('before the key is published', true);
    step += 1;
    return undefined;
  };
  await log.rotateKey();
  stop('at the end', true);
  await log.close();
  assert.ok(step > 4);
  return stops;
}

test('a crash at any step leaves a rotation complete or undone', async (t) => {
  const stops = await stopDuringRotation(t);
  assert.deepEqual(
    stops.map(({ name }) => name),
    [
      'before the key is written',
      'before the event',
      'before the checkpoint',
      'before the key is published',
      'at the end',
    ],
  );
  for (const { name, dir, isDone } of stops) {
    const log = await open(dir);
    assert.equal(log.vkeys.length, isDone ? 2 : 1, name);
    assert.equal(log.vkey, log.vkeys.at(-1));
    await log.append([body(100)]);
    await log.rotateKey();
    await log.close();
    assert.ok(!fs.existsSync(`${dir}/keys/next.pem`));
    const { ok, problems } = await verifyLog({ dir });
    assert.deepEqual([ok, problems], [true, []], name);
  }
});

test('a rotation on a full disk continues when there is space', async (t) => {
  const dir = makeDir(t);
  const disk = makeTestDisk();
  const clock = makeManualClock();
  const log = await open(dir, { disk, clock });
  await log.append(bodies(0, 3));
  const first = log.vkey;
  const fails: ((text: string) => boolean)[] = [
    (text) => text.includes('PRIVATE KEY'),
    (text) => text.includes('key_rotated'),
    (text) => text.startsWith('test.example/audit\n4\n'),
  ];
  for (const fail of fails) {
    disk.failWrite = (bytes) =>
      fail(bytes.toString('latin1')) ? makeOsError('ENOSPC') : undefined;
    await assert.rejects(log.rotateKey(), isFault('storage_full'));
    assert.equal(log.vkey, first);
  }
  disk.failWrite = () => undefined;
  clock.advance(1_000);
  assert.notEqual(log.vkey, first);
  await log.append(bodies(4, 1));
  await log.close();
  const { ok, problems, keys } = await verifyLog({ dir });
  assert.deepEqual([ok, problems, keys.length], [true, [], 2]);
});

test('two rotations at once: one is refused', async (t) => {
  const log = await open(makeDir(t));
  const one = log.rotateKey();
  await assert.rejects(log.rotateKey(), isFault('conflict'));
  await one;
  assert.equal(log.size, 1);
  await log.close();
});
