// Archiving as agentctl does it, without a runtime: choosing segments, storing archives in a
// directory or with a command, and reading events back from them.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { chooseSegments } from '../../../platform/audit-archive/choose.ts';
import { directoryTarget } from '../../../platform/audit-archive/directory.ts';
import type { SegmentView } from '../../../wire/auditd-ai.ts';
import type { FaultCode } from '../../../wire/errors.ts';
import { readCheckpointSize } from './archive-segments.ts';
import { commandTarget } from './command-target.ts';
import { readArchivedLines } from './read-archive.ts';

const LOG_DIR = '/none/audit';
const NAME = 'audit-000000000000.jsonl.gz';
const HEADER = { format: 'f', origin: 'o', first: 0, end: 3, hashes: ['aa'] };
const LINES = ['{"seq":0,"a":"x\u2028y"}', '{"seq":1}', '{"seq":2}'];

const contentOf = (header: object = HEADER): string =>
  [JSON.stringify(header), ...LINES].map((line) => `${line}\n`).join('');
const streamOf = (text = contentOf()): Readable => Readable.from([Buffer.from(text)]);
const sha256 = (data: string | Buffer): string => createHash('sha256').update(data).digest('hex');

function makeDir(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'actl-arch-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

const isFault = (code: FaultCode, message = /./) => ({ code, message });

const segment = (over: Partial<SegmentView> & { first_seq: number }): SegmentView => ({
  segment: `audit-${over.first_seq}.jsonl`,
  events: 10,
  size_bytes: 100,
  status: 'sealed',
  last_at: '2026-01-01T00:00:00Z',
  archive: null,
  ...over,
});

test('chosen are sealed segments that are old and covered, from the oldest without a gap', () => {
  const old = Date.parse('2026-02-01T00:00:00Z');
  const segments = [
    segment({ first_seq: 0, status: 'archived', last_at: null }),
    segment({ first_seq: 10 }),
    segment({ first_seq: 20 }),
    segment({ first_seq: 30 }),
    segment({ first_seq: 40, last_at: '2026-03-01T00:00:00Z' }),
    segment({ first_seq: 50 }),
    segment({ first_seq: 60, status: 'current' }),
  ];
  const firsts = (all: readonly SegmentView[]): number[] => all.map(({ first_seq }) => first_seq);
  const covered = chooseSegments(segments, { beforeMs: old, checkpointSize: 100 });
  assert.deepEqual([firsts(covered.chosen), covered.uncovered], [[10, 20, 30], []]);
  const partly = chooseSegments(segments, { beforeMs: old, checkpointSize: 39 });
  assert.deepEqual([firsts(partly.chosen), firsts(partly.uncovered)], [[10, 20], [30]]);
  const none = chooseSegments(segments, { beforeMs: 0, checkpointSize: 100 });
  assert.deepEqual(none, { chosen: [], uncovered: [] });
});

test('the size of a checkpoint is its second line', () => {
  assert.equal(readCheckpointSize('log\n17\nroot\n\n— log sig\n'), 17);
  assert.throws(() => readCheckpointSize('log\nx\n'), isFault('bad_usage'));
});

test('a directory gets one file, compressed and read back', async (t) => {
  const dir = makeDir(t);
  const stored = await directoryTarget(dir, LOG_DIR).store(NAME, streamOf());
  const bytes = readFileSync(join(dir, NAME));
  assert.equal(gunzipSync(bytes).toString(), contentOf());
  assert.deepEqual(stored, {
    location: dir,
    name: NAME,
    size_bytes: bytes.length,
    sha256: sha256(bytes),
    content_sha256: sha256(contentOf()),
  });
  assert.deepEqual(readdirSync(dir), [NAME]);
});

test('what an interrupted attempt left is replaced; a file of another log is not', async (t) => {
  const dir = makeDir(t);
  const outside = join(makeDir(t), 'target');
  writeFileSync(outside, 'kept');
  symlinkSync(outside, join(dir, `.${NAME}.partial`));
  await directoryTarget(dir, LOG_DIR).store(NAME, streamOf());
  assert.equal(readFileSync(outside, 'utf8'), 'kept', 'a link is not followed');
  const newer = contentOf({ ...HEADER, checkpoint: 'newer' });
  await directoryTarget(dir, LOG_DIR).store(NAME, streamOf(newer));
  assert.equal(gunzipSync(readFileSync(join(dir, NAME))).toString(), newer);
  const before = readFileSync(join(dir, NAME));
  for (const other of [
    contentOf({ ...HEADER, origin: 'p' }),
    contentOf({ ...HEADER, hashes: ['bb'] }),
  ])
    await assert.rejects(
      directoryTarget(dir, LOG_DIR).store(NAME, streamOf(other)),
      isFault('conflict', /exists and is not an archive of this segment/),
    );
  assert.deepEqual(readFileSync(join(dir, NAME)), before);
  writeFileSync(join(dir, NAME), 'something else');
  await assert.rejects(directoryTarget(dir, LOG_DIR).store(NAME, streamOf()), isFault('conflict'));
});

test('a directory that is not there, and content that breaks off, leave no archive', async (t) => {
  const dir = makeDir(t);
  assert.throws(() => directoryTarget(join(dir, 'none'), LOG_DIR), isFault('not_found'));
  symlinkSync(dir, join(dir, 'link'));
  for (const path of [dir, join(dir, 'link')])
    assert.throws(() => directoryTarget(path, dir), isFault('bad_usage', /own directory/));
  rmSync(join(dir, 'link'));
  const broken = Readable.from(
    (async function* () {
      yield Buffer.from('half');
      throw new Error('the connection was cut');
    })(),
  );
  await assert.rejects(directoryTarget(dir, LOG_DIR).store(NAME, broken), /connection was cut/);
  assert.ok(!existsSync(join(dir, NAME)));
  await directoryTarget(dir, LOG_DIR).store(NAME, streamOf());
  assert.deepEqual(readdirSync(dir), [NAME]);
});

test('a command gets the archive on its input and its name in the environment', async (t) => {
  const dir = makeDir(t);
  const target = commandTarget(`cat > "${dir}/$AGENTD_ARCHIVE_NAME"; echo noise`);
  const stored = await target.store(NAME, streamOf());
  const bytes = readFileSync(join(dir, NAME));
  assert.equal(gunzipSync(bytes).toString(), contentOf());
  assert.deepEqual(
    [stored.sha256, stored.content_sha256, stored.size_bytes],
    [sha256(bytes), sha256(contentOf()), bytes.length],
  );
  assert.match(stored.location, /^command: cat > /);
});

test('a command that fails, dies or does not read its input has stored nothing', async () => {
  const large = Readable.from(
    (function* () {
      for (let n = 0; n < 200; n += 1) yield Buffer.from(`${sha256(String(n)).repeat(200)}\n`);
    })(),
  );
  const store = (command: string, content: Readable) => commandTarget(command).store(NAME, content);
  await assert.rejects(
    store('cat >/dev/null; exit 3', streamOf()),
    isFault('conflict', /ended with status 3/),
  );
  await assert.rejects(store('kill -9 $$', streamOf()), isFault('conflict', /SIGKILL/));
  await assert.rejects(store('head -c 1 >/dev/null', large), isFault('conflict', /did not read/));
  await assert.rejects(store('no-such-program-here', streamOf()), isFault('conflict', /127/));
});

test('events are read back by number, whatever characters they have', async (t) => {
  const dir = makeDir(t);
  await directoryTarget(dir, LOG_DIR).store(NAME, streamOf());
  const copy = { location: dir, name: NAME, size_bytes: 1, sha256: 'x' };
  const archive = { ...copy, archived_at: '2026-01-01T00:00:00Z', by: 'person:a' };
  const segments = [
    segment({ first_seq: 0, events: 3, status: 'archived', archive }),
    segment({ first_seq: 3 }),
  ];
  assert.deepEqual(await readArchivedLines(dir, segments, [0, 2, 5]), [LINES[0], LINES[2]]);
  assert.deepEqual(await readArchivedLines(dir, segments, []), []);
  const packed = readFileSync(join(dir, NAME));
  for (const bytes of [packed.subarray(0, 30), Buffer.from('x'), gzipSync('{}\n{"seq":0}\n')]) {
    writeFileSync(join(dir, NAME), bytes);
    await assert.rejects(readArchivedLines(dir, segments, [2]), isFault('log_damaged'));
  }
  rmSync(join(dir, NAME));
  await assert.rejects(
    readArchivedLines(dir, segments, [2]),
    isFault('not_found', /audit-0+\.jsonl\.gz is not in/),
  );
});
