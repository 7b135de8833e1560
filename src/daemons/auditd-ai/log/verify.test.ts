// Tests verification of changed logs: every change is found, classified and located.
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { CompactRange } from './compact-range.ts';
import {
  bodies,
  body,
  copyDir,
  editLines,
  formatLine,
  isFault,
  listKinds,
  makeDir,
  ORIGIN,
  open,
  readLines,
  segmentPath,
  writeLines,
  writeLog,
} from './fixture.ts';
import { hashLeaf, toRaw } from './merkle.ts';
import { formatCheckpoint, makeSigner, signNote } from './note.ts';
import { listSealed } from './segments.ts';
import { verifyLog } from './verify.ts';

const SIZE = 60;
test('an untouched log verifies, also as a copy without secrets', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 6, { segmentBytesMax: 2_000 });
  const copy = copyDir(t, dir);
  fs.rmSync(`${copy}/keys/signing.pem`);
  for (const at of [dir, copy]) {
    const report = await verifyLog({ dir: at });
    assert.deepEqual(report.problems, []);
    assert.deepEqual([report.ok, report.size, report.unsigned_tail], [true, SIZE, 0]);
    assert.equal(report.checkpoints_checked, 7);
    assert.equal(report.origin, ORIGIN);
  }
  const before = fs.readdirSync(copy, { recursive: true }).sort();
  fs.chmodSync(segmentPath(copy), 0o440);
  await verifyLog({ dir: copy });
  assert.deepEqual(fs.readdirSync(copy, { recursive: true }).sort(), before);
});

test('a problem is located by file and line', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 6, { segmentBytesMax: 2_000 });
  const second = listSealed(dir)[1]!;
  const lines = readLines(second.path);
  writeLines(second.path, lines.with(2, lines[2]!.replace('task', 'tusk')));
  const report = await verifyLog({ dir });
  const seq = second.firstSeq + 2;
  const message = `event ${seq} is not as it was signed (${second.name} line 3)`;
  assert.deepEqual(report.problems, [
    { kind: 'changed', seq, segment: second.name, line: 3, message },
  ]);
});

test('a truncated tail of any length is detected by the checkpoint', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 6);
  for (const length of [0, 1, 9, 10, 30, 59]) {
    for (const hasTree of [true, false]) {
      const copy = copyDir(t, dir);
      if (!hasTree) fs.rmSync(`${copy}/tree`, { recursive: true });
      editLines(copy, (lines) => lines.slice(0, length));
      const report = await verifyLog({ dir: copy });
      assert.deepEqual(listKinds(report), [['truncated', length]]);
      assert.equal(report.size, length);
    }
  }
});

test('a missing segment is found', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 6, { segmentBytesMax: 2_000 });
  const sealed = listSealed(dir);
  for (const { path: file, firstSeq } of sealed) {
    const copy = copyDir(t, dir);
    fs.rmSync(path.join(copy, path.basename(file)));
    assert.deepEqual(listKinds(await verifyLog({ dir: copy })), [['removed', firstSeq]]);
  }
  const copy = copyDir(t, dir);
  fs.rmSync(segmentPath(copy));
  const [problem] = (await verifyLog({ dir: copy })).problems;
  assert.equal(problem?.kind, 'truncated');
});

/** Resets the log to an earlier state, with everything that would reveal it. */
function rollBack(dir: string, size: number): void {
  const archive = fs.readFileSync(`${dir}/checkpoints.log`, 'utf8');
  const notes = archive.split(/\n\n(?!— )/).map((note) => `${note}\n`);
  const index = notes.findIndex((note) => note.includes(`\n${size}\n`));
  fs.writeFileSync(`${dir}/checkpoint`, notes[index]!);
  fs.writeFileSync(
    `${dir}/checkpoints.log`,
    notes
      .slice(0, index)
      .map((note) => `${note}\n`)
      .join(''),
  );
  editLines(dir, (lines) => lines.slice(0, size));
  fs.rmSync(`${dir}/tree`, { recursive: true });
}

test('a log reset to an older state is detected with a kept checkpoint', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 6);
  const kept = fs.readFileSync(`${dir}/checkpoint`, 'utf8');
  rollBack(dir, 40);
  assert.ok((await verifyLog({ dir })).ok);
  const report = await verifyLog({ dir, from: [kept] });
  assert.deepEqual(listKinds(report), [['truncated', 40]]);
});

test('a log rewritten with another key is detected with a kept checkpoint or key', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 6);
  const kept = fs.readFileSync(`${dir}/checkpoint`, 'utf8');
  const key = fs.readFileSync(`${dir}/keys/public.txt`, 'utf8').trim();
  const forged = makeDir(t);
  await writeLog(forged, 6);
  assert.ok((await verifyLog({ dir: forged })).ok);
  assert.deepEqual(listKinds(await verifyLog({ dir: forged, from: [kept] })), [
    ['bad_signature', null],
  ]);
  const byKey = await verifyLog({ dir: forged, trustedKeys: [key] });
  assert.deepEqual(listKinds(byKey), [['unknown_key', null]]);
  assert.ok((await verifyLog({ dir, from: [kept], trustedKeys: [key] })).ok);
});

test('a kept checkpoint that is malformed, changed or from another log is reported', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 2);
  const kept = fs.readFileSync(`${dir}/checkpoint`, 'utf8');
  const kindOf = async (from: string) => listKinds(await verifyLog({ dir, from: [from] }));
  assert.deepEqual(await kindOf(kept), []);
  assert.deepEqual(await kindOf('nonsense'), [['bad_checkpoint', null]]);
  assert.deepEqual(await kindOf(kept.replace('\n20\n', '\n19\n')), [['bad_signature', null]]);
  const other = kept.replace('test.example/audit\n', 'other.example/audit\n');
  assert.deepEqual(await kindOf(other), [['bad_checkpoint', null]]);
});

test('a changed signature, root or size in any checkpoint is found', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 6);
  for (const file of ['checkpoint', 'checkpoints.log']) {
    const text = fs.readFileSync(`${dir}/${file}`, 'utf8');
    const size = file === 'checkpoint' ? 60 : 30;
    const at = text.indexOf(`\n${size}\n`);
    for (const [what, change] of [
      ['size', text.slice(0, at) + text.slice(at).replace(`${size}`, `${size - 1}`)],
      ['root', text.slice(0, at + 6) + (text[at + 6] === 'A' ? 'B' : 'A') + text.slice(at + 7)],
      [
        'signature',
        text.slice(0, at + 90) + (text[at + 90] === 'A' ? 'B' : 'A') + text.slice(at + 91),
      ],
    ] as const) {
      const copy = copyDir(t, dir);
      fs.writeFileSync(`${copy}/${file}`, change);
      const report = await verifyLog({ dir: copy });
      assert.deepEqual(listKinds(report), [['bad_signature', null]], `${what} in ${file}`);
    }
  }
});

test('changing the tree files as well does not help', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 6);
  editLines(dir, (lines) => lines.with(33, formatLine(33).replace('task', 'tusk')));
  const leaves = fs.readFileSync(`${dir}/tree/L00`);
  hashLeaf(Buffer.from(readLines(segmentPath(dir))[33]!)).copy(leaves, 33 * 32);
  fs.writeFileSync(`${dir}/tree/L00`, leaves);
  const [problem, ...more] = (await verifyLog({ dir })).problems;
  assert.deepEqual([problem?.kind, problem?.seq, problem?.to_seq], ['changed', 30, 39]);
  assert.deepEqual(more, []);
});

/** A log whose last five events no checkpoint covers. */
async function writeUnsigned(t: TestContext): Promise<string> {
  const dir = makeDir(t);
  const log = await open(dir);
  await log.append(bodies(0, 20));
  await log.signNow();
  await log.append(bodies(20, 5));
  const copy = copyDir(t, dir);
  await log.close();
  return copy;
}

test('events after the last checkpoint are counted, and changes to them detected', async (t) => {
  const dir = await writeUnsigned(t);
  const report = await verifyLog({ dir });
  assert.deepEqual([report.ok, report.signed_size, report.unsigned_tail], [true, 20, 5]);
  const edits: [(lines: string[]) => string[], (string | number)[][]][] = [
    [(lines) => lines.with(22, formatLine(22).replace('task', 'tusk')), [['changed', 22]]],
    [(lines) => lines.toSpliced(22, 1), [['removed', 22]]],
    [(lines) => lines.with(22, lines[23]!).with(23, lines[22]!), [['reordered', 22]]],
  ];
  for (const [edit, expected] of edits) {
    const copy = copyDir(t, dir);
    editLines(copy, edit);
    const found = listKinds(await verifyLog({ dir: copy }));
    assert.equal(found.length, 1);
    assert.equal(found[0]![0], expected[0]![0]);
    assert.ok([22, 23].includes(found[0]![1] as number));
  }
  const cut = copyDir(t, dir);
  editLines(cut, (lines) => lines.slice(0, 23));
  const short = await verifyLog({ dir: cut });
  assert.match(short.remarks.join(), /knows 25 events and there are 23/);
});

test('a partial line at the end is torn, and torn inside the signed part is also truncated', async (t) => {
  const unsigned = await writeUnsigned(t);
  fs.appendFileSync(segmentPath(unsigned), '{"seq":25,"id":"e');
  const report = await verifyLog({ dir: unsigned });
  assert.deepEqual([listKinds(report), report.size], [[['torn', 25]], 25]);
  const dir = makeDir(t);
  await writeLog(dir, 2);
  fs.truncateSync(segmentPath(dir), fs.statSync(segmentPath(dir)).size - 5);
  assert.deepEqual(listKinds(await verifyLog({ dir })), [
    ['truncated', 19],
    ['torn', 19],
  ]);
});

test('a duplicate id is found, and so is a line without one', async (t) => {
  const dir = makeDir(t);
  const log = await open(dir);
  await log.append([...bodies(0, 5), body(3), '{"event":"task.created"}', body(6)]);
  await log.close();
  const report = await verifyLog({ dir });
  assert.deepEqual(listKinds(report), [
    ['duplicate_id', 5],
    ['malformed', 6],
  ]);
  assert.match(report.problems[0]!.message, /evt_3 of event 3/);
});

test('a caller cannot hide another seq in the event', async (t) => {
  const dir = makeDir(t);
  const log = await open(dir);
  await log.append([body(0), '{"id":"evt_1","seq":7}', body(2)]);
  await log.close();
  assert.ok(!(await verifyLog({ dir })).ok);
});

test("a new key without the old one's signature is not accepted", async (t) => {
  const dir = makeDir(t);
  const log = await open(dir);
  await log.append(bodies(0, 10));
  await log.rotateKey();
  await log.append(bodies(11, 4));
  await log.close();
  const archive = fs.readFileSync(`${dir}/checkpoints.log`, 'utf8');
  const lines = archive.split('\n');
  const handover = lines.findIndex((line, n) => line === '11' && lines[n - 1] === ORIGIN);
  const oldSignature = handover + 3;
  assert.ok(lines[oldSignature]!.startsWith('— ') && lines[oldSignature + 1]!.startsWith('— '));
  const copy = copyDir(t, dir);
  fs.writeFileSync(`${copy}/checkpoints.log`, lines.toSpliced(oldSignature, 1).join('\n'));
  const report = await verifyLog({ dir: copy });
  assert.deepEqual([...new Set(listKinds(report).map(([kind]) => kind))], ['bad_signature']);
});

test('a rotation cannot be forged with write access but without the key', async (t) => {
  const dir = makeDir(t);
  const log = await open(dir);
  await log.append(bodies(0, 10));
  const [old] = log.vkeys;
  await log.close();
  const { privateKey } = generateKeyPairSync('ed25519');
  const thief = makeSigner(ORIGIN, privateKey);
  const id = `audit.key_rotated:${thief.vkey.split('+')[1]}`;
  const data = { old_key: old, new_key: thief.vkey };
  const event = { seq: 10, id, event: 'audit.key_rotated', data };
  fs.appendFileSync(segmentPath(dir), `${JSON.stringify(event)}\n`);
  const edge = new CompactRange();
  for (const line of readLines(segmentPath(dir))) edge.add(toRaw(hashLeaf(Buffer.from(line))));
  const text = formatCheckpoint({ origin: ORIGIN, size: 11, root: edge.root() });
  fs.appendFileSync(`${dir}/checkpoints.log`, `${fs.readFileSync(`${dir}/checkpoint`, 'utf8')}\n`);
  fs.writeFileSync(`${dir}/checkpoint`, signNote(text, [thief]));
  fs.appendFileSync(`${dir}/keys/public.txt`, `${thief.vkey}\n`);
  const report = await verifyLog({ dir });
  assert.deepEqual(listKinds(report), [['bad_signature', null]]);
  assert.deepEqual(report.keys, [old]);
});

test('an event that only looks like a rotation names no key', async (t) => {
  const dir = makeDir(t);
  const log = await open(dir);
  const { privateKey } = generateKeyPairSync('ed25519');
  const data = { old_key: log.vkey, new_key: makeSigner(ORIGIN, privateKey).vkey };
  const id = 'audit.key_rotated:1';
  await log.append([JSON.stringify({ event: 'audit.key_rotated', id, data })]);
  await log.close();
  const { ok, keys } = await verifyLog({ dir });
  assert.deepEqual([ok, keys], [true, [data.old_key]]);
});

test('a log in use can be verified while it is written and sealed', async (t) => {
  const dir = makeDir(t);
  const log = await open(dir, { segmentBytesMax: 20_000 });
  await log.append(bodies(0, 500));
  let isWriting = true;
  const writing = (async () => {
    while (isWriting) await log.append(bodies(log.size, 20));
  })();
  for (let n = 0; n < 15; n += 1) {
    const report = await verifyLog({ dir });
    assert.deepEqual(report.problems, []);
  }
  isWriting = false;
  await writing;
  await log.close();
});

test('a directory without a log, without keys, without checkpoints', async (t) => {
  const dir = makeDir(t);
  await assert.rejects(verifyLog({ dir }), isFault('not_found'));
  fs.mkdirSync(dir);
  await assert.rejects(verifyLog({ dir }), isFault('not_found'));
  const bare = makeDir(t);
  await writeLog(bare, 1);
  fs.rmSync(`${bare}/keys`, { recursive: true });
  assert.deepEqual(listKinds(await verifyLog({ dir: bare })), [['unknown_key', null]]);
  fs.rmSync(`${bare}/checkpoint`);
  fs.rmSync(`${bare}/checkpoints.log`);
  assert.deepEqual(
    listKinds(await verifyLog({ dir: bare }))
      .map(([kind]) => kind)
      .sort(),
    ['no_checkpoint', 'no_checkpoint', 'unknown_key'],
  );
});

test('the list of problems is bounded and states the total', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 6);
  editLines(dir, (lines) => lines.map((line) => line.replace('task', 'tusk')));
  const report = await verifyLog({ dir, problemsMax: 7 });
  assert.deepEqual([report.problems.length, report.problems_total], [7, 60]);
  editLines(dir, (lines) => lines.toReversed());
  assert.ok(!(await verifyLog({ dir })).ok);
});
