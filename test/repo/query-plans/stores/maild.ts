// Runs every statement of maild.

import { COPY_PLACES } from '../../../../src/daemons/maild/erase-copies.ts';
import { makeIncomingStore } from '../../../../src/daemons/maild/store/incoming.ts';
import {
  makeOutgoingStore,
  type OutgoingStore,
} from '../../../../src/daemons/maild/store/outgoing.ts';
import { MIGRATIONS } from '../../../../src/daemons/maild/store/schema.ts';
import { makeStore } from '../../../../src/daemons/maild/store/store.ts';
import { type ManualClock, manualClock } from '../../../../src/platform/clock.ts';
import { deriveId, makeIdMaker } from '../../../../src/platform/ids.ts';
import { silentLog } from '../../../../src/platform/log.ts';
import { openOutbox } from '../../../../src/platform/outbox.ts';
import { openSqlite } from '../../../../src/platform/sql/sqlite.ts';
import type { CallId, RunId, TaskId } from '../../../../src/wire/primitives.ts';
import { eraseEverything } from '../erase-copies.ts';
import { forEachOf, HISTORY, type StoreUse } from '../record.ts';

const YEARS_MS = 2 * 365 * 86_400_000;

async function use(file: string): Promise<void> {
  const clock = manualClock(Date.parse('2026-01-01T00:00:00Z'));
  const newId = makeIdMaker(clock);
  const db = openSqlite({ file, migrations: MIGRATIONS });
  const append = async () => {};
  const outbox = await openOutbox({ db, source: 'maild', clock, append, log: silentLog });
  const store = makeStore({ db, outbox, clock });
  const mail = (n: number, atMs = clock.nowMs() + n) => ({
    id: newId<string>('mail'),
    box: 'ann',
    kind: 'result',
    message_id: `${n}@agentd.localhost`,
    context_id: `ctx_${n >> 2}`,
    task_id: null,
    subject: 'Herons',
    at_ms: atMs,
    sizeBytes: 1,
    by: 'service:agentd',
  });
  await forEachOf(4 * HISTORY, async (n) => {
    const row = mail(n);
    await store.addDelivered([row]);
    await store.find(row.id);
    await store.findByMessage('ann', row.message_id);
    await store.addSent(mail(n));
    await store.once({ scope: 's', key: row.id, requestHash: 'h' }, async () => row.id);
    await store.findThread('ann', row.context_id);
  });
  await store.addDelivered([mail(0, clock.nowMs() - YEARS_MS)]);
  await store.addDelivered([mail(1)]);
  const incoming = makeIncomingStore({ db, outbox, clock });
  const take = (n: number, takenMs = clock.nowMs() + n, status: 'due' | 'ignored' = 'due') =>
    incoming.take(
      {
        id: newId<string>('mail'),
        sender: 'person:ann',
        owner: 'ann',
        envelope_from: 'ann@example.org',
        message_id: `in-${n}@example.org`,
        answers: '[]',
        subject: 'Herons',
        text: 'Seven.',
        attachments: 0,
        raw: Buffer.from('x'),
        taken_ms: takenMs,
      },
      [
        { recipient: 'agent:coder', fingerprint: `coder ${n}`, status },
        { recipient: 'person:bob', fingerprint: `bob ${n}`, status: 'ignored' },
      ],
    );
  await take(-1, clock.nowMs() - YEARS_MS, 'ignored');
  await take(-2, clock.nowMs() - YEARS_MS);
  await forEachOf(4 * HISTORY, async (n) => {
    await take(n);
    clock.advance(1);
    for (const due of await incoming.listDue(10)) {
      await incoming.postpone(due, clock.nowMs());
      await incoming.endRecipient(due, { status: 'done', became: 'task' });
    }
    await incoming.findNextMs();
  });
  await useOutgoing(makeOutgoingStore({ db, outbox, clock }), clock);
  await eraseEverything(db, COPY_PLACES);
  outbox.stop();
  await db.close();
}

async function useOutgoing(store: OutgoingStore, clock: ManualClock): Promise<void> {
  const mail = (n: number) => ({
    call_id: deriveId<CallId>('call', 'out', n),
    id: deriveId<string>('mail', n),
    run_id: deriveId<RunId>('run', n),
    task_id: deriveId<TaskId>('task', n),
    root_task_id: deriveId<TaskId>('task', n),
    agent: 'coder',
    message_id: `${n}@example.org`,
    content: '{}',
    content_hash: 'h',
    ends_ms: clock.nowMs() + 1_000,
    recipients: [],
  });
  await forEachOf(4 * HISTORY, async (n) => {
    const row = await store.take(mail(n));
    await store.find(row.call_id);
    await store.beginAttempt(row, 'smtp.example.org:587');
    await store.defer(row, { recipients: [], nextMs: clock.nowMs(), reason: 'replied' });
    await store.postpone(row, clock.nowMs());
    await store.listDue(4);
    await store.findNextMs();
    await store.markHanding(row);
    if (n % 50 === 0) await store.markLeftUnknown(['handing']);
    else await store.end(row, { status: 'sent', recipients: [] });
    for (const ended of await store.listUnreported(4)) await store.markReported(ended);
    await store.forget(row.call_id);
    clock.advance(1);
  });
  clock.advance(YEARS_MS);
  await store.take(mail(-1));
}

export const maild: StoreUse = {
  daemon: 'maild',
  smallTables: { outbox: 'delivered events are deleted', outbox_store: 'one row' },
  use,
};
