// Compares the index with a scan of a real log, with events in memory, in the tables or in both,
// and after a crash.
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { systemClock } from '../../../platform/clock.ts';
import { type Log, silentLog } from '../../../platform/log.ts';
import type { AuditEvent, NewEvent } from '../../../wire/events.ts';
import { type AuditLog, openLog } from '../log/log.ts';
import { type AuditIndex, openIndex, type SeqQuery, type TailFilter } from './store.ts';
import { TAIL_EVENTS_MAX } from './tail.ts';

const KINDS = ['tool.call.attempted', 'tool.call.ended', 'task.created', 'run.ended'] as const;

function eventOf(seq: number): NewEvent {
  return {
    id: `e${seq}`,
    ts: '2026-01-01T00:00:00Z',
    event: KINDS[seq % KINDS.length]!,
    source: 'toold',
    source_store: `s${seq % 2}`,
    source_seq: seq + 1,
    agent: `agent-${seq % 7}`,
    ...(seq % 5 === 0 ? {} : { task_id: `task_${Math.floor(seq / 900)}` }),
    ...(seq % 3 === 0 ? {} : { root_task_id: `task_${Math.floor(seq / 3_000)}` }),
    ...(seq % 4 < 2 ? { tool: 'git.diff' } : {}),
    run_id: `run_${Math.floor(seq / 50)}`,
  };
}

type Site = { dir: string; log: AuditLog; index: AuditIndex };

async function openSite(dir: string, logger: Log = silentLog): Promise<Site> {
  const log = await openLog({
    dir: join(dir, 'audit'),
    clock: systemClock(),
    origin: 'test/audit',
    segmentBytesMax: 1 << 20,
    checkpointEveryMs: 1_000,
  });
  return { dir, log, index: await openIndex({ file: join(dir, 'index.sqlite'), log, logger }) };
}

async function closeSite({ index, log }: Site): Promise<void> {
  await index.close();
  await log.close();
}

async function append({ log, index }: Site, count: number): Promise<void> {
  const events = Array.from({ length: count }, (_, i) => eventOf(log.size + i));
  const { firstSeq } = await log.append(events.map((event) => JSON.stringify(event)));
  index.add(firstSeq, events);
}

async function inDir(work: (dir: string) => Promise<void>): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'auditd-'));
  try {
    await work(dir);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

const COLUMNS = ['task_id', 'agent', 'tool', 'run_id'] as const;

function fits(event: NewEvent, { column, value }: TailFilter): boolean {
  if (column === 'event') return event.event === value || event.event.startsWith(`${value}.`);
  if (column === 'root_task_id') return event.root_task_id === value || event.task_id === value;
  return event[column] === value;
}

/** Finds the same seqs by scanning every event. */
function expected(size: number, query: SeqQuery): number[] {
  const { where, after = -1, before = size, order, limit } = query;
  const seqs: number[] = [];
  for (let seq = 0; seq < size; seq++)
    if (seq > after && seq < before && where.every((one) => fits(eventOf(seq), one)))
      seqs.push(seq);
  return (order === 'asc' ? seqs : seqs.reverse()).slice(0, limit);
}

function queriesOf(size: number): fc.Arbitrary<SeqQuery> {
  const seq = fc.nat(size - 1);
  const own = fc.tuple(seq, fc.constantFrom(...COLUMNS)).map(([at, column]): TailFilter => {
    return { column, value: eventOf(at)[column] ?? 'none' };
  });
  const root = seq.map((at): TailFilter => ({ column: 'root_task_id', value: `task_${at % 12}` }));
  const kind = fc
    .constantFrom('tool', 'tool.call', 'tool.call.ended', 'run', 'tool.cal')
    .map((value): TailFilter => ({ column: 'event', value }));
  return fc.record({
    where: fc.array(fc.oneof(own, root, kind), { minLength: 1, maxLength: 3 }),
    after: fc.option(seq, { nil: undefined }),
    before: fc.option(seq, { nil: undefined }),
    order: fc.constantFrom('asc', 'desc'),
    limit: fc.integer({ min: 1, max: 200 }),
  });
}

async function assertAgrees({ log, index }: Site, numRuns: number): Promise<void> {
  const check = async (query: SeqQuery) =>
    assert.deepEqual(await index.find(query), expected(log.size, query));
  await fc.assert(fc.asyncProperty(queriesOf(log.size), check), { numRuns });
  for (const seq of [0, TAIL_EVENTS_MAX, log.size - 1])
    assert.equal(await index.findId(`e${seq}`), seq);
  assert.equal(await index.findId('none'), undefined);
}

test('a query finds the same events as a full scan, in memory and in the tables', () =>
  inDir(async (dir) => {
    const site = await openSite(dir);
    await append(site, 700);
    const kept = site.index.find({
      where: [{ column: 'agent', value: 'agent-1' }],
      order: 'asc',
      limit: 1000,
    });
    assert.equal((await kept).length, 100);
    for (let n = 0; n < 23; n++) await append(site, 431);
    // Queried at once: some of it is being written right now.
    await assertAgrees(site, 150);
    await append(site, 3);
    await assertAgrees(site, 50);
    await closeSite(site);
    const again = await openSite(dir);
    await append(again, 5);
    await assertAgrees(again, 50);
    await closeSite(again);
  }));

test('after a crash the index reads unwritten events from the log', () =>
  inDir(async (dir) => {
    const site = await openSite(join(dir, 'a'));
    await append(site, TAIL_EVENTS_MAX + 900);
    await assertAgrees(site, 5);
    cpSync(join(dir, 'a'), join(dir, 'b'), { recursive: true });
    const other = await openSite(join(dir, 'b'));
    assert.equal(other.log.size, TAIL_EVENTS_MAX + 900);
    const taken = await other.index.readHighWaterMarks();
    assert.equal(Math.max(...taken.values()), other.log.size);
    await assertAgrees(other, 30);
    await closeSite(other);
    await closeSite(site);
  }));

test('an event that the log wrote itself is found, and so are later ones', () =>
  inDir(async (dir) => {
    const site = await openSite(dir);
    await append(site, 10);
    await site.log.rotateKey({ source: 'auditd-ai', source_store: 'auditd-ai', source_seq: 11 });
    await append(site, 10);
    const find = (value: string) =>
      site.index.find({ where: [{ column: 'event', value }], order: 'desc', limit: 3 });
    assert.deepEqual(await find('audit.key_rotated'), [10]);
    assert.deepEqual(await find('task'), [18, 14, 6]);
    await closeSite(site);
  }));

test('the index of another log is not used', () =>
  inDir(async (dir) => {
    const site = await openSite(join(dir, 'a'));
    await append(site, 20);
    await closeSite(site);
    const other = await openSite(join(dir, 'b'));
    const { firstSeq } = await other.log.append(
      Array.from({ length: 20 }, () => JSON.stringify(eventOf(1))),
    );
    assert.equal(firstSeq, 0);
    await closeSite(other);
    cpSync(join(dir, 'a', 'index.sqlite'), join(dir, 'b', 'index.sqlite'));
    const warnings: string[] = [];
    const logger: Log = { ...silentLog, warn: (message) => warnings.push(message) };
    const mixed = await openSite(join(dir, 'b'), logger);
    const where: TailFilter[] = [{ column: 'agent', value: 'agent-1' }];
    assert.equal((await mixed.index.find({ where, order: 'asc', limit: 100 })).length, 20);
    assert.match(warnings.join(), /rebuilding it/);
    await closeSite(mixed);
  }));

test('a repeat is searched for newest first, and in the whole log', () =>
  inDir(async (dir) => {
    const site = await openSite(dir);
    await append(site, TAIL_EVENTS_MAX);
    await closeSite(site);
    const again = await openSite(dir);
    await append(again, 10);
    const seqs: number[] = [];
    const ids = [0, 5, TAIL_EVENTS_MAX + 1].map((seq) => `e${seq}`);
    for await (const some of again.index.findIds(ids)) seqs.push(...some);
    const read = (seq: number) => (JSON.parse(again.log.readRange(seq, 1)[0]!) as AuditEvent).id;
    assert.deepEqual(
      seqs.filter((seq) => ids.includes(read(seq))),
      [TAIL_EVENTS_MAX + 1, 0, 5],
    );
    await closeSite(again);
  }));
