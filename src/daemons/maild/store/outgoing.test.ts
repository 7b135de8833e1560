// The store of mail to others alone: repeats, crashes, restores, rounds and age.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { manualClock } from '../../../platform/clock.ts';
import { deriveId } from '../../../platform/ids.ts';
import { silentLog } from '../../../platform/log.ts';
import { openOutbox } from '../../../platform/outbox.ts';
import { openSqlite } from '../../../platform/sql/sqlite.ts';
import type { NewEvent } from '../../../wire/events.ts';
import type { CallId, RunId, TaskId } from '../../../wire/primitives.ts';
import { makeOutgoingStore, type NewOutgoing } from './outgoing.ts';
import { MIGRATIONS } from './schema.ts';

const dir = mkdtempSync(join(tmpdir(), 'outgoing-'));
after(() => rmSync(dir, { recursive: true, force: true }));
let made = 0;

async function open() {
  const clock = manualClock(Date.parse('2026-01-01T00:00:00Z'));
  const db = openSqlite({ file: join(dir, `${made++}.sqlite`), migrations: MIGRATIONS });
  const events: NewEvent[] = [];
  const append = async (more: NewEvent[]) => void events.push(...more);
  const outbox = await openOutbox({ db, source: 'maild', clock, append, log: silentLog });
  const store = makeOutgoingStore({ db, outbox, clock });
  const close = async () => {
    await outbox.drain(1_000);
    outbox.stop();
    await db.close();
  };
  return { store, clock, events, close };
}

const mail = (n = 0): NewOutgoing => ({
  call_id: deriveId<CallId>('call', n),
  id: deriveId<string>('mail', n),
  run_id: deriveId<RunId>('run', n),
  task_id: deriveId<TaskId>('task', n),
  root_task_id: deriveId<TaskId>('task', n),
  agent: 'coder',
  message_id: `${n}@example.org`,
  content: '{"text":"Seven herons."}',
  content_hash: 'h',
  ends_ms: Date.parse('2026-01-02T00:00:00Z'),
  recipients: [],
});

test('a call has one mail, however often it is taken, and its text goes when it has ended', async () => {
  const { store, events, close } = await open();
  const row = await store.take(mail());
  assert.deepEqual({ ...(await store.take({ ...mail(), content: '{}' })) }, row);
  await store.end(row, { status: 'sent', recipients: [] });
  await store.end(row, { status: 'failed', recipients: [] });
  const ended = await store.take(mail());
  assert.deepEqual([ended.status, ended.content, ended.round], ['sent', '', 1]);
  assert.equal((await store.listDue(10)).length, 0);
  await close();
  assert.deepEqual(
    events.map(({ event }) => event),
    ['mail.queued', 'mail.sent'],
  );
});

test('a crash leaves unknown what was being given, and a restore all that was due', async () => {
  const { store, close } = await open();
  await store.take(mail(1));
  const handing = await store.take(mail(2));
  await store.markHanding(handing);
  const statuses = async () =>
    Promise.all([1, 2].map(async (n) => (await store.find(mail(n).call_id))?.status));
  assert.equal(await store.markLeftUnknown(['handing']), 1);
  assert.deepEqual(await statuses(), ['due', 'unknown']);
  assert.equal(await store.markLeftUnknown(['due', 'handing']), 1);
  assert.deepEqual(await statuses(), ['unknown', 'unknown']);
  assert.equal((await store.listUnreported(10)).length, 2);
  await close();
});

test('only an unknown mail can be forgotten; its next round has the same Message-ID', async () => {
  const { store, close } = await open();
  const row = await store.take(mail());
  assert.equal(await store.forget(row.call_id), false, 'control');
  await store.end(row, { status: 'unknown', recipients: [] });
  assert.equal(await store.forget(row.call_id), true);
  const next = await store.take(mail());
  assert.deepEqual([next.round, next.status, next.message_id], [2, 'due', row.message_id]);
  assert.equal(next.content, mail().content);
  await close();
});

test('an ended mail is forgotten after a month, and an open one is kept', async () => {
  const { store, clock, close } = await open();
  const ended = await store.take(mail(1));
  await store.end(ended, { status: 'sent', recipients: [] });
  await store.markReported(ended);
  await store.take(mail(2));
  clock.advance(31 * 86_400_000);
  await store.take(mail(3));
  assert.equal(await store.find(mail(1).call_id), undefined);
  assert.equal((await store.find(mail(2).call_id))?.status, 'due');
  await close();
});
