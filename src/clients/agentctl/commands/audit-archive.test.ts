// agentctl audit archive and the commands that read archives, against a scripted auditd-ai.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { RawReply } from '../../../platform/dispatch.ts';
import type { SegmentView } from '../../../wire/auditd-ai.ts';
import { fault } from '../../../wire/errors.ts';
import type { AuditEvent } from '../../../wire/events.ts';
import { type FakeRuntime, startFake } from '../testing/fake-runtime.ts';
import { event, id } from '../testing/fixtures.ts';
import { agentctl, documentOf } from '../testing/run-agentctl.ts';

let fake: FakeRuntime;
const dir = mkdtempSync(join(tmpdir(), 'actl-aa-'));
const kept = join(dir, 'checkpoint');
const NOTE = 'log\n25\nroot\n\n— log c2lnbmF0dXJl\n';
before(async () => {
  fake = await startFake();
  writeFileSync(kept, NOTE);
});
after(async () => {
  rmSync(dir, { recursive: true });
  await fake.stop();
});
const run = (...words: string[]) => agentctl(words, { state: fake.stateDir });
const freshDir = (name: string): string => {
  mkdirSync(join(dir, name));
  return join(dir, name);
};

const segment = (first_seq: number, over: Partial<SegmentView> = {}): SegmentView => ({
  segment: `audit-${String(first_seq).padStart(12, '0')}.jsonl`,
  first_seq,
  events: 10,
  size_bytes: 5_000,
  status: 'sealed',
  last_at: '2026-01-01T00:00:00Z',
  archive: null,
  ...over,
});
const archived = (first_seq: number, location: string): SegmentView => {
  const name = `${segment(first_seq).segment}.gz`;
  const stored = { location, name, size_bytes: 9, sha256: 'a'.repeat(64) };
  const archive = { ...stored, archived_at: '2026-05-01T00:00:00Z', by: 'person:a' };
  return segment(first_seq, { status: 'archived', last_at: null, archive });
};

const contentOf = (first: number): string =>
  [
    JSON.stringify({ origin: 'log', first, end: first + 10, hashes: [] }),
    ...Array.from({ length: 10 }, (_, i) => JSON.stringify(event(first + i))),
  ]
    .map((line) => `${line}\n`)
    .join('');

/** Two segments that the checkpoint covers, one that it does not, and the current one. */
function scriptArchiving(over: object = {}): void {
  fake.script({
    'auditd-ai': {
      listSegments: async () => ({
        segments: [segment(0), segment(10), segment(20), segment(30, { status: 'current' })],
        cursor: null,
      }),
      exportSegment: async ({ params }) =>
        new RawReply({
          status: 200,
          headers: { 'content-type': 'application/x-ndjson' },
          body: contentOf(params.first_seq),
        }),
      archiveSegment: async ({ params, body }) => ({
        segment: {
          ...archived(params.first_seq, body.archive.location),
          archive: { ...body.archive, archived_at: '2026-05-01T00:00:00Z', by: 'person:a' },
        },
      }),
      ...over,
    },
  });
}
const claims = () => fake.seen.filter(({ route }) => route === 'archiveSegment');

test('archive writes each old segment under the checkpoint, then has it removed', async () => {
  scriptArchiving();
  const to = freshDir('written');
  const ran = await run('audit', 'archive', '--to', to, '--checkpoint', kept);
  assert.equal(ran.code, 0, ran.stderr);
  assert.match(ran.stdout, /^Archived 2 segments with 20 events; /);
  assert.match(ran.stderr, /Archived events 0 to 9, .* as audit-0{12}\.jsonl\.gz \(.*\) to /);
  assert.match(ran.stderr, /does not cover 1 more segment of that age/);
  const names = [0, 10].map((first) => `${segment(first).segment}.gz`);
  assert.deepEqual(readdirSync(to).sort(), names);
  assert.equal(gunzipSync(readFileSync(join(to, names[1]!))).toString(), contentOf(10));
  const bodies = claims().map(({ body }) => body as { checkpoint: string; archive: object });
  assert.deepEqual(
    bodies.map(({ checkpoint }) => checkpoint),
    [NOTE, NOTE],
  );
  const bytes = readFileSync(join(to, names[0]!));
  assert.deepEqual(bodies[0], {
    checkpoint: NOTE,
    content_sha256: createHash('sha256').update(contentOf(0)).digest('hex'),
    archive: {
      location: to,
      name: names[0],
      size_bytes: bytes.length,
      sha256: createHash('sha256').update(bytes).digest('hex'),
    },
  });
});

test('archive --command pipes it, --json is one document, --dry-run does nothing', async () => {
  scriptArchiving();
  const to = freshDir('piped');
  const command = `cat > ${to}/$AGENTD_ARCHIVE_NAME; echo noise`;
  const words = ['audit', 'archive', '--command', command, '--checkpoint', kept, '--json'];
  const before = claims().length;
  const dry = documentOf<{ archive: { dry_run: boolean; segments: SegmentView[] } }>(
    await run(...words, '--dry-run'),
  );
  assert.deepEqual([dry.archive.dry_run, dry.archive.segments.length], [true, 2]);
  assert.deepEqual([claims().length, readdirSync(to)], [before, []]);
  const { archive } = documentOf<typeof dry>(await run(...words));
  assert.deepEqual(
    archive.segments.map(({ status }) => status),
    ['archived', 'archived'],
  );
  assert.equal(readdirSync(to).length, 2);
});

test('a copy that failed is not claimed', async () => {
  scriptArchiving();
  const before = claims().length;
  const words = ['audit', 'archive', '--checkpoint', kept];
  const failed = await run(...words, '--command', 'cat >/dev/null; exit 9');
  assert.equal(failed.code, 1);
  assert.match(failed.stderr, /the archive command ended with status 9 \(conflict\)/);
  scriptArchiving({ exportSegment: async () => Promise.reject(fault('bad_request', 'not yours')) });
  const refused = await run(...words, '--to', freshDir('refused'));
  assert.match(refused.stderr, /not yours \(bad_request\)/);
  assert.equal(claims().length, before);
});

test('archive says what is missing or wrong in the command', async () => {
  scriptArchiving();
  const to = freshDir('wrong');
  const codeOf = async (...words: string[]) => (await run('audit', 'archive', ...words)).code;
  assert.equal(await codeOf('--to', to), 2, 'no checkpoint');
  assert.equal(await codeOf('--checkpoint', kept), 2, 'no target');
  assert.equal(await codeOf('--checkpoint', kept, '--to', to, '--command', 'cat'), 2);
  assert.equal(await codeOf('--checkpoint', kept, '--to', join(dir, 'none')), 5);
  assert.equal(await codeOf('--checkpoint', join(dir, 'none'), '--to', to), 5);
  assert.equal(await codeOf('--checkpoint', join(fake.stateDir, 'operator.key'), '--to', to), 2);
  const inLog = join(fake.stateDir, 'audit', 'x');
  mkdirSync(inLog, { recursive: true });
  assert.equal(await codeOf('--checkpoint', kept, '--to', inLog), 2);
  assert.equal(await codeOf('--checkpoint', kept, '--to', to, '--older-than', 'soon'), 2);
  const young = await run(
    'audit',
    'archive',
    '--checkpoint',
    kept,
    '--to',
    to,
    '--older-than',
    '99999d',
  );
  assert.deepEqual([young.code, readdirSync(to)], [0, []]);
  assert.match(young.stdout, /^No sealed segment under the checkpoint is older than 99999 d/);
});

test('segments shows what is where', async () => {
  fake.script({
    'auditd-ai': {
      listSegments: async ({ query }) =>
        query.cursor === undefined
          ? { segments: [archived(0, '/mnt/archive')], cursor: '0' }
          : { segments: [segment(10, { status: 'current' })], cursor: null },
    },
  });
  const { stdout } = await run('audit', 'segments');
  assert.match(stdout, /0 +10 +4\.9 KiB +archived +\/mnt\/archive \(audit-0{12}\.jsonl\.gz\)/);
  assert.match(stdout, /10 +10 +4\.9 KiB +current/);
  const { segments } = documentOf<{ segments: SegmentView[] }>(
    await run('audit', 'segments', '--json'),
  );
  assert.equal(segments.length, 2);
});

test('segments and doctor show the automatic archiving, and why it fails', async () => {
  const schedule = { location: '/mnt/archive', age_s: 90 * 86_400, last_at: null };
  for (const [error, shown, mark] of [
    [null, /older than 90 d .*are archived to \/mnt\/archive once an hour \(no pass yet\)/, 'ok'],
    ['disk full', /Archiving to \/mnt\/archive failed: disk full/, 'warn'],
  ] as const) {
    const automatic = { ...schedule, error };
    fake.script({
      'auditd-ai': { listSegments: async () => ({ segments: [], cursor: null, automatic }) },
    });
    assert.match((await run('audit', 'segments')).stdout, shown);
    const json = await run('audit', 'segments', '--json');
    assert.deepEqual(documentOf<{ automatic: unknown }>(json).automatic, automatic);
    const { stdout } = await run('doctor');
    const line = stdout.split('\n').find((text) => text.includes('  archive '))!;
    assert.match(line, new RegExp(`^${mark} `));
  }
});

test('events that are archived are counted, and shown from their archives', async () => {
  const location = freshDir('location');
  const first = archived(0, location);
  writeFileSync(join(location, first.archive!.name), gzipSync(contentOf(0)));
  const page = async () => ({ events: [event(12)], archived: [3, 5], cursor: null });
  fake.script({
    'auditd-ai': {
      task: page,
      agent: page,
      tool: page,
      listSegments: async () => ({ segments: [first], cursor: null }),
    },
  });
  for (const words of [
    ['task', id('task', 1)],
    ['agent', 'coder'],
    ['tool', 'git.push'],
  ]) {
    const plain = await run('audit', ...words);
    assert.match(plain.stderr, /^2 older events archived: --archive DIR shows them\.$/m);
    const short = documentOf<{ events: AuditEvent[]; archived?: number[] }>(
      await run('audit', ...words, '--json'),
    );
    assert.deepEqual([short.events.map(({ seq }) => seq), short.archived], [[12], [3, 5]]);
    const all = documentOf<typeof short>(
      await run('audit', ...words, '--json', '--archive', location),
    );
    assert.deepEqual([all.events.map(({ seq }) => seq), all.archived], [[3, 5, 12], undefined]);
  }
  const missing = await run('audit', 'task', id('task', 1), '--archive', freshDir('empty'));
  assert.equal(missing.code, 5);
  assert.match(missing.stderr, /is not in .*\(not_found\)\nIt was written to /);
});

test('an archived event is proved with the archive, by id and by number', async () => {
  const location = freshDir('proofs');
  const first = archived(0, location);
  writeFileSync(join(location, first.archive!.name), gzipSync(contentOf(0)));
  const proof = {
    event: '{}',
    index: 3,
    size: 9,
    root: 'r',
    hashes: [],
    checkpoint: 'c',
    vkey: 'v',
  };
  fake.script({
    'auditd-ai': {
      // Two events whose ids have the same hash, of which only the index knows.
      prove: async () =>
        Promise.reject(
          fault('archived', 'event 2 or 3 was archived', { details: { seqs: [2, 3] } }),
        ),
      events: async () => ({ events: [], archived: [3], cursor: null }),
      listSegments: async () => ({ segments: [first], cursor: null }),
      proveLine: async () => proof,
    },
  });
  for (const name of [event(3).id, '3']) {
    const plain = await run('audit', 'prove', name);
    assert.equal(plain.code, 5);
    assert.match(plain.stderr, /event (2 or 3 was|3 is) archived \(archived\)\n.*--archive DIR/);
    const ran = await run('audit', 'prove', name, '--archive', location, '--json');
    assert.deepEqual(documentOf<{ proof: unknown }>(ran).proof, proof);
    assert.deepEqual(fake.seen.at(-1)?.body, { event: JSON.stringify(event(3)) });
  }
  const other = await run('audit', 'prove', 'evt_4', '--archive', location);
  assert.equal(other.code, 5);
  assert.match(other.stderr, /no event evt_4 \(not_found\)/);
});

test('tail stops where the archived events begin', async () => {
  let asked = 0;
  fake.script({
    'auditd-ai': {
      events: async () => {
        asked += 1;
        return { events: [event(11), event(10)], archived: [9, 8], cursor: '8' };
      },
    },
  });
  const { stdout } = await run('audit', 'tail', '-n', '50', '--json');
  assert.equal(stdout.trim().split('\n').length, 2);
  assert.equal(asked, 1);
});
