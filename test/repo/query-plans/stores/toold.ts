// Runs every statement of toold's store.

import { makeApprovedHosts } from '../../../../src/daemons/toold/permission/approved-hosts.ts';
import { openContainment } from '../../../../src/daemons/toold/permission/containment.ts';
import { COPY_PLACES } from '../../../../src/daemons/toold/store/copy-places.ts';
import { makeRunRows } from '../../../../src/daemons/toold/store/run-rows.ts';
import { ID_COLUMNS, MIGRATIONS } from '../../../../src/daemons/toold/store/schema.ts';
import { makeStore, type TooldStore } from '../../../../src/daemons/toold/store/store.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { makeIdMaker } from '../../../../src/platform/ids.ts';
import { silentLog } from '../../../../src/platform/log.ts';
import { openOutbox } from '../../../../src/platform/outbox.ts';
import { openSqlite } from '../../../../src/platform/sql/sqlite.ts';
import type { EventDraft } from '../../../../src/wire/events.ts';
import type { ApprovalId, CallId, RunId } from '../../../../src/wire/primitives.ts';
import { tooldRoutes } from '../../../../src/wire/toold.ts';
import { eraseEverything } from '../erase-copies.ts';
import {
  forEachOf,
  HISTORY,
  listChoices,
  listFilterNames,
  type StoreUse,
  useIds,
} from '../record.ts';

const TOOL = 'test.echo';
const clock = systemClock();
const newId = makeIdMaker(clock);
const WAIT = { id: 'wait_1', kind: 'approval' };
const DENIAL = { error: '{}', hash: 'h' };

const draft = (): EventDraft => ({ id: newId('x'), event: 'tool.call.attempted' });
const newCall = (runId: RunId) => ({
  call_id: newId<CallId>('call'),
  run_id: runId,
  fence: 1,
  tool: TOOL,
  purpose: '',
  arguments: '{}',
  arguments_hash: 'h',
  nowMs: clock.nowMs(),
});

/** One call for each way that a call can go. */
async function makeCalls(store: TooldStore, runId: RunId): Promise<void> {
  const end = (callId: CallId) =>
    store.recordOutcome(
      callId,
      { status: 'completed', result: '{}', error: null, hash: 'h' },
      { endedMs: clock.nowMs(), ended: draft() },
    );
  const start = async () => {
    const call = newCall(runId);
    await store.recordIntent(call, draft());
    return call.call_id;
  };
  await end(await start());
  await store.recordDenied(newCall(runId), DENIAL, draft());
  const requested = newCall(runId);
  await store.recordRequested(requested, draft());
  await store.recordApprovalWait(requested.call_id, WAIT, 'approval_1');
  const attempt = { callId: requested.call_id, fence: 1, attempt: 1, nowMs: clock.nowMs() };
  await store.recordAttempt(attempt, draft());
  await store.returnToRequested(requested.call_id);
  await store.recordRefused(requested.call_id, DENIAL, { endedMs: clock.nowMs(), denied: draft() });
  const waiting = await start();
  await store.recordWaiting(waiting, WAIT, draft());
  await end(waiting);
  const released = await start();
  await store.releaseCall(released);
  await end(released);
  const unknown = await start();
  await store.markUnknown(unknown);
  await store.recordAsked(unknown, WAIT, draft());
  await end(unknown);
  const unsure = newCall(runId);
  await store.recordUnsure(unsure, 'backup_1', draft());
  await store.recordConfirmed(unsure.call_id, 'backup_1');
  await end(unsure.call_id);
  const again = await start();
  await store.returnToUnsure(again, 'backup_1', draft());
  await end(again);
  await store.liftRestore(newId('task'), 'backup_1', draft());
  await store.isRestoreLifted('task_1', 'backup_1');
}

async function use(file: string): Promise<void> {
  const db = openSqlite({ file, migrations: MIGRATIONS });
  const outbox = await openOutbox({
    db,
    source: 'toold',
    clock,
    append: async () => {},
    log: silentLog,
  });
  const store = makeStore(db, outbox);
  const rows = makeRunRows(() => clock.nowMs());
  const hosts = makeApprovedHosts(db);
  const admission = (n: number) => ({
    fence: 1,
    mode: 'live' as const,
    agent: 'worker',
    task_id: newId('task'),
    root_task_id: newId('task'),
    tools: [TOOL],
    grant_expires_at: null,
    labels: [],
    workspace: `/w/${n}`,
    workspace_mode: 'live' as const,
    max_calls: 10,
    restored: null,
  });
  const pruned: RunId[] = [];
  await forEachOf(2 * HISTORY, async (n) => {
    const runId = newId<RunId>('run');
    await db.write((sql) => rows.save(sql, runId, admission(n) as never));
    await makeCalls(store, runId);
    await store.openCalls(runId);
    await store.pastCalls(runId);
    await store.markPlaces([`/w/${n}/a`], ['outside']);
    await store.placeMarks([`/w/${n}`, '/w']);
    const host = { host: 'a.example', port: 443, nowMs: clock.nowMs() };
    const ids = { callId: newId<CallId>('call'), approvalId: newId<ApprovalId>('approval') };
    await hosts.add({ runId }, { ...host, ...ids });
    await hosts.hostsFor({ runId });
    await db.write((sql) => rows.end(sql, runId, 1));
    if (n < HISTORY) pruned.push(runId);
    await db.read((sql) => rows.read(sql, runId));
  });
  await forEachOf(3, async (n) => {
    const runId = newId<RunId>('run');
    await db.write((sql) => rows.save(sql, runId, admission(n) as never));
    await store.recordIntent(newCall(runId), draft());
  });
  await db.read((sql) => rows.live(sql));
  await store.markLeftUnknown(() => false);
  const names = listFilterNames(tooldRoutes.listCalls.query);
  for (const filter of listChoices(Object.fromEntries(names.map((name) => [name, 'x']))))
    await store.listCalls(filter, 1e9, 10);
  await store.findCall('x');
  for (const filter of [{ run_id: pruned[0] }, { task_id: 'x' }]) await store.findPrunedRun(filter);
  const tree = { root_task_id: 'task_1', task_ids: [], run_ids: pruned };
  await store.pruneCalls({ ...tree, run_ids: pruned.slice(0, 3) } as never, 1);
  await store.pruneCalls(tree as never, clock.nowMs());
  await store.findPrunedCall('call_1');
  await store.expireTombstones(2);
  await eraseEverything(db, COPY_PLACES);
  await useContainment({ db, outbox });
  outbox.stop();
  await useIds(db, ID_COLUMNS);
  await db.close();
}

async function useContainment(
  base: Pick<Parameters<typeof openContainment>[0], 'db' | 'outbox'>,
): Promise<void> {
  const limits = { violationsMax: 1, windowMs: 1_000 };
  const containment = await openContainment({ ...base, clock, newId, log: silentLog, limits });
  for (const tree of ['task_1', 'task_2', 'task_3']) {
    const run = { agent: 'worker', taskId: tree, rootTaskId: tree, runId: newId('run') };
    const job = { toolName: TOOL, callId: newId('call'), run };
    await containment.recordViolations(job as never, ['output' as never]);
  }
  await containment.resume(TOOL, 'person:ann');
  await containment.suspend(TOOL, 'person:ann', 'x');
  await containment.resume(TOOL, 'person:ann');
}

export const toold: StoreUse = {
  daemon: 'toold',
  smallTables: {
    outbox: 'delivered events are deleted',
    outbox_store: 'one row',
    tool_violations: 'those from before the window are deleted, except of suspended trees',
    tool_suspensions: 'one row for each tool',
    tool_tree_suspensions: 'up to two rows for each tool',
  },
  use,
};
