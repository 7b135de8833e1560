// Runs every statement of maild.

import { COPY_PLACES } from '../../../../src/daemons/maild/erase-copies.ts';
import { makeIncomingStore } from '../../../../src/daemons/maild/store/incoming.ts';
import { MIGRATIONS } from '../../../../src/daemons/maild/store/schema.ts';
import { makeStore } from '../../../../src/daemons/maild/store/store.ts';
import { manualClock } from '../../../../src/platform/clock.ts';
import { makeIdMaker } from '../../../../src/platform/ids.ts';
import { silentLog } from '../../../../src/platform/log.ts';
import { openOutbox } from '../../../../src/platform/outbox.ts';
import { openSqlite } from '../../../../src/platform/sql/sqlite.ts';
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
  await eraseEverything(db, COPY_PLACES);
  outbox.stop();
  await db.close();
}

export const maild: StoreUse = {
  daemon: 'maild',
  smallTables: { outbox: 'delivered events are deleted', outbox_store: 'one row' },
  use,
};
