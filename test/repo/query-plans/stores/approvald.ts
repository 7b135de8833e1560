// Runs every statement of approvald's store.

import { randomBytes } from 'node:crypto';
import { approvaldConfig } from '../../../../src/daemons/approvald/config.ts';
import { COPY_PLACES } from '../../../../src/daemons/approvald/store/copy-places.ts';
import { ID_COLUMNS, MIGRATIONS } from '../../../../src/daemons/approvald/store/rows.ts';
import { type ApprovaldStore, makeStore } from '../../../../src/daemons/approvald/store/store.ts';
import { makeRequest } from '../../../../src/daemons/approvald/testing/host.ts';
import { type ManualClock, manualClock } from '../../../../src/platform/clock.ts';
import { makeIdMaker } from '../../../../src/platform/ids.ts';
import { silentLog } from '../../../../src/platform/log.ts';
import { openOutbox } from '../../../../src/platform/outbox.ts';
import { openSqlite } from '../../../../src/platform/sql/sqlite.ts';
import { type AskApproval, approvaldRoutes } from '../../../../src/wire/approvald.ts';
import type { MemoryId } from '../../../../src/wire/memoryd/records.ts';
import type { ApprovalId, RunId, TaskId } from '../../../../src/wire/primitives.ts';
import { eraseEverything } from '../erase-copies.ts';
import {
  forEachOf,
  HISTORY,
  listChoices,
  listFilterNames,
  type StoreUse,
  useIds,
} from '../record.ts';

type RequestedApproval = { body: AskApproval; id: string; nonce: string };

const person = (name: string) => ({ principal: `person:${name}`, key: name });
const decision = { rule: 'r', second: false, channel: 'api' as const };
const approval = { ...decision, answer: 'approve' as const, permitExpiresMs: 1_000 };
const DAY_MS = 86_400_000;

async function request(
  store: ApprovaldStore,
  n: number | string,
  more: Partial<AskApproval> = {},
): Promise<RequestedApproval> {
  const body = makeRequest({
    run_id: `run_${n}` as RunId,
    task_id: `task_${n}` as TaskId,
    root_task_id: `task_${n}` as TaskId,
    ...more,
  });
  const { approval } = await store.requestApproval(body);
  return { body, id: approval.id, nonce: approval.nonce };
}

const redeem = (store: ApprovaldStore, { body, id }: RequestedApproval, more = {}) =>
  store.redeem({
    id,
    call_id: body.call_id,
    run_id: body.run_id,
    arguments_hash: body.arguments_hash,
    labels: body.labels,
    ...more,
  });

/** One approval for each way that it can end. */
async function makeHistory(store: ApprovaldStore, n: number): Promise<void> {
  const one = await request(store, n);
  const joined = await request(store, n);
  const alice = { ...approval, id: one.id, person: person('alice'), edited: undefined };
  await store.decide({ ...alice, nonce: 'other', reach: 'once' });
  const { row } = await store.getApproval(one.id);
  await store.decide({ ...alice, nonce: row.nonce, reach: 'task' });
  await store.listUnsent();
  await redeem(store, one);
  await redeem(store, joined, { run_id: 'other' });
  await store.markNotified(joined.body.call_id);
  // Covered by the permit.
  const covered = await request(store, n);
  await redeem(store, covered);
  const [permit] = await store.listPermits({ before: undefined, limit: 1, active: true, nowMs: 0 });
  await store.revokePermit(permit!.id, 'person:ann');
  const two = await request(store, `${n}b`, { action: 'other.tool' });
  const second = { ...approval, second: true, id: two.id, person: person('alice') };
  await store.decide({ ...second, nonce: two.nonce, reach: 'once', edited: { x: 1 } });
  await store.withdraw({ run_id: two.body.run_id });
  const three = await request(store, `${n}c`);
  await store.decide({
    ...decision,
    answer: 'request-info',
    id: three.id,
    person: person('alice'),
    nonce: three.nonce,
    text: 'x?',
  });
  const open = await request(store, `${n}d`);
  await useReplyCodes(store, open);
}

async function useReplyCodes(store: ApprovaldStore, { id, nonce }: RequestedApproval) {
  const of = { approvalId: id as ApprovalId, person: 'person:alice', nonce };
  for (const expiresMs of [0, Number.MAX_SAFE_INTEGER]) {
    const { code } = await store.issueReplyCode({ ...of, expiresMs });
    const reply = { code, person: 'person:alice', answers: null };
    await store.takeReplyCode({ ...reply, mailId: `mail_${code}` });
  }
  await store.issueReplyCode({ ...of, expiresMs: Number.MAX_SAFE_INTEGER });
}

async function readAll(store: ApprovaldStore, clock: ManualClock): Promise<void> {
  for (const before of [undefined, 'x']) {
    const names = listFilterNames(approvaldRoutes.listApprovals.query);
    for (const filter of listChoices(Object.fromEntries(names.map((name) => [name, 'x']))))
      await store.listApprovals(filter, { before, limit: 10 });
    for (const active of [undefined, true, false])
      await store.listPermits({ before, limit: 10, active, nowMs: clock.nowMs() });
  }
  await store.countPending();
  await store.listWaitingRuns();
  await store.findNextNoticeMs();
  const [notice] = await store.listDueNotices(clock.nowMs());
  await store.postponeNotice(notice!.id, 1);
  await store.deleteNotice(notice!.id);
}

async function useProposals(store: ApprovaldStore): Promise<void> {
  const ask = (n: number, version = 1) =>
    store.requestProposal({
      memory_id: `memory_${n}` as MemoryId,
      version,
      class: 'semantic',
      scope: `project:app/${n % 10}`,
      by: 'agent:coder',
      run_id: null,
      task_id: null,
      labels: [],
      rules: [],
      reason: 'r',
      is_named: false,
    });
  await forEachOf(HISTORY, async (n) => {
    const { approval_id } = await ask(n);
    await ask(n);
    await store.withdrawProposals([`memory_${n}`]);
    const { approval_id: id } = await ask(n);
    const { row } = await store.getApproval(id);
    const seen = { labels: [], arguments: { version: 1 } };
    const approved = { ...approval, id, nonce: row.nonce, person: person('alice') };
    await store.decide({ ...approved, reach: 'once', edited: undefined, proposal: seen });
    await store.findMemoryScope(approval_id);
  });
  await ask(HISTORY, 2);
  await store.listPendingProposals(10);
}

async function use(file: string): Promise<void> {
  const clock = manualClock(Date.parse('2026-01-01T00:00:00Z'));
  const db = openSqlite({ file, migrations: MIGRATIONS });
  const options = { db, source: 'approvald', clock, append: async () => {}, log: silentLog };
  const outbox = await openOutbox(options);
  const store = makeStore({
    db,
    outbox,
    clock,
    newId: makeIdMaker(clock),
    random: randomBytes,
    config: approvaldConfig.parse({ pending_per_agent_max: 1_000 }),
    signing: { keyId: 'k', signJson: () => 's' } as never,
    targets: ['command'],
    replyTarget: 'mail',
    onCommitted: () => {},
  });
  await forEachOf(2 * HISTORY, (n) => makeHistory(store, n));
  clock.advance(2 * DAY_MS);
  await store.expireDue();
  for (const { call_id } of await store.listUnsent()) await store.markNotified(call_id);
  await forEachOf(3, (n) => request(store, `open ${n}`));
  await readAll(store, clock);
  await store.pruneTree('task_0');
  clock.advance(1);
  await forEachOf(HISTORY, (n) => store.pruneTree(`task_${n}`));
  await store.getApproval('x').catch(() => undefined);
  await store.revokePermit('x', 'person:ann').catch(() => undefined);
  await useProposals(store);
  await eraseEverything(db, COPY_PLACES);
  await store.expireTombstones(clock.nowMs());
  outbox.stop();
  await useIds(db, ID_COLUMNS);
  await db.close();
}

export const approvald: StoreUse = {
  daemon: 'approvald',
  smallTables: {
    outbox: 'delivered events are deleted',
    outbox_store: 'one row',
    notices: 'deleted when sent, or after some attempts',
  },
  use,
};
