// Tests archiving through auditd-ai's routes: every way to an archived event gives a clear answer,
// repeats are still recognized, and a crash at any step loses nothing.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { manualClock } from '../../platform/clock.ts';
import { hostDaemon, type RunningDaemon } from '../../platform/daemon.ts';
import type { RawReply } from '../../platform/dispatch.ts';
import { makeIdMaker } from '../../platform/ids.ts';
import { localLink, makeClient } from '../../platform/link.ts';
import { silentLog } from '../../platform/log.ts';
import { auditRoutes } from '../../wire/auditd-ai.ts';
import type { Caller } from '../../wire/caller.ts';
import type { Fault } from '../../wire/errors.ts';
import type { NewEvent } from '../../wire/events.ts';
import { auditdConfig } from './config.ts';
import { auditdAi } from './daemon.ts';
import { checkProof } from './log/prove.ts';
import { verifyLog } from './log/verify.ts';

const operator: Caller = { kind: 'operator', principal: 'person:alice' };
const toold: Caller = { kind: 'daemon', principal: 'service:toold', daemon: 'toold' };
const memoryd: Caller = { kind: 'daemon', principal: 'service:memoryd', daemon: 'memoryd' };

async function start(dir: string, failpoint: (name: string) => void = () => {}) {
  const clock = manualClock(Date.parse('2026-01-01T00:00:00Z'));
  const hosted = await hostDaemon(auditdAi, {
    version: 't',
    mode: 'split',
    stateDir: dir,
    runtimeDir: dir,
    operatorKey: 'k',
    config: { 'auditd-ai': auditdConfig.parse({ segment_bytes_max: 65_536 }) },
    clock,
    random: randomBytes,
    newId: makeIdMaker(clock),
    log: silentLog,
    here: new Map(),
    failpoint,
  });
  const as = (caller: Caller) =>
    makeClient(
      auditRoutes,
      localLink(() => hosted.dispatch, caller),
    );
  return { hosted, ask: as(operator), send: as(toold), memory: as(memoryd) };
}
type Started = Awaited<ReturnType<typeof start>>;

const event = (seq: number, over: Partial<NewEvent> = {}): NewEvent => ({
  id: `e${seq}`,
  ts: '2026-01-01T00:00:00Z',
  event: 'task.created',
  source: 'toold',
  source_store: 's1',
  source_seq: seq,
  task_id: `task_${seq % 3}`,
  agent: 'coder',
  ...over,
});
const events = (from: number, count: number): NewEvent[] =>
  Array.from({ length: count }, (_, i) => event(from + i));

const running = new Set<RunningDaemon>();

/** Runs `work` on a daemon with 3,000 events, about 450 in a segment. */
async function withLog(
  work: (started: Started, dir: string, restart: typeof start) => Promise<void>,
  failpoint?: (name: string) => void,
): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'auditd-'));
  const startOne: typeof start = async (...args) => {
    const started = await start(...args);
    running.add(started.hosted);
    return started;
  };
  try {
    const started = await startOne(dir, failpoint);
    for (let n = 0; n < 30; n += 1)
      await started.send.append({ body: { events: events(1 + n * 100, 100) } });
    await work(started, dir, startOne);
  } finally {
    for (const hosted of running) await hosted.stop().catch(() => undefined);
    running.clear();
    rmSync(dir, { recursive: true, force: true });
  }
}

async function exportContent({ hosted }: Started, first: number, checkpoint: string) {
  const reply = (await hosted.dispatch.run({
    method: 'POST',
    path: `/v1/audit/segments/${first}/export`,
    query: {},
    body: { checkpoint },
    caller: operator,
  })) as RawReply;
  const chunks: Buffer[] = [];
  for await (const chunk of reply.body as AsyncIterable<Buffer | string>)
    chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

const copyNamed = (name: string) => ({
  location: '/mnt/elsewhere',
  name,
  size_bytes: 1,
  sha256: 'a'.repeat(64),
});

/** Archives the oldest sealed segment, and returns the request and the lines. */
async function archiveOne(started: Started) {
  const { ask } = started;
  const { note } = await ask.checkpoint({});
  const { segments } = await ask.listSegments({ query: { limit: 1_000 } });
  const { first_seq, segment } = segments.find(({ status }) => status === 'sealed')!;
  const content = await exportContent(started, first_seq, note);
  const request = {
    params: { first_seq },
    body: {
      checkpoint: note,
      content_sha256: createHash('sha256').update(content).digest('hex'),
      archive: copyNamed(`${segment}.gz`),
    },
  };
  const archived = await ask.archiveSegment(request);
  return { request, archived, lines: content.toString().split('\n').slice(1, -1) };
}

const withCode =
  (code: string, message = /./) =>
  (error: Fault): boolean => {
    assert.equal(error.code, code, error.message);
    assert.match(error.message, message);
    return true;
  };

test('segments are listed, archived oldest first, and the log records it', () =>
  withLog(async (started, dir) => {
    const { ask } = started;
    const before = (await ask.listSegments({ query: {} })).segments;
    assert.ok(before.length > 4);
    assert.deepEqual(
      before.map(({ status }) => status),
      [...before.slice(1).map(() => 'sealed'), 'current'],
    );
    assert.equal(
      before.reduce((sum, { events: count }) => sum + count, 0),
      3_000,
    );
    assert.equal(before[0]!.last_at, '2026-01-01T00:00:00Z');
    const { archived, request } = await archiveOne(started);
    assert.equal(archived.segment.status, 'archived');
    const again = await ask.archiveSegment(request);
    assert.deepEqual(again, archived, 'the same request again');
    await archiveOne(started);
    const page = await ask.listSegments({ query: { limit: 2 } });
    assert.deepEqual(
      page.segments.map(({ status, archive }) => [status, archive?.location, archive?.by]),
      [1, 2].map(() => ['archived', '/mnt/elsewhere', 'person:alice']),
    );
    const rest = await ask.listSegments({ query: { limit: 100, cursor: page.cursor! } });
    assert.equal(rest.segments[0]!.status, 'sealed');
    const recorded = await ask.events({ query: { event: 'audit.archived' } });
    assert.deepEqual(
      recorded.events.map(({ id, principal, data }) => [id, principal, data?.name]),
      page.segments.map(({ first_seq, archive }) => [
        `audit.archived:${first_seq}`,
        'person:alice',
        archive!.name,
      ]),
    );
    assert.deepEqual((await verifyLog({ dir: join(dir, 'audit') })).problems, []);
  }));

test('an archived event is still found: by id, number, task and kind, with where it is', () =>
  withLog(async (started, dir, restart) => {
    const { lines } = await archiveOne(started);
    const { length } = lines;
    await started.hosted.stop();
    const next = await restart(dir);
    const { ask } = next;
    const toLocation = /archived on 2026-01-01 to \/mnt\/elsewhere \(audit-0+\.jsonl\.gz\)/;
    await assert.rejects(ask.prove({ params: { id: 'e7' } }), withCode('archived', toLocation));
    await assert.rejects(ask.prove({ params: { id: 'e9999' } }), withCode('not_found'));
    assert.equal((await ask.prove({ params: { id: `e${length + 1}` } })).index, length);
    const seqs = Array.from({ length }, (_, seq) => seq);
    const inTask = seqs.filter((seq) => (seq + 1) % 3 === 1);
    const byTask = await ask.task({ params: { task_id: 'task_1' }, query: { limit: 1_000 } });
    assert.deepEqual(byTask.archived, inTask);
    assert.equal(byTask.events.length, 1_000 - inTask.length);
    const { events: first, archived } = await ask.events({ query: { limit: 10 } });
    assert.deepEqual([first, archived], [[], seqs.slice(0, 10)]);
    const newest = await ask.events({ query: { limit: 10, order: 'desc' } });
    assert.equal(newest.events.length, 10);
    assert.equal('archived' in newest, false);
  }));

test('a follower of an archived event gets a fault; one from the start begins with the first live event', () =>
  withLog(async (started) => {
    const { lines } = await archiveOne(started);
    const follow = async (after: string): Promise<string> => {
      const reply = (await started.hosted.dispatch.run({
        method: 'GET',
        path: '/v1/audit/events',
        query: { follow: '1', after },
        body: undefined,
        caller: operator,
      })) as RawReply;
      let text = '';
      for await (const chunk of reply.body as AsyncIterable<string>) {
        text += chunk;
        if (text.includes('data:')) break;
      }
      return text;
    };
    await assert.rejects(follow('5'), withCode('archived', /event 6 was archived/));
    const start = new RegExp(`^: following\n\nid: ${lines.length}\n`);
    assert.match(await follow('-1'), start);
    assert.match(await follow(String(lines.length - 1)), start);
  }));

test('a line from an archive is proved, and no other', () =>
  withLog(async (started) => {
    const { lines } = await archiveOne(started);
    const { ask } = started;
    const proof = await ask.proveLine({ body: { event: lines[7]! } });
    assert.equal(proof.index, 7);
    assert.ok(checkProof(proof, proof.vkey));
    const live = await ask.prove({ params: { id: 'e2000' } });
    assert.deepEqual(await ask.proveLine({ body: { event: live.event } }), live);
    for (const line of [
      lines[7]!.replace('coder', 'codex'),
      lines[7]!.replace('"seq":7', '"seq":8'),
      live.event.replace('coder', 'codex'),
      '{"seq":99999}',
      '{"seq":-1}',
      '{}',
      'null',
      'nonsense',
    ])
      await assert.rejects(ask.proveLine({ body: { event: line } }), withCode('bad_request'));
  }));

test('a repeat of an archived event is recognized, and an event in its place is not', () =>
  withLog(async (started, dir, restart) => {
    await archiveOne(started);
    const check = async ({ send }: Started): Promise<void> => {
      assert.equal((await send.append({ body: { events: events(1, 5) } })).accepted, 0);
      const forged = event(3, { ts: '2026-01-01T00:00:01Z' });
      await assert.rejects(send.append({ body: { events: [forged] } }), withCode('log_damaged'));
      const other = event(3, { id: 'other' });
      await assert.rejects(send.append({ body: { events: [other] } }), withCode('log_damaged'));
    };
    await check(started);
    await started.hosted.stop();
    await check(await restart(dir));
  }));

test('after the loss of the index, live events are found and archived ones are not', () =>
  withLog(async (started, dir, restart) => {
    const { lines } = await archiveOne(started);
    await started.hosted.stop();
    rmSync(join(dir, 'auditd-ai.sqlite'));
    const { send, ask } = await restart(dir);
    assert.equal((await send.append({ body: { events: events(2_990, 20) } })).accepted, 9);
    await assert.rejects(ask.prove({ params: { id: 'e7' } }), withCode('not_found'));
    assert.equal((await ask.prove({ params: { id: 'e2500' } })).index, 2_499);
    const byTask = await ask.task({ params: { task_id: 'task_1' }, query: { limit: 1_000 } });
    assert.equal(byTask.archived, undefined);
    assert.ok(byTask.events.every(({ seq }) => seq >= lines.length));
  }));

test('which memories were forgotten is known after their events were archived', () =>
  withLog(async (started, dir, restart) => {
    const forgotten = (n: number): NewEvent =>
      event(n, { id: `memory_${n}.${n}`, event: 'memory.forgotten', source: 'memoryd' });
    for (const n of [1, 2, 3]) {
      const some = Array.from({ length: 60 }, (_, i) => forgotten(100 * n + i));
      await started.memory.append({ body: { events: some } });
      const filler = events(3_001 + 600 * n, 600);
      await started.send.append({ body: { events: filler } });
    }
    const forged = event(9_000, { id: 'memory_9.9', event: 'memory.forgotten' });
    await started.send.append({ body: { events: [forged] } });
    const list = async ({ memory }: Started): Promise<string[]> => {
      const ids: string[] = [];
      for (let before: number | undefined; ; ) {
        const query = before === undefined ? {} : { before };
        const page = await memory.forgotten({ query });
        ids.push(...page.events.map(({ id }) => id));
        if (page.next === null) return ids;
        before = page.next;
      }
    };
    const all = await list(started);
    assert.deepEqual([all.length, all[0], all.at(-1)], [180, 'memory_359.359', 'memory_100.100']);
    const { events: found } = await started.ask.events({ query: { event: 'memory.forgotten' } });
    const isLive = async (): Promise<boolean> => {
      const { segments } = await started.ask.listSegments({ query: { limit: 100 } });
      return segments.find(({ status }) => status !== 'archived')!.first_seq <= found[0]!.seq;
    };
    while (await isLive()) await archiveOne(started);
    assert.deepEqual(await list(started), all);
    await started.hosted.stop();
    rmSync(join(dir, 'auditd-ai.sqlite'));
    assert.deepEqual(await list(await restart(dir)), all, 'also after the loss of the index');
  }));

test('a store that sent nothing since its events were archived keeps its numbers', () =>
  withLog(async (started, dir, restart) => {
    const quiet = event(7, { id: 'quiet', source_store: 's0' });
    await started.send.append({ body: { events: [quiet] } });
    await started.send.append({ body: { events: events(3_001, 1_000) } });
    const last = async (): Promise<string> =>
      (await started.ask.listSegments({ query: { limit: 100 } })).segments.at(-2)!.status;
    while ((await last()) === 'sealed') await archiveOne(started);
    await started.hosted.stop();
    rmSync(join(dir, 'auditd-ai.sqlite'));
    const { send } = await restart(dir);
    const older = event(7, { id: 'other', source_store: 's0' });
    await assert.rejects(send.append({ body: { events: [older] } }), withCode('log_damaged'));
    const next = event(8, { id: 'next', source_store: 's0' });
    assert.equal((await send.append({ body: { events: [next] } })).accepted, 1);
  }));

test('a daemon that lost events since archived is an older copy; one that lost newer ones gets them', () =>
  withLog(async (started) => {
    await archiveOne(started);
    const own = (after: number) => started.send.own({ params: { store: 's1' }, query: { after } });
    assert.deepEqual(
      (await own(2_997)).events.map(({ source_seq }) => source_seq),
      [2_998, 2_999, 3_000],
    );
    assert.equal((await own(600)).events.length, 1_000);
    await assert.rejects(own(3), withCode('log_damaged', /events beyond 3 are archived/));
  }));

test('an archive of other content, or against another checkpoint, removes nothing', () =>
  withLog(async (started, dir) => {
    const { ask } = started;
    const { note } = await ask.checkpoint({});
    const body = { checkpoint: note, content_sha256: 'b'.repeat(64), archive: copyNamed('x.gz') };
    const params = { first_seq: 0 };
    await assert.rejects(ask.archiveSegment({ params, body }), withCode('conflict'));
    const wrong = { ...body, checkpoint: note.replace('\n3000\n', '\n2999\n') };
    await assert.rejects(ask.archiveSegment({ params, body: wrong }), withCode('bad_request'));
    await assert.rejects(
      ask.archiveSegment({ params: { first_seq: 5 }, body }),
      withCode('not_found'),
    );
    assert.equal(existsSync(join(dir, 'audit', 'archived.jsonl')), false);
    await archiveOne(started);
    assert.equal(existsSync(join(dir, 'audit', 'archived.jsonl')), true);
  }));

for (const point of [
  'before-archive-record',
  'after-archive-record',
  'after-archive-event',
  'after-archive-remove',
]) {
  test(`a crash ${point} leaves the segment live, or recorded once and removed`, () => {
    let isArmed = true;
    const failpoint = (name: string): void => {
      if (isArmed && name === `auditd-ai.${point}`) throw new Error('killed');
    };
    return withLog(async (started, dir, restart) => {
      await assert.rejects(archiveOne(started));
      await started.hosted.stop();
      isArmed = false;
      const next = await restart(dir);
      const { ask } = next;
      const { segments } = await ask.listSegments({ query: { limit: 1_000 } });
      const isRecorded = point !== 'before-archive-record';
      assert.equal(segments[0]!.status, isRecorded ? 'archived' : 'sealed');
      assert.equal(existsSync(join(dir, 'audit', segments[0]!.segment)), !isRecorded);
      const recorded = await ask.events({ query: { event: 'audit.archived' } });
      assert.equal(recorded.events.length, isRecorded ? 1 : 0);
      if (!isRecorded) await archiveOne(next);
      const { problems, archived } = await verifyLog({ dir: join(dir, 'audit') });
      assert.deepEqual([problems, archived.segments], [[], 1]);
    }, failpoint);
  });
}
