// Runs every statement of egressd's store.
import { MIGRATIONS, makeStore } from '../../../../src/daemons/egressd/store.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { makeIdMaker } from '../../../../src/platform/ids.ts';
import { silentLog } from '../../../../src/platform/log.ts';
import { openOutbox } from '../../../../src/platform/outbox.ts';
import { openSqlite } from '../../../../src/platform/sql/sqlite.ts';
import type { EventDraft } from '../../../../src/wire/events.ts';
import type { RunId } from '../../../../src/wire/primitives.ts';
import { forEachOf, HISTORY, type StoreUse } from '../record.ts';

const clock = systemClock();
const newId = makeIdMaker(clock);
const draft = (): EventDraft => ({ id: newId('x'), event: 'network.allowed' });
const answer = { status: 200 } as never;

async function use(file: string): Promise<void> {
  const db = openSqlite({ file, migrations: MIGRATIONS });
  const options = { db, source: 'egressd', clock, append: async () => {}, log: silentLog };
  const outbox = await openOutbox(options);
  const store = makeStore(db, outbox);
  const putRun = async () => {
    const runId = newId<RunId>('run');
    await store.upsertRun(runId, { fence: 1 } as never);
    return runId;
  };
  await forEachOf(2 * HISTORY, async (n) => {
    const runId = await putRun();
    const usage = { runId, bytesSent: 1, bytesReceived: 1 };
    await store.openConnection(`connection ${n}`, draft(), draft());
    await store.closeConnection(`connection ${n}`, draft(), usage);
    await store.saveUsage([usage]);
    await store.saveResponder(runId, 'a.test');
    // Most answers are deleted after a while.
    const times = { nowMs: n < 2 * HISTORY - 3 ? 1 : clock.nowMs(), keepMs: 60_000 };
    const callId = newId<string>('call');
    await store.beginFetch(callId, 'h', times);
    await store.endFetch(callId, answer);
    await store.endRun(runId, 1);
    if (n < HISTORY) await store.pruneRuns([runId]);
  });
  await store.beginFetch('call_last', 'h', { nowMs: clock.nowMs(), keepMs: 60_000 });
  await store.findFetch('call_1');
  await store.forgetFetch('call_last');
  await forEachOf(3, async (n) => {
    await putRun();
    await store.openConnection(`open ${n}`, draft(), draft());
  });
  await store.listLiveRuns();
  await store.closeLostConnections();
  await store.addEvent(draft());
  outbox.stop();
  await db.close();
}

export const egressd: StoreUse = {
  daemon: 'egressd',
  smallTables: {
    outbox: 'delivered events are deleted',
    outbox_store: 'one row',
    connections: 'deleted when they are closed',
  },
  use,
};
