// Waits for people: opened by the call, ended by approvald, however often and in whatever order
// both say so. On both databases.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callOf, DATABASES, faultCode, type StoreWorld, world } from './testing.ts';

const APPROVAL = `approval_${'1'.repeat(26)}`;

async function waiting(it: StoreWorld) {
  const task = await it.task();
  const run = (await it.claim()).find((one) => one.task.id === task.id)!.run;
  const call = callOf(run);
  const open = () =>
    it.store.openWait(call, {
      kind: 'approval',
      by: ['person'],
      from: 'service:approvald',
      question: APPROVAL,
      expiresMs: Date.parse('2026-01-02T00:00:00Z'),
    });
  const ended = (more: object = {}) =>
    it.store.endApprovalWait({
      approvalId: APPROVAL,
      run_id: run.id,
      call_id: call.callId,
      outcome: 'answered',
      decision: 'approved',
      by: 'person:alice',
      ...more,
    });
  const park = () => it.store.park({ runId: run.id, fence: run.fence }, [call.callId]);
  const status = async () => (await it.store.runRow(run.id)).status;
  return { task, run, call, open, ended, park, status };
}

for (const [name, open] of Object.entries(DATABASES)) {
  test(`an answer wakes the run that waits for it, once, on ${name}`, async () => {
    const it = await world(open);
    const one = await waiting(it);
    await one.open();
    assert.equal(await one.park(), true);
    assert.equal(await one.ended(), true);
    assert.equal(await one.status(), 'queued');
    assert.equal(await one.ended({ decision: 'rejected', by: 'person:bob' }), true);
    const { waits } = await it.store.tree(one.task.id);
    assert.equal(waits[0]?.answered_by, 'person:alice');
    assert.deepEqual(waits[0]?.answer, { approval_id: APPROVAL, decision: 'approved' });
    await it.store.close();
  });

  test(`an answer that comes too early is not taken, on ${name}`, async () => {
    const it = await world(open);
    const one = await waiting(it);
    assert.equal(await one.ended(), false, 'the call does not wait yet');
    await one.open();
    assert.equal(await one.ended({ approvalId: `approval_${'2'.repeat(26)}` }), false);
    assert.equal(await one.ended(), true);
    assert.equal(await one.park(), false, 'there is nothing left to wait for');
    await it.store.close();
  });

  test(`a run that has ended waits for nothing, on ${name}`, async () => {
    const it = await world(open);
    const one = await waiting(it);
    await one.open();
    await it.store.cancelTask(one.task.id, 'enough', 'person:alice');
    assert.equal(await one.ended(), true);
    const { waits } = await it.store.tree(one.task.id);
    assert.equal(waits[0]?.outcome, 'canceled');
    await assert.rejects(one.ended({ run_id: `run_${'0'.repeat(26)}` }), faultCode('not_found'));
    await it.store.close();
  });

  test(`people's questions are not taken for approvals, on ${name}`, async () => {
    const it = await world(open);
    const one = await waiting(it);
    const { id } = await one.open();
    await assert.rejects(it.store.answerWait(id, 'yes', 'person:bob'), faultCode('conflict'));
    assert.equal((await it.store.counts()).waitsOpen, 0, 'it is no open question');
    await it.store.close();
  });
}
