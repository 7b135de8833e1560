// Tests archiving at the log: what is archived is linked to a checkpoint, recorded before it is
// removed, and no longer needed to open, extend and prove the log.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { archiveOldest, readContent, writeArchive } from './archive-fixture.ts';
import { ARCHIVED_FILE, readArchived } from './archived-file.ts';
import { CompactRange } from './compact-range.ts';
import {
  bodies,
  copyDir,
  formatLine,
  isFault,
  makeDir,
  makeManualClock,
  makeOsError,
  makeTestDisk,
  ORIGIN,
  open,
} from './fixture.ts';
import type { AuditLog, LogOptions } from './log.ts';
import { hashLeaf, toRaw } from './merkle.ts';
import { checkNote, parseCheckpoint, parseNote, parseVkey } from './note.ts';
import { checkProof, proveEvent } from './prove.ts';
import { listSealed } from './segments.ts';

const SEALING = { segmentBytesMax: 2_000 };

async function openFilled(
  t: TestContext,
  options: Partial<LogOptions> = {},
): Promise<{ dir: string; to: string; log: AuditLog }> {
  const dir = makeDir(t);
  const log = await open(dir, { ...SEALING, ...options });
  for (let n = 0; n < 9; n += 1) await log.append(bodies(log.size, 10));
  await log.signNow();
  return { dir, to: makeDir(t), log };
}

test('the content of an archive proves its events against the checkpoint, without the log', async (t) => {
  const { log } = await openFilled(t);
  const second = log.listSegments()[1]!;
  const end = log.listSegments()[2]!.firstSeq;
  const kept = log.checkpoint.note;
  await log.append(bodies(log.size, 5));
  const [headerLine, ...lines] = (await readContent(log, second.firstSeq, kept))
    .toString()
    .split('\n');
  assert.equal(lines.pop(), '');
  assert.equal(lines.length, end - second.firstSeq);
  const header = JSON.parse(headerLine!);
  assert.deepEqual(
    [header.format, header.origin, header.segment, header.first, header.end],
    ['agentd-audit-archive/1', ORIGIN, second.name, second.firstSeq, end],
  );
  const note = parseNote(header.checkpoint);
  const { size, root } = parseCheckpoint(note.text);
  assert.equal(checkNote(note, header.keys.map(parseVkey)).valid.length, 1);
  const join = (events: readonly string[]): Buffer => {
    const tree = CompactRange.parse({ first: 0, end: header.first, hashes: header.left });
    for (const line of events) tree.add(toRaw(hashLeaf(Buffer.from(line))));
    tree.append(CompactRange.parse({ first: header.end, end: size, hashes: header.right }));
    return tree.root();
  };
  assert.deepEqual(join(lines), root);
  assert.notDeepEqual(join(lines.with(1, lines[1]!.replace('task', 'tusk'))), root);
  await log.close();
});

test('an archived segment is recorded and removed; the log continues without it', async (t) => {
  const { dir, to, log } = await openFilled(t);
  const [first, second] = listSealed(dir);
  const { root } = log;
  const records = await archiveOldest(log, to, 2);
  assert.deepEqual(
    records.map(({ segment }) => segment),
    [first!.name, second!.name],
  );
  assert.deepEqual(readArchived(dir), records);
  assert.ok(!fs.existsSync(first!.path) && !fs.existsSync(second!.path));
  assert.equal(log.firstSeq, records[1]!.end);
  assert.deepEqual(log.root, root);
  assert.throws(() => log.readRange(3, 1), isFault('archived'));
  assert.equal(log.readRange(log.firstSeq, 1)[0], formatLine(log.firstSeq));
  await log.append(bodies(log.size, 10));
  const { size } = log;
  await log.close();
  const again = await open(dir, SEALING);
  assert.deepEqual([again.size, again.firstSeq], [size, records[1]!.end]);
  const seen: string[] = [];
  for await (const lines of again.scan()) seen.push(...lines);
  assert.equal(seen.length, size - again.firstSeq);
  const archived = gunzipSync(fs.readFileSync(path.join(to, records[0]!.archive.name))).toString();
  assert.ok(archived.includes(`\n${formatLine(3)}\n`));
  await archiveOldest(again, to);
  assert.equal(readArchived(dir).length, 3);
  await again.close();
});

test('the record has the highest number of each source and the key rotations', async (t) => {
  const { log, to } = await openFilled(t);
  const numbered = (source: string, seq: number): string =>
    JSON.stringify({ id: `${source}.${seq}`, source, source_store: 's', source_seq: seq });
  await log.append([numbered('toold', 4), numbered('agentd', 9), numbered('toold', 5)]);
  const { vkey, previous } = await log.rotateKey();
  await log.append(bodies(log.size, 40));
  await log.signNow();
  const records = await archiveOldest(log, to, log.listSegments().length - 1);
  const last = records.findLast(({ sources }) => Object.keys(sources).length > 0)!;
  assert.deepEqual(last.sources, { 'toold s': 5, 'agentd s': 9 });
  const rotations = records.flatMap((record) => record.rotations);
  assert.deepEqual(rotations, [{ seq: 93, old_key: previous, new_key: vkey }]);
  await log.close();
});

test('a log of archived events alone opens, as after a crash between sealing and writing', async (t) => {
  const { dir, to, log } = await openFilled(t);
  await archiveOldest(log, to, log.listSegments().length - 1);
  const { firstSeq } = log;
  await log.close();
  const notes = fs.readFileSync(`${dir}/checkpoints.log`, 'utf8').split(/(?<=\n)\n(?!— )/);
  const at = notes.findIndex((note) => note.includes(`\n${firstSeq}\n`));
  fs.writeFileSync(`${dir}/checkpoints.log`, notes.slice(0, at).join('\n'));
  fs.writeFileSync(`${dir}/checkpoint`, notes[at]!);
  fs.truncateSync(`${dir}/audit.jsonl`, 0);
  fs.rmSync(`${dir}/tree`, { recursive: true });
  const again = await open(dir, SEALING);
  assert.deepEqual([again.size, again.firstSeq], [firstSeq, firstSeq]);
  await again.append(bodies(firstSeq, 3));
  assert.equal(again.readRange(firstSeq, 1)[0], formatLine(firstSeq));
  await again.close();
});

test('a proof of a live event and the root of the tree need no archived event', async (t) => {
  const { dir, to, log } = await openFilled(t);
  const before = await proveEvent(log, 50);
  await archiveOldest(log, to, 2);
  assert.deepEqual(await proveEvent(log, 50), before);
  await log.close();
  for (const name of fs.readdirSync(`${dir}/tree`)) fs.rmSync(`${dir}/tree/${name}`);
  const again = await open(dir, SEALING);
  const proof = await proveEvent(again, 50);
  assert.ok(checkProof(proof, proof.vkey));
  assert.deepEqual([proof.root, proof.hashes], [before.root, before.hashes]);
  await again.append(bodies(again.size, 7));
  await again.signNow();
  const next = await proveEvent(again, again.size - 1);
  assert.ok(checkProof(next, next.vkey));
  await again.close();
  const third = await open(dir, SEALING);
  assert.equal(third.size, 97);
  await third.close();
});

test('only against a checkpoint of this log that covers the segment', async (t) => {
  const { log, dir, to } = await openFilled(t);
  const { firstSeq } = log.listSegments()[0]!;
  const stream = (checkpoint: string) => log.archive.stream(firstSeq, checkpoint);
  const kept = log.checkpoint.note;
  const other = await openFilled(t);
  await assert.rejects(stream('nonsense'), isFault('bad_request'));
  await assert.rejects(stream(other.log.checkpoint.note), isFault('bad_request'));
  await assert.rejects(stream(kept.replace(ORIGIN, 'other.example/x')), isFault('bad_request'));
  await assert.rejects(stream(kept.replace('\n90\n', '\n89\n')), isFault('bad_request'));
  const early = fs
    .readFileSync(`${dir}/checkpoints.log`, 'utf8')
    .split(/(?<=\n)\n(?!— )/)
    .find((note) => note.includes(`\n0\n`))!;
  await assert.rejects(stream(early), isFault('conflict'));
  await assert.rejects(log.archive.stream(1, kept), isFault('not_found'));
  const current = log.listSegments().at(-1)!.firstSeq;
  await assert.rejects(log.archive.stream(current, kept), isFault('not_found'));
  await stream(kept);
  assert.equal(readArchived(dir).length, 0);
  await Promise.all([log.close(), other.log.close()]);
  fs.rmSync(to, { recursive: true, force: true });
});

test('a checkpoint of a longer or another history of this log is named as damage', async (t) => {
  const { log, dir } = await openFilled(t);
  const older = copyDir(t, dir);
  const fork = copyDir(t, dir);
  await log.append(bodies(log.size, 5));
  const newer = (await log.signNow()).note;
  await log.close();
  const behind = await open(older, SEALING);
  const { firstSeq } = behind.listSegments()[0]!;
  await assert.rejects(behind.archive.stream(firstSeq, newer), isFault('log_damaged', 'truncated'));
  await behind.close();
  const forked = await open(fork, SEALING);
  await forked.append(bodies(1_000, 5));
  await assert.rejects(
    forked.archive.stream(firstSeq, newer),
    isFault('log_damaged', 'root_differs'),
  );
  await forked.close();
});

test('a segment that is not as signed is not archived', async (t) => {
  const { log, dir } = await openFilled(t);
  const [first] = listSealed(dir);
  const text = fs.readFileSync(first!.path, 'utf8');
  fs.chmodSync(first!.path, 0o640);
  const rejected = async (changed: string, kind: string): Promise<void> => {
    fs.writeFileSync(first!.path, changed);
    await assert.rejects(log.archive.stream(0, log.checkpoint.note), isFault('log_damaged', kind));
  };
  await rejected(text.replace('task', 'tusk'), 'root_differs');
  await rejected(text.replace('"seq":1,', '"seq":2,'), 'changed');
  await rejected(`${text.split('\n').slice(0, -2).join('\n')}\n`, 'truncated');
  fs.writeFileSync(first!.path, text);
  await log.archive.stream(0, log.checkpoint.note);
  await log.close();
});

test('a claim about other content, or not about the oldest segment, removes nothing', async (t) => {
  const { log, dir, to } = await openFilled(t);
  const claim = await writeArchive(log, 0, to);
  const { firstSeq } = log.listSegments()[1]!;
  await assert.rejects(
    log.archive.record(0, { ...claim, contentSha256: claim.contentSha256.replace(/^./, 'x') }),
    isFault('conflict'),
  );
  await assert.rejects(
    log.archive.record(firstSeq, await writeArchive(log, firstSeq, to)),
    isFault('conflict'),
  );
  assert.deepEqual(readArchived(dir), []);
  const record = await log.archive.record(0, claim);
  assert.deepEqual(await log.archive.record(0, claim), record, 'the same claim again');
  const other = { ...claim, archive: { ...claim.archive, sha256: '0'.repeat(64) } };
  await assert.rejects(log.archive.record(0, other), isFault('conflict'));
  assert.equal(readArchived(dir).length, 1);
  await log.close();
});

test('a recorded segment that is still there is left over, and not part of the log', async (t) => {
  const { log, dir, to } = await openFilled(t);
  const record = await log.archive.record(0, await writeArchive(log, 0, to));
  assert.deepEqual(log.archive.listLeft(), [record]);
  await log.close();
  const again = await open(dir, SEALING);
  assert.deepEqual(again.archive.listLeft(), [record]);
  assert.equal(again.firstSeq, record.end);
  again.archive.remove(record);
  assert.deepEqual(again.archive.listLeft(), []);
  await again.close();
});

test('a record that is half written never counted; the next one replaces it', async (t) => {
  const { log, dir, to } = await openFilled(t);
  await archiveOldest(log, to);
  fs.appendFileSync(`${dir}/${ARCHIVED_FILE}`, '{"segment":"audit-0');
  await log.close();
  const again = await open(dir, SEALING);
  assert.equal(again.archived.length, 1);
  await archiveOldest(again, to);
  await again.close();
  assert.equal(readArchived(dir).length, 2);
  const third = await open(dir, SEALING);
  await third.close();
});

test('a full or failing disk while recording leaves the segment live', async (t) => {
  const disk = makeTestDisk();
  const { log, dir, to } = await openFilled(t, { disk });
  const claim = await writeArchive(log, 0, to);
  disk.failWrite = () => makeOsError('ENOSPC');
  await assert.rejects(log.archive.record(0, claim), isFault('storage_full'));
  disk.failWrite = () => undefined;
  disk.failSync = () => makeOsError('EIO');
  await assert.rejects(log.archive.record(0, claim), isFault('storage_broken'));
  disk.failSync = () => undefined;
  assert.deepEqual([log.firstSeq, readArchived(dir)], [0, []]);
  assert.equal(log.readRange(0, 1)[0], formatLine(0));
  await log.archive.record(0, claim);
  assert.equal(readArchived(dir).length, 1);
  await log.close();
});

test('records that do not fit the log keep it closed', async (t) => {
  const { log, dir, to } = await openFilled(t);
  const records = await archiveOldest(log, to, 2);
  await log.close();
  const file = `${dir}/${ARCHIVED_FILE}`;
  const write = (...lines: unknown[]): void =>
    fs.writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  const [first, second] = records;
  const opened = async (): Promise<void> => (await open(dir, SEALING)).close();
  const wrong = createHash('sha256').digest('base64');
  write({ ...first!, hashes: first!.hashes.with(0, wrong) }, second);
  await assert.rejects(opened(), isFault('log_damaged', 'changed'));
  write(second);
  await assert.rejects(opened(), isFault('log_damaged', 'changed'));
  write({ ...first!, hashes: [] }, second);
  await assert.rejects(opened(), isFault('log_damaged', 'changed'));
  write('x');
  await assert.rejects(opened(), isFault('log_damaged', 'changed'));
  write(first);
  await assert.rejects(opened(), isFault('log_damaged', 'segment_missing'));
  write(first, second);
  await opened();
  fs.rmSync(file);
  await assert.rejects(opened(), isFault('log_damaged', 'segment_missing'));
});

test('a segment is sealed when its first event is old, also after a restart', async (t) => {
  const dir = makeDir(t);
  const clock = makeManualClock();
  const aged = { clock, segmentAgeMaxMs: 3_600_000 };
  const stamped = (n: number): string =>
    JSON.stringify({ id: `aged_${n}`, ts: new Date(clock.nowMs()).toISOString() });
  const log = await open(dir, aged);
  await log.append([stamped(0)]);
  clock.advance(3_500_000);
  await log.append([stamped(1)]);
  assert.equal(listSealed(dir).length, 0);
  clock.advance(200_000);
  await log.append([stamped(2)]);
  assert.equal(listSealed(dir).length, 1);
  await log.close();
  clock.advance(3_500_000);
  const again = await open(dir, aged);
  await again.append([stamped(3)]);
  assert.equal(listSealed(dir).length, 1);
  clock.advance(200_000);
  await again.append([stamped(4)]);
  assert.deepEqual(
    listSealed(dir).map(({ firstSeq }) => firstSeq),
    [0, 2],
  );
  await again.close();
});
