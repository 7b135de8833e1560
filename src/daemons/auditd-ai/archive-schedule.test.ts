// Tests the hourly archiving of auditd-ai: only what is old and covered by the checkpoint of an
// earlier pass is moved, and nothing if the directory or the log is not as that pass left it.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { manualClock } from '../../platform/clock.ts';
import { hostDaemon } from '../../platform/daemon.ts';
import { makeIdMaker } from '../../platform/ids.ts';
import { localLink, makeClient } from '../../platform/link.ts';
import { silentLog } from '../../platform/log.ts';
import { retentionConfig } from '../../platform/retention-config.ts';
import { auditRoutes } from '../../wire/auditd-ai.ts';
import type { Caller } from '../../wire/caller.ts';
import type { NewEvent } from '../../wire/events.ts';
import { auditdConfig } from './config.ts';
import { auditdAi } from './daemon.ts';
import { verifyLog } from './log/verify.ts';

const HOUR_MS = 3_600_000;
const operator: Caller = { kind: 'operator', principal: 'person:alice' };
const toold: Caller = { kind: 'daemon', principal: 'service:toold', daemon: 'toold' };

async function start(dir: string, archiveDir: string | undefined) {
  const clock = manualClock(Date.parse('2026-01-01T00:00:00Z'));
  const audit = archiveDir === undefined ? {} : { age: '24h', archive_dir: archiveDir };
  const hosted = await hostDaemon(auditdAi, {
    version: 't',
    mode: 'split',
    stateDir: dir,
    runtimeDir: dir,
    operatorKey: 'k',
    config: {
      'auditd-ai': auditdConfig.parse({ segment_bytes_max: 65_536 }),
      retention: retentionConfig.parse({ audit }),
    },
    clock,
    random: randomBytes,
    newId: makeIdMaker(clock),
    log: silentLog,
    here: new Map(),
    failpoint: () => {},
  });
  const as = (caller: Caller) =>
    makeClient(
      auditRoutes,
      localLink(() => hosted.dispatch, caller),
    );
  const ask = as(operator);
  let sent = 0;
  const list = () => ask.listSegments({ query: { limit: 1_000 } });
  return {
    hosted,
    list,
    /** Appends 1,000 events of now, about 450 in a segment. */
    async fill(): Promise<void> {
      const ts = new Date(clock.nowMs()).toISOString();
      for (let n = 0; n < 10; n += 1) {
        const events = Array.from({ length: 100 }, (): NewEvent => {
          sent += 1;
          const source = { source: 'toold', source_store: 's1', source_seq: sent } as const;
          return { id: `e${sent}`, ts, event: 'task.created', agent: 'coder', ...source };
        });
        await as(toold).append({ body: { events } });
      }
    },
    /** Lets time pass, and the pass that is due then end. Resolves to its error. */
    async pass(ms = HOUR_MS): Promise<string | null> {
      const before = (await list()).automatic?.last_at;
      clock.advance(ms);
      for (;;) {
        const { automatic } = await list();
        if (automatic!.last_at !== before) return automatic!.error;
        await setTimeout(5);
      }
    },
    advance: clock.advance,
    async countArchived(): Promise<number> {
      const { segments } = await list();
      return segments.filter(({ status }) => status === 'archived').length;
    },
    events: () => ask.events({ query: { event: 'audit.archived', limit: 100 } }),
  };
}
type Started = Awaited<ReturnType<typeof start>>;

async function withLog(
  work: (started: Started, to: string, logDir: string) => Promise<void>,
  hasArchive = true,
): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'auditd-'));
  const to = join(dir, 'archive');
  mkdirSync(to);
  const started = await start(dir, hasArchive ? to : undefined);
  try {
    await work(started, to, join(dir, 'audit'));
  } finally {
    await started.hosted.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

test('old segments are archived against the checkpoint of the pass before', () =>
  withLog(async (started, to, logDir) => {
    await started.fill();
    assert.equal(await started.pass(), null);
    assert.deepEqual(readdirSync(to), ['checkpoint'], 'the first pass only keeps a checkpoint');
    assert.equal(await started.pass(), null);
    assert.equal(await started.countArchived(), 0, 'not old enough');
    await started.fill();
    assert.equal(await started.pass(23 * HOUR_MS), null);
    const archived = await started.countArchived();
    assert.ok(archived >= 2);
    assert.equal(readdirSync(to).length, archived + 1);
    const { segments } = await started.list();
    assert.ok(segments.filter(({ status }) => status === 'sealed').length >= 2, 'the newer ones');
    const { events } = await started.events();
    assert.deepEqual(
      events.map(({ principal, data }) => [principal, data?.location]),
      Array(archived).fill(['service:auditd-ai', to]),
    );
    const report = await verifyLog({
      dir: logDir,
      archiveDir: to,
      from: [readFileSync(join(to, 'checkpoint'), 'utf8')],
    });
    assert.deepEqual([report.problems, report.archived.segments], [[], archived]);
    assert.equal(report.hashed, report.size);
  }));

test('nothing is archived without the checkpoint of an earlier pass, until it is back', () =>
  withLog(async (started, to) => {
    await started.fill();
    await started.pass();
    assert.equal(await started.pass(25 * HOUR_MS), null);
    const archived = await started.countArchived();
    assert.ok(archived > 0);
    await started.fill();
    assert.equal(await started.pass(), null);
    renameSync(to, `${to}-elsewhere`);
    assert.match((await started.pass(25 * HOUR_MS))!, /archive not found/);
    mkdirSync(to);
    assert.match((await started.pass())!, /checkpoint not found, although .* had archives/);
    writeFileSync(join(to, 'checkpoint'), 'nonsense');
    assert.ok((await started.pass())!);
    assert.equal(await started.countArchived(), archived);
    rmSync(to, { recursive: true });
    renameSync(`${to}-elsewhere`, to);
    assert.equal(await started.pass(), null);
    assert.ok((await started.countArchived()) > archived, 'the control');
  }));

test('a log that does not fit the checkpoint of an earlier pass is left alone', () =>
  withLog(async (started, to) => {
    await started.fill();
    await started.pass();
    const file = join(to, 'checkpoint');
    const kept = readFileSync(file, 'utf8');
    writeFileSync(file, kept.replace(/^(.*\n)(\d+)\n/, '$199999\n'));
    assert.match((await started.pass(25 * HOUR_MS))!, /not signed by a key of this log/);
    assert.equal(await started.countArchived(), 0);
    assert.match(readFileSync(file, 'utf8'), /\n99999\n/, 'it is not replaced');
    writeFileSync(file, kept);
    assert.equal(await started.pass(), null);
    assert.ok((await started.countArchived()) > 0, 'the control');
  }));

test('without a directory nothing is archived', () =>
  withLog(async (started) => {
    await started.fill();
    for (let n = 0; n < 30; n += 1) started.advance(24 * HOUR_MS);
    await setTimeout(50);
    assert.equal(await started.countArchived(), 0);
    assert.equal((await started.list()).automatic, undefined);
  }, false));
