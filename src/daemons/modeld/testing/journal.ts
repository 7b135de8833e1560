// Opens a journal for tests, on its own database whose disk can be full, and makes its entries.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import { systemClock } from '../../../platform/clock.ts';
import { makeLog, silentLog } from '../../../platform/log.ts';
import { openOutbox } from '../../../platform/outbox.ts';
import {
  type DeferredSyncDatabase,
  deferSync,
  type Sync,
} from '../../../platform/sql/deferred-sync.ts';
import { openSqlite } from '../../../platform/sql/sqlite.ts';
import { fault } from '../../../wire/errors.ts';
import type { NewEvent } from '../../../wire/events.ts';
import type { CallOutcome, Intent } from '../store/entries.ts';
import { Journal } from '../store/journal.ts';
import { MIGRATIONS } from '../store/tables.ts';
import { freshStateDir } from './harness.ts';

const dirs: string[] = [];
after(() => {
  for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
});

export async function openJournal({ sync }: { sync?: Sync } = {}) {
  const dir = freshStateDir();
  dirs.push(dir);
  const file = join(dir, 'm.sqlite');
  const inner = await deferSync(openSqlite({ file, migrations: MIGRATIONS }), file, {
    onFailedSync: () => undefined,
    ...(sync === undefined ? {} : { sync }),
  });
  const state = {
    isFull: false as boolean | 'at the end',
    /** The number of transactions before one is refused; none is when negative. */
    refuseAfter: -1,
    transactions: 0,
    /** The audit log awaits this before it accepts events. */
    logWaits: Promise.resolve(),
  };
  const db: DeferredSyncDatabase = {
    ...inner,
    commit: (work) => {
      state.transactions++;
      const full = fault('storage_full', 'no room');
      if (state.isFull === true || state.refuseAfter-- === 0) return Promise.reject(full);
      return inner.commit((sql) => {
        const value = work(sql);
        if (state.isFull === 'at the end') throw full;
        return value;
      });
    },
  };
  const events: NewEvent[] = [];
  const outbox = await openOutbox({
    db,
    source: 'modeld',
    clock: systemClock(),
    async append(batch) {
      await state.logWaits;
      events.push(...batch);
    },
    log: silentLog,
  });
  const logged: string[] = [];
  const log = makeLog((line) => logged.push(line));
  const journal = new Journal({ db, outbox, log, lastSeq: 0 });
  const close = async () => {
    outbox.stop();
    await db.close();
  };
  return { db, journal, events, state, logged, close };
}

export const intent = (n: number, more: Partial<Intent> = {}): Intent => ({
  callId: `call_${n}`,
  attempt: 1,
  runId: null,
  fence: null,
  principal: 'person:alice',
  agent: '',
  taskId: null,
  rootTaskId: null,
  via: 'neutral',
  model: 'm',
  provider: 'p',
  upstreamModel: 'm',
  rehearsal: false,
  purpose: '',
  requestHash: 'h',
  context: 'ab'.repeat(32),
  params: 'p',
  reserved: { tokens: 10, costMicrousd: 10 },
  createdMs: 1,
  parts: [{ hash: 'ab'.repeat(32), body: '"x"', labels: 1, source: 's' }],
  event: { id: `call_${n}.attempted.1`, event: 'model.call.attempted' },
  ...more,
});

export const outcome = (seq: number): CallOutcome => ({
  seq,
  callId: `call_${seq}`,
  principal: 'person:alice',
  agent: '',
  createdMs: 1,
  status: 'completed',
  provider: 'p',
  upstreamModel: 'm',
  stopReason: 'end',
  usage: null,
  charged: { tokens: 3, costMicrousd: 4 },
  response: null,
  error: null,
  tries: 1,
  endedMs: 2,
  spent: [{ key: { subject: 'site', name: '', period: '' }, tokens: 3, costMicrousd: 4 }],
  event: { id: `call_${seq}.ended.1`, event: 'model.call.ended' },
});
