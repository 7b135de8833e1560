// Approval waits: opened by the call, ended by approvald, in any order and with repeats. On both
// databases.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DATABASES, faultCode, makeCall, type StoreWorld, world } from './testing.ts';

const APPROVAL = `approval_${'1'.repeat(26)}`;

async function openWait(it: StoreWorld) {
  const task = await it.task();
  const run = (await it.claim()).find((claim) => claim.task.id === task.id)!.run;
  const call = makeCall(run);
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
  test(`a decision wakes the openWait run once, on ${name}`, async () => {
    const it = await world(open);
    const call = await openWait(it);
    await call.open();
    assert.equal(await call.park(), true);
    assert.equal(await call.ended(), true);
    assert.equal(await call.status(), 'queued');
    assert.equal(await call.ended({ decision: 'rejected', by: 'person:bob' }), true);
    const { waits } = await it.store.tree(call.task.id);
    assert.equal(waits[0]?.answered_by, 'person:alice');
    assert.deepEqual(waits[0]?.answer, { approval_id: APPROVAL, decision: 'approved' });
    await it.store.close();
  });

  test(`a decision that comes before the wait is not accepted, on ${name}`, async () => {
    const it = await world(open);
    const call = await openWait(it);
    assert.equal(await call.ended(), false, 'the call does not wait yet');
    await call.open();
    assert.equal(await call.ended({ approvalId: `approval_${'2'.repeat(26)}` }), false);
    assert.equal(await call.ended(), true);
    assert.equal(await call.park(), false, 'every wait has ended');
    await it.store.close();
  });

  test(`an ended run has no open waits, on ${name}`, async () => {
    const it = await world(open);
    const call = await openWait(it);
    await call.open();
    await it.store.cancelTask(call.task.id, 'enough', 'person:alice');
    assert.equal(await call.ended(), true);
    const { waits } = await it.store.tree(call.task.id);
    assert.equal(waits[0]?.outcome, 'canceled');
    await assert.rejects(call.ended({ run_id: `run_${'0'.repeat(26)}` }), faultCode('not_found'));
    await it.store.close();
  });

  test(`an approval cannot be answered as a question, on ${name}`, async () => {
    const it = await world(open);
    const call = await openWait(it);
    const { id } = await call.open();
    await assert.rejects(it.store.answerWait(id, 'yes', 'person:bob'), faultCode('conflict'));
    assert.equal((await it.store.counts()).waitsOpen, 0, 'it is no open question');
    await it.store.close();
  });
}
