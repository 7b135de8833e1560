// Tests verification of a log of which a part is archived: with the archives every event is hashed;
// without them the rest is checked against their recorded hashes, and the report says so.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { archiveOldest } from './archive-fixture.ts';
import { ARCHIVED_FILE, type ArchivedSegment, readArchived } from './archived-file.ts';
import {
  bodies,
  body,
  copyDir,
  editLines,
  formatLine,
  listKinds,
  makeDir,
  ORIGIN,
  open,
  readLines,
} from './fixture.ts';
import type { AuditLog } from './log.ts';
import { writeVerified } from './verified-file.ts';
import { verifyLog } from './verify.ts';
import { verifyOwnLog } from './verify-own.ts';

const SEALING = { segmentBytesMax: 2_000 };

type ArchivedLog = { dir: string; to: string; records: ArchivedSegment[] };

/** A log of 100 events, each ten signed, whose key was rotated; three segments are archived. */
async function writeArchivedLog(t: TestContext): Promise<ArchivedLog> {
  const dir = makeDir(t);
  const to = makeDir(t);
  const log = await open(dir, SEALING);
  const append = async (count: number): Promise<void> => {
    await log.append(bodies(log.size, count));
    await log.signNow();
  };
  for (let n = 0; n < 3; n += 1) await append(10);
  await log.rotateKey();
  await append(9);
  for (let n = 0; n < 6; n += 1) await append(10);
  const records = await archiveOldest(log, to, 3);
  await log.close();
  return { dir, to, records };
}

function editArchive(to: string, { archive }: ArchivedSegment, edit: (text: string) => string) {
  const file = path.join(to, archive.name);
  const text = gunzipSync(fs.readFileSync(file)).toString();
  const changed = edit(text);
  assert.notEqual(changed, text);
  fs.writeFileSync(file, gzipSync(changed));
}

function editRecords(dir: string, edit: (records: ArchivedSegment[]) => unknown[]): void {
  const lines = edit(readArchived(dir)).map((record) => `${JSON.stringify(record)}\n`);
  fs.writeFileSync(path.join(dir, ARCHIVED_FILE), lines.join(''));
}

test('without the archives the live part verifies, and what was not hashed is counted', async (t) => {
  const { dir, to, records } = await writeArchivedLog(t);
  const { end } = records.at(-1)!;
  for (const hasTree of [true, false]) {
    if (!hasTree) fs.rmSync(`${dir}/tree`, { recursive: true });
    const report = await verifyLog({ dir });
    assert.deepEqual(report.problems, []);
    assert.deepEqual([report.size, report.hashed, report.keys.length], [100, 100 - end, 2]);
    assert.deepEqual(report.archived, { events: end, segments: 3, hashed: 0, locations: [to] });
    const full = await verifyLog({ dir, archiveDir: to });
    assert.deepEqual(full.problems, []);
    assert.deepEqual([full.size, full.hashed, full.archived.hashed], [100, 100, end]);
    assert.deepEqual([full.root, full.keys], [report.root, report.keys]);
    assert.equal(full.checkpoints_checked, report.checkpoints_checked);
  }
});

test('a changed event in an archive is named; without the archive it goes unnoticed', async (t) => {
  const { dir, to, records } = await writeArchivedLog(t);
  const seq = records[1]!.first + 2;
  editArchive(to, records[1]!, (text) => text.replace(`"evt_${seq}"`, '"evt_forged"'));
  const report = await verifyLog({ dir, archiveDir: to });
  const { name } = records[1]!.archive;
  assert.deepEqual(report.problems, [
    {
      kind: 'changed',
      seq,
      segment: name,
      line: 4,
      message: `event ${seq} is not as it was signed (${name} line 4)`,
    },
  ]);
  assert.ok((await verifyLog({ dir })).ok, 'the control');
  fs.rmSync(`${dir}/tree`, { recursive: true });
  const blind = await verifyLog({ dir, archiveDir: to });
  assert.deepEqual(listKinds(blind), [['archive_damaged', records[1]!.first]]);
  assert.equal(blind.problems[0]!.to_seq, records[1]!.end - 1);
});

test('an archive that is missing, cut, empty, of another segment or not one at all is named', async (t) => {
  const { dir, to, records } = await writeArchivedLog(t);
  const [first, second] = records;
  const file = path.join(to, first!.archive.name);
  const whole = fs.readFileSync(file);
  const kinds = async (): Promise<unknown> => listKinds(await verifyLog({ dir, archiveDir: to }));
  const damaged = [['archive_damaged', 0]];
  fs.rmSync(file);
  assert.deepEqual(await kinds(), [['archive_missing', 0]]);
  for (const bytes of [
    whole.subarray(0, whole.length / 2),
    Buffer.alloc(0),
    fs.readFileSync(path.join(to, second!.archive.name)),
    Buffer.from('not an archive'),
    gzipSync(Buffer.alloc(1 << 22)),
  ]) {
    fs.writeFileSync(file, bytes);
    assert.deepEqual(await kinds(), damaged, `${bytes.length} bytes`);
  }
  fs.writeFileSync(file, whole);
  assert.deepEqual(await kinds(), []);
  fs.rmSync(to, { recursive: true });
  assert.deepEqual(
    await kinds(),
    records.map((record) => ['archive_missing', record.first]),
  );
});

test('a line added to an archive, removed or moved, and a changed first line are found', async (t) => {
  const { dir, to, records } = await writeArchivedLog(t);
  const record = records[1]!;
  const file = path.join(to, record.archive.name);
  const whole = fs.readFileSync(file);
  const edits: [name: string, edit: (text: string) => string, kind: string][] = [
    ['added', (text) => `${text}{"seq":1}\n`, 'archive_damaged'],
    ['removed', (text) => text.replace(/\n\{"seq":[^\n]*/, ''), 'archive_damaged'],
    ['moved', (text) => text.replace(/\n(\{"seq".*)\n(\{"seq".*)/, '\n$2\n$1'), 'changed'],
    ['first', (text) => text.replace('"left"', '"lefd"'), 'archive_damaged'],
  ];
  for (const [name, edit, kind] of edits) {
    editArchive(to, record, edit);
    const report = await verifyLog({ dir, archiveDir: to });
    assert.equal(report.problems[0]?.kind, kind, name);
    assert.equal(report.problems[0]?.segment, record.archive.name);
    fs.writeFileSync(file, whole);
  }
});

test('changed records are found, and the live part is still verified', async (t) => {
  const { dir, to, records } = await writeArchivedLog(t);
  const wrong = records[0]!.hashes[0]!;
  editRecords(dir, (all) => all.with(1, { ...all[1]!, hashes: all[1]!.hashes.with(0, wrong) }));
  for (const archiveDir of [undefined, to]) {
    const report = await verifyLog({ dir, archiveDir });
    assert.deepEqual(
      report.problems.map(({ kind, segment }) => [kind, segment]),
      [['changed', ARCHIVED_FILE]],
    );
    assert.equal(report.signed_size, 100, 'everything else is as signed');
  }
  fs.rmSync(`${dir}/tree`, { recursive: true });
  assert.ok(!(await verifyLog({ dir })).ok);
  for (const edit of [
    (all: ArchivedSegment[]) => all.slice(1),
    (all: ArchivedSegment[]) => all.slice(0, -1),
    () => ['nonsense'],
    () => [],
  ]) {
    const copy = copyDir(t, dir);
    const saved = records;
    editRecords(dir, () => saved);
    editRecords(copy, () => edit(saved));
    assert.ok(!(await verifyLog({ dir: copy })).ok, String(edit));
  }
});

test('a rotation that only a record claims does not let another key sign', async (t) => {
  const { dir, records } = await writeArchivedLog(t);
  const [first] = records;
  const forged = { seq: 3, old_key: (await verifyLog({ dir })).keys[0]!, new_key: 'x+00000000+AA' };
  editRecords(dir, (all) => all.with(0, { ...first!, rotations: [forged] }));
  assert.ok(!(await verifyLog({ dir })).ok);
  editRecords(dir, (all) => all.map((record) => ({ ...record, rotations: [] })));
  assert.ok(!(await verifyLog({ dir })).ok, 'nor does one that is left out go unnoticed');
});

test('damage to the live part is named as without archives', async (t) => {
  const { dir, to, records } = await writeArchivedLog(t);
  const { end } = records.at(-1)!;
  const edits: [edit: (lines: string[]) => string[], expected: [string, number]][] = [
    [(lines) => lines.with(5, lines[5]!.replace('task', 'tusk')), ['changed', end + 5]],
    [(lines) => lines.toSpliced(5, 1), ['removed', end + 5]],
    [(lines) => lines.toSpliced(0, 1), ['removed', end]],
    [(lines) => lines.slice(0, -3), ['truncated', 97]],
    [(lines) => [...lines.toSpliced(7, 1), lines[7]!], ['reordered', end + 7]],
    [(lines) => lines.toSpliced(4, 0, lines[4]!), ['duplicated', end + 4]],
    [(lines) => lines.toSpliced(4, 0, formatLine(3)), ['duplicated', 3]],
  ];
  for (const [edit, expected] of edits)
    for (const archiveDir of [undefined, to]) {
      const copy = copyDir(t, dir);
      editLines(copy, edit);
      assert.deepEqual(listKinds(await verifyLog({ dir: copy, archiveDir })), [expected]);
    }
  for (const name of fs.readdirSync(dir).filter((one) => one.startsWith('audit-'))) {
    const copy = copyDir(t, dir);
    const first = Number(/\d+/.exec(name)![0]);
    fs.rmSync(path.join(copy, name));
    assert.deepEqual(listKinds(await verifyLog({ dir: copy })), [['removed', first]]);
  }
});

test('a kept checkpoint of the archived part is compared, also without the archive', async (t) => {
  const { dir, to } = await writeArchivedLog(t);
  const other = await writeArchivedLog(t);
  const noteOf = (logDir: string, size: number): string =>
    fs
      .readFileSync(`${logDir}/checkpoints.log`, 'utf8')
      .split(/(?<=\n)\n(?!— )/)
      .find((note) => note.startsWith(`${ORIGIN}\n${size}\n`))!;
  const kept = noteOf(dir, 20);
  for (const archiveDir of [undefined, to]) {
    const options = { dir, archiveDir, from: [kept] };
    assert.deepEqual(listKinds(await verifyLog(options)), []);
    const foreign = { ...options, from: [noteOf(other.dir, 20)] };
    assert.deepEqual(listKinds(await verifyLog(foreign)), [['bad_signature', null]]);
  }
});

test('an id that occurs in an archive and again later is found with the archive', async (t) => {
  const dir = makeDir(t);
  const to = makeDir(t);
  const log = await open(dir, SEALING);
  await log.append(bodies(0, 60));
  await log.append([body(3)]);
  await log.append(bodies(61, 5));
  await log.signNow();
  await archiveOldest(log, to, log.listSegments().length - 1);
  await log.close();
  assert.deepEqual(listKinds(await verifyLog({ dir, archiveDir: to })), [['duplicate_id', 60]]);
  assert.ok((await verifyLog({ dir })).ok);
});

test('a verification that continues is not disturbed by archiving', async (t) => {
  const dir = makeDir(t);
  const to = makeDir(t);
  const verify = async () => {
    const { report, verified } = await verifyOwnLog({ dir, isFull: false, nowMs: 0 });
    if (verified !== undefined) writeVerified(dir, verified);
    return report;
  };
  const log = await open(dir, SEALING);
  for (let n = 0; n < 9; n += 1) await log.append(bodies(log.size, 10));
  await log.signNow();
  assert.equal((await verify()).hashed, 90);
  await archiveOldest(log, to, 2);
  await log.append(bodies(90, 4));
  await log.signNow();
  const report = await verify();
  assert.deepEqual([report.problems, report.remarks, report.hashed], [[], [], 4]);
  assert.equal(report.archived.segments, 2);
  // Nothing of what was verified is left: the rest of the log is hashed, from the records on.
  for (let n = 0; n < 6; n += 1) await log.append(bodies(log.size, 10));
  await log.signNow();
  await archiveOldest(log, to, log.listSegments().length - 1);
  const all = await verify();
  assert.deepEqual(all.problems, []);
  assert.equal(all.hashed, log.size - log.firstSeq);
  await log.close();
});

test('a missing segment that no record names is still missing', async (t) => {
  const { dir } = await writeArchivedLog(t);
  const { verified } = await verifyOwnLog({ dir, isFull: false, nowMs: 0 });
  writeVerified(dir, verified!);
  const name = fs.readdirSync(dir).find((one) => one.startsWith('audit-'))!;
  fs.rmSync(path.join(dir, name));
  const { report } = await verifyOwnLog({ dir, isFull: false, nowMs: 0 });
  assert.deepEqual(listKinds(report), [['removed', Number(/\d+/.exec(name)![0])]]);
});

test('a log is verified while it is written, sealed and archived', async (t) => {
  const dir = makeDir(t);
  const to = makeDir(t);
  const log: AuditLog = await open(dir, { segmentBytesMax: 10_000 });
  await log.append(bodies(0, 500));
  await log.signNow();
  let isWriting = true;
  const writing = (async () => {
    while (isWriting) {
      await log.append(bodies(log.size, 20));
      await log.signNow();
      if (log.listSegments().length > 4) await archiveOldest(log, to);
    }
  })();
  for (let n = 0; n < 12; n += 1)
    for (const archiveDir of [undefined, to])
      assert.deepEqual((await verifyLog({ dir, archiveDir })).problems, []);
  isWriting = false;
  await writing;
  assert.ok(readLines(path.join(dir, ARCHIVED_FILE)).length > 0);
  await log.close();
});
