// Tests auditd-ai behind its real dispatch and sockets: deduplication, sources, lookup and proofs.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { manualClock } from '../../platform/clock.ts';
import { hostDaemon, type RunningDaemon } from '../../platform/daemon.ts';
import { makeIdMaker } from '../../platform/ids.ts';
import { localLink, makeClient } from '../../platform/link.ts';
import { silentLog } from '../../platform/log.ts';
import { auditRoutes } from '../../wire/auditd-ai.ts';
import type { Caller } from '../../wire/caller.ts';
import type { DaemonName } from '../../wire/daemons.ts';
import type { Fault } from '../../wire/errors.ts';
import type { NewEvent } from '../../wire/events.ts';
import { auditdConfig } from './config.ts';
import { auditdAi } from './daemon.ts';
import { checkProof } from './log/prove.ts';
import { matchesFilter } from './rules.ts';

const operator: Caller = { kind: 'operator', principal: 'person:alice' };
const peer = (daemon: DaemonName): Caller => ({
  kind: 'daemon',
  principal: `service:${daemon}`,
  daemon,
});

/** Stopped after each test, also when it failed: an open socket would keep the process. */
const running = new Set<RunningDaemon>();

async function start(
  dir: string,
  failpoint?: (name: string) => void,
): Promise<{ hosted: RunningDaemon; as: (caller: Caller) => ReturnType<typeof clientOf> }> {
  const clock = manualClock(Date.parse('2026-01-01T00:00:00Z'));
  const hosted = await hostDaemon(auditdAi, {
    version: 't',
    mode: 'split',
    stateDir: dir,
    runtimeDir: dir,
    operatorKey: 'k',
    config: { 'auditd-ai': auditdConfig.parse({}) },
    clock,
    random: randomBytes,
    newId: makeIdMaker(clock),
    log: silentLog,
    here: new Map(),
    ...(failpoint === undefined ? {} : { failpoint: failpoint }),
  });
  running.add(hosted);
  return { hosted, as: (caller) => clientOf(hosted, caller) };
}

const clientOf = (hosted: RunningDaemon, caller: Caller) =>
  makeClient(
    auditRoutes,
    localLink(() => hosted.dispatch, caller),
  );

const event = (seq: number, fields: Partial<NewEvent> = {}): NewEvent => ({
  id: `e${seq}`,
  ts: '2026-01-01T00:00:00Z',
  event: 'task.created',
  source: 'toold',
  source_store: 's1',
  source_seq: seq,
  task_id: `task_${seq % 3}`,
  agent: 'coder',
  ...fields,
});

async function inDir(work: (dir: string) => Promise<void>): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'auditd-'));
  try {
    await work(dir);
  } finally {
    for (const hosted of running) await hosted.stop().catch(() => undefined);
    running.clear();
    rmSync(dir, { recursive: true, force: true });
  }
}

test('a resent event is accepted once, also after a restart', () =>
  inDir(async (dir) => {
    const first = await start(dir);
    const batch = [event(1), event(2), event(3)];
    const toold = first.as(peer('toold'));
    assert.equal((await toold.append({ body: { events: batch } })).accepted, 3);
    assert.equal((await toold.append({ body: { events: [...batch, event(4)] } })).accepted, 1);
    await first.hosted.stop();
    const second = await start(dir);
    const again = second.as(peer('toold'));
    assert.equal(
      (await again.append({ body: { events: [...batch, event(4), event(5)] } })).accepted,
      1,
    );
    const { events } = await second.as(operator).events({ query: {} });
    assert.deepEqual(
      events.map((e) => e.id),
      ['e1', 'e2', 'e3', 'e4', 'e5'],
    );
    await second.hosted.stop();
  }));

/** Changes the index while the daemon does not look. */
function changeIndex(dir: string, text: string): void {
  const db = new DatabaseSync(join(dir, 'auditd-ai.sqlite'));
  db.exec(text);
  db.close();
}

test('an event is accepted once also when a step fails just after it was written', () =>
  inDir(async (dir) => {
    let fails = true;
    const { as } = await start(dir, (name) => {
      if (fails && name === 'auditd-ai.after-append') throw new Error('not now');
    });
    const body = { events: [event(1), event(2)] };
    await assert.rejects(as(peer('toold')).append({ body }));
    fails = false;
    assert.deepEqual(await as(peer('toold')).append({ body }), { size: 2, accepted: 0 });
    const { events } = await as(operator).events({ query: {} });
    assert.deepEqual(
      events.map(({ id }) => id),
      ['e1', 'e2'],
    );
  }));

test('an event is accepted once also when the index is behind the log', () =>
  inDir(async (dir) => {
    const first = await start(dir);
    await first.as(peer('toold')).append({ body: { events: [event(1), event(2)] } });
    await first.hosted.stop();
    changeIndex(
      dir,
      "CREATE TRIGGER stuck BEFORE INSERT ON id_hashes BEGIN SELECT RAISE(ABORT, 'stuck'); END",
    );
    const second = await start(dir);
    const more = [event(3), event(4)];
    assert.equal((await second.as(peer('toold')).append({ body: { events: more } })).accepted, 2);
    await second.hosted.stop();
    const third = await start(dir);
    const answer = await third.as(peer('toold')).append({ body: { events: more } });
    assert.deepEqual(answer, { size: 4, accepted: 0 });
    await third.hosted.stop();
  }));

test('a store restored from an older copy is refused, and none of its events is lost silently', () =>
  inDir(async (dir) => {
    const first = await start(dir);
    const batch = [event(1), event(2), event(3)];
    await first.as(peer('toold')).append({ body: { events: batch } });
    const refused = async (events: NewEvent[], toold = first.as(peer('toold'))) =>
      assert.rejects(toold.append({ body: { events } }), (error: Fault) => {
        assert.equal(error.code, 'log_damaged');
        assert.match(error.message, /toold's store went back/);
        assert.match(error.hint, /restore toold's store and the audit directory/);
        return true;
      });
    await refused([event(1), event(2, { id: 'other' })]);
    await refused([event(2, { id: 'e3' })]);
    await refused([event(3, { ts: '2026-01-01T00:00:01Z' })]);
    // New events wait, too: they would be acknowledged together with the lost one.
    await refused([event(3, { id: 'other' }), event(4)]);
    await refused([event(6), event(5)]);
    const { events } = await first.as(operator).events({ query: {} });
    assert.equal(events.length, 3);
    await first.hosted.stop();
    const second = await start(dir);
    await refused([event(3, { id: 'other' })], second.as(peer('toold')));
    const twice = [event(3), event(4), event(4)];
    assert.equal((await second.as(peer('toold')).append({ body: { events: twice } })).accepted, 1);
    await second.hosted.stop();
  }));

const damages: Record<string, (dir: string) => void> = {
  'a table is missing': (dir) => changeIndex(dir, 'DROP TABLE progress'),
  'a table has an older shape': (dir) =>
    changeIndex(dir, 'DROP TABLE id_hashes; CREATE TABLE id_hashes (id TEXT, seq INTEGER)'),
  'it was made in another way': (dir) => changeIndex(dir, 'UPDATE progress SET shape = 1'),
  'it has more events than the log': (dir) => changeIndex(dir, 'UPDATE progress SET next = 99'),
  'every page after the first is garbage': (dir) => {
    const file = join(dir, 'auditd-ai.sqlite');
    changeIndex(dir, 'PRAGMA wal_checkpoint(TRUNCATE)');
    const bytes = readFileSync(file);
    writeFileSync(file, bytes.fill(0xa5, 4096));
  },
  'only a page deep in the lists is garbage': (dir) => {
    const file = join(dir, 'auditd-ai.sqlite');
    changeIndex(dir, 'PRAGMA wal_checkpoint(TRUNCATE)');
    const db = new DatabaseSync(file);
    const { pageno } = db
      .prepare("SELECT max(pageno) AS pageno FROM dbstat WHERE name = 'postings'")
      .get() as { pageno: number };
    db.close();
    const bytes = readFileSync(file);
    writeFileSync(file, bytes.fill(0xa5, (pageno - 1) * 4096, pageno * 4096));
  },
};
for (const [what, damage] of Object.entries(damages))
  test(`the index is rebuilt from the log when ${what}`, () =>
    inDir(async (dir) => {
      const first = await start(dir);
      const all = Array.from({ length: 900 }, (_, i) => event(i + 1));
      await first.as(peer('toold')).append({ body: { events: all } });
      await first.hosted.stop();
      damage(dir);
      const second = await start(dir);
      const answer = await second.as(peer('toold')).append({ body: { events: [event(1)] } });
      assert.equal(answer.accepted, 0);
      for (const n of [0, 1, 2]) {
        const params = { task_id: `task_${n}` };
        const { events } = await second.as(operator).task({ params, query: { limit: 500 } });
        assert.equal(events.length, 300);
      }
      assert.equal((await second.as(operator).prove({ params: { id: 'e900' } })).index, 899);
      await second.hosted.stop();
    }));

test("a daemon can only append as itself, and cannot use up another's numbers", () =>
  inDir(async (dir) => {
    const { hosted, as } = await start(dir);
    const forged = event(1_000_000, { source: 'agentd', source_store: 'a1' });
    await assert.rejects(as(peer('toold')).append({ body: { events: [forged] } }), {
      code: 'forbidden_caller',
    });
    await as(peer('toold')).append({
      body: { events: [event(1_000_000, { id: 'x', source_store: 'a1' })] },
    });
    const own = event(1, { source: 'agentd', source_store: 'a1' });
    assert.equal((await as(peer('agentd')).append({ body: { events: [own] } })).accepted, 1);
    await hosted.stop();
  }));

test('a daemon reads its own events above a number, in order and in pages', () =>
  inDir(async (dir) => {
    const first = await start(dir);
    const toold = first.as(peer('toold'));
    const seqs = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, i) => from + i);
    await toold.append({ body: { events: seqs(1, 1_500).map((seq) => event(seq)) } });
    const other = seqs(1, 1_200).map((seq) =>
      event(seq, { id: `o${seq}`, source_store: 's2', task_id: 'other' }),
    );
    await toold.append({ body: { events: other } });
    await toold.append({ body: { events: [event(9_000), event(9_001)] } });
    await first.hosted.stop();
    const { as } = await start(dir);
    const own = async (caller: Caller, store: string, after: number): Promise<number[]> => {
      const { events } = await as(caller).own({ params: { store }, query: { after } });
      for (const one of events) assert.equal(one.source_store, store);
      return events.map((one) => one.source_seq);
    };
    const me = peer('toold');
    assert.deepEqual(await own(me, 's1', 9_001), []);
    assert.deepEqual(await own(me, 's1', 9_000), [9_001]);
    assert.deepEqual(await own(me, 's1', 1_490), [...seqs(1_491, 1_500), 9_000, 9_001]);
    assert.deepEqual(await own(me, 's1', 0), seqs(1, 1_001));
    assert.deepEqual(await own(me, 's1', 1_000), [...seqs(1_001, 1_500), 9_000, 9_001]);
    assert.deepEqual(await own(me, 's2', 1_198), [1_199]);
    assert.deepEqual(await own(me, 'none', 0), []);
    // Another daemon's store has no events of the caller.
    assert.deepEqual(await own(peer('modeld'), 's1', 0), []);
    await assert.rejects(own(operator, 's1', 0), { code: 'forbidden_caller' });
  }));

test('[R299, R300, R301, R302] events are found by task, agent, tool, kind and page, in both orders', () =>
  inDir(async (dir) => {
    const { hosted, as } = await start(dir);
    const all = Array.from({ length: 30 }, (_, i) =>
      event(i + 1, i % 5 === 0 ? { event: 'tool.call.ended', tool: 'git.diff' } : {}),
    );
    await as(peer('toold')).append({ body: { events: all } });
    const ask = as(operator);
    const byTask = await ask.task({ params: { task_id: 'task_1' }, query: { limit: 4 } });
    assert.deepEqual(
      byTask.events.map((e) => e.id),
      ['e1', 'e4', 'e7', 'e10'],
    );
    const next = await ask.task({
      params: { task_id: 'task_1' },
      query: { limit: 4, cursor: byTask.cursor! },
    });
    assert.equal(next.events[0]?.id, 'e13');
    const newest = await ask.agent({
      params: { agent: 'coder' },
      query: { limit: 2, order: 'desc' },
    });
    assert.deepEqual(
      newest.events.map((e) => e.id),
      ['e30', 'e29'],
    );
    assert.equal((await ask.tool({ params: { tool: 'git.diff' }, query: {} })).events.length, 6);
    assert.equal((await ask.events({ query: { event: 'tool.call.ended' } })).events.length, 6);
    assert.deepEqual(
      (await ask.events({ query: { after: 27 } })).events.map((e) => e.seq),
      [28, 29],
    );
    await hosted.stop();
  }));

test('a list finds the same events as a follower with the same filter', () =>
  inDir(async (dir) => {
    const { hosted, as } = await start(dir);
    const kinds = ['tool.call.attempted', 'tool.call.ended', 'task.created', 'run.ended'] as const;
    const all = Array.from({ length: 24 }, (_, i) =>
      event(i + 1, {
        event: kinds[i % kinds.length]!,
        run_id: `run_${i % 2}`,
        ...(i % 5 === 0 ? {} : { root_task_id: 'task_0' }),
      }),
    );
    await as(peer('toold')).append({ body: { events: all } });
    const { events: logged } = await as(operator).events({ query: {} });
    for (const query of [
      { event: 'tool' },
      { event: 'tool.call' },
      { event: 'tool.call.ended' },
      { event: 'tool.cal' },
      { root_task_id: 'task_0' },
      { root_task_id: 'task_1' },
      { event: 'tool.call', root_task_id: 'task_0', run_id: 'run_1' },
    ]) {
      const { events } = await as(operator).events({ query });
      const wanted = logged.filter((one) => matchesFilter(query, one));
      assert.equal(wanted.length > 0, query.event !== 'tool.cal');
      assert.deepEqual(events, wanted);
    }
    await hosted.stop();
  }));

test('a hold lets appends wait, ends on request or by itself, and needs the operator key', () =>
  inDir(async (dir) => {
    const { as } = await start(dir);
    const { append } = as(peer('toold'));
    await append({ body: { events: [event(1)] } });
    const { hold } = await as(operator).holdLog({ body: { hold_ms: 2_000 } });
    assert.equal(hold.checkpoint.size, 1);
    let isDone = false;
    const appending = append({ body: { events: [event(2)] } }).then(() => {
      isDone = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 30));
    assert.equal(isDone, false);
    const release = { params: { id: hold.id } };
    assert.deepEqual(await as(operator).releaseLog(release), { held: true });
    await appending;
    assert.deepEqual(await as(operator).releaseLog(release), { held: false });
    const short = await as(operator).holdLog({ body: { hold_ms: 1 } });
    await append({ body: { events: [event(3)] } });
    const late = { params: { id: short.hold.id } };
    assert.deepEqual(await as(operator).releaseLog(late), { held: false });
    const ann: Caller = { kind: 'operator', principal: 'person:ann', key: 'people/ann' };
    await assert.rejects(
      as(ann).holdLog({ body: { hold_ms: 1 } }),
      (e: Fault) => e.code === 'forbidden_caller',
    );
  }));

test('[R436] an event is proved against a signed checkpoint, before and after the key changed', () =>
  inDir(async (dir) => {
    const { hosted, as } = await start(dir);
    await as(peer('toold')).append({ body: { events: [event(1), event(2)] } });
    const proof = await as(operator).prove({ params: { id: 'e2' } });
    assert.ok(checkProof(proof, proof.vkey));
    const { vkey, previous } = await as(operator).rotateKey({});
    assert.notEqual(vkey, previous);
    await as(peer('toold')).append({ body: { events: [event(3)] } });
    const later = await as(operator).prove({ params: { id: 'e3' } });
    assert.equal(later.vkey, vkey);
    assert.ok(checkProof(later, vkey) && !checkProof(later, previous));
    await assert.rejects(as(operator).prove({ params: { id: 'none' } }), { code: 'not_found' });
    await hosted.stop();
  }));
