// SIGKILL of memoryd and approvald at each point of a proposal in turn. After each: it waits for a
// person once, what the person decided is done once, and never without one.
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import { isFault } from '../../src/platform/daemon.ts';
import type { ApprovalSummary } from '../../src/wire/approvald.ts';
import type { MemoryView, NewMemory } from '../../src/wire/memoryd/records.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';

const REQUEST = [
  'memoryd.after-commit',
  'memoryd.before-request',
  'approvald.before-proposal',
  'approvald.after-proposal',
  'memoryd.after-request',
];
const DECISION = [
  'approvald.before-answer',
  'approvald.after-answer',
  'approvald.before-redeem',
  'approvald.after-redeem',
  'memoryd.after-redeem',
  'memoryd.before-append',
  'memoryd.after-append',
  'memoryd.after-commit',
];

describe('killed at every failpoint of a proposal, in split mode', () => {
  const base = freshDir();
  const crashFile = join(base, 'state', 'crash-at');
  let runtime: TestRuntime;
  let n = 0;
  before(async () => {
    runtime = await startRuntime({ base, mode: 'split', faults: true });
  });
  after(() => runtime.remove());

  const propose = async (): Promise<MemoryView> => {
    const text = `Fact ${n} about kites.`;
    const body: NewMemory = { class: 'semantic', scope: 'project:app', text };
    const once = { idempotencyKey: `proposal-${n++}` };
    return eventually('the proposal', async () =>
      runtime.memoryd.proposeMemory({ body }, once).then(({ memory }) => memory),
    );
  };
  const listApprovals = async (id: string): Promise<ApprovalSummary[]> => {
    const { approvals } = await runtime.approvald.listApprovals({ query: { limit: 1000 } });
    return approvals.filter(({ memory }) => memory?.memory_id === id);
  };
  const approvalOf = (id: string) =>
    eventually('its approval', async () => (await listApprovals(id))[0]);
  const get = (id: MemoryView['id']) =>
    eventually(
      'the memory',
      async () => (await runtime.memoryd.getMemory({ params: { id } })).memory,
    );
  const becomes = (id: MemoryView['id'], status: MemoryView['status']) =>
    eventually(`the memory to be ${status}`, async () =>
      (await get(id)).status === status ? true : undefined,
    );
  const crashed = () => assert.equal(existsSync(crashFile), false, 'the failpoint was reached');

  for (const failpoint of REQUEST)
    it(`${failpoint}: it waits for a person, once`, async () => {
      writeFileSync(crashFile, failpoint);
      const { id } = await propose();
      const approval = await approvalOf(id);
      await eventually('the crash', async () => (existsSync(crashFile) ? undefined : true));
      assert.equal((await get(id)).status, 'proposed');
      const listed = await eventually('the list', () => listApprovals(id));
      assert.deepEqual(
        listed.map(({ id: one, status }) => [one, status]),
        [[approval.id, 'pending']],
      );
      const params = { id: approval.id };
      await makeReviewer(runtime.approvald).reject({ params, body: {} });
      await becomes(id, 'rejected');
    });

  for (const failpoint of DECISION) {
    it(`${failpoint}: what was approved is done, once`, async () => {
      const { id } = await propose();
      const approval = await approvalOf(id);
      const params = { id: approval.id };
      writeFileSync(crashFile, failpoint);
      await eventually('the decision', async () => {
        const { approval: now } = await runtime.approvald.getApproval({ params });
        if (now.status === 'approved') return now;
        return (await makeReviewer(runtime.approvald).approve({ params, body: {} })).approval;
      });
      await becomes(id, 'active');
      crashed();
      const { versions } = await runtime.memoryd.memoryHistory({ params: { id } });
      assert.equal(versions.length, 1);
    });

    it(`${failpoint}: so is what was approved through memoryd`, async () => {
      const { id } = await propose();
      await approvalOf(id);
      writeFileSync(crashFile, failpoint);
      await eventually('the decision', async () => {
        const { status } = await get(id);
        if (status === 'active') return true;
        const params = { id };
        const again = runtime.memoryd.approveMemory({ params }).then(() => true);
        // Decided before the crash, and done by now.
        return again.catch((error) =>
          isFault(error, 'conflict') ? undefined : Promise.reject(error),
        );
      });
      await becomes(id, 'active');
      crashed();
      const listed = await eventually('the list', () => listApprovals(id));
      assert.deepEqual(
        listed.map(({ status }) => status),
        ['approved'],
      );
    });
  }

  it('every decision is in the log once', async () => {
    const events = await eventually('the log to be whole', async () => {
      const all = await allEvents(runtime);
      const done = all.filter(({ event }) => event === 'memory.approved');
      return done.length >= 2 * DECISION.length ? all : undefined;
    });
    const count = (kind: string) => events.filter(({ event }) => event === kind).length;
    assert.equal(count('memory.approved'), 2 * DECISION.length);
    assert.equal(count('approval.requested'), n);
    assert.equal(count('approval.decided'), n);
    assert.equal(new Set(events.map(({ id }) => id)).size, events.length);
  });
});
