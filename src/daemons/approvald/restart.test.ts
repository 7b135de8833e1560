// Tests that a restart between any two steps loses and repeats no request, decision or permit.
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { verifyJson } from '../../platform/signed-json.ts';
import { host, restart, setUpEachTest, world } from './testing/each-test.ts';
import {
  type ApprovaldTestHost,
  advanceUntil,
  isCode,
  settle,
  unavailableFault,
} from './testing/host.ts';

setUpEachTest();

const redeemAgain = (requested: Awaited<ReturnType<ApprovaldTestHost['ask']>>) => {
  const { call_id, run_id, arguments_hash, labels } = requested.body;
  const params = { id: requested.approval.id };
  return host.toold.redeemApproval({ params, body: { call_id, run_id, arguments_hash, labels } });
};

test('between request and decision', async () => {
  const requested = await host.ask();
  await restart();
  const again = await host.toold.askApproval({ body: requested.body });
  assert.equal(again.status, 'pending');
  assert.equal(again.approval.id, requested.approval.id);
  assert.equal(again.approval.calls, 1);
  const body = { nonce: requested.approval.nonce };
  await host.alice.approve({ params: { id: requested.approval.id }, body });
  assert.equal((await redeemAgain(requested)).decision, 'approved');
});

test('between decision and redeem; the same key still signs', async () => {
  const { public_key_pem } = await host.toold.approvalKey({});
  const requested = await host.ask();
  await host.alice.approve({ params: { id: requested.approval.id }, body: {} });
  await restart();
  const { statement, signature } = await redeemAgain(requested);
  assert.equal(verifyJson(statement, signature!, public_key_pem), true);
});

test('between a redeem and the next', async () => {
  const requested = await host.ask();
  await host.alice.approve({ params: { id: requested.approval.id }, body: {} });
  const before = await redeemAgain(requested);
  await restart();
  assert.deepEqual(await redeemAgain(requested), before);
});

test('a decision that agentd did not acknowledge is sent after the restart', async () => {
  const requested = await host.ask();
  world.waits.add(requested.body.call_id);
  world.beforeCall = (name) => {
    if (name === 'agentd') throw unavailableFault();
  };
  await host.alice.reject({ params: { id: requested.approval.id }, body: {} });
  await settle();
  assert.equal(world.notifications.length, 0);
  await restart({}, () => {
    world.beforeCall = () => {};
  });
  await advanceUntil(world, () => world.notifications.length === 1);
  assert.equal(world.notifications[0]?.decision, 'rejected');
});

test('an approval expires while approvald is down', async () => {
  const requested = await host.ask();
  world.waits.add(requested.body.call_id);
  await restart({}, () => world.clock.advance(86_400_001));
  await advanceUntil(world, () => world.notifications.length === 1);
  assert.equal(world.notifications[0]?.outcome, 'expired');
  await assert.rejects(
    host.alice.approve({ params: { id: requested.approval.id }, body: {} }),
    isCode('conflict'),
  );
});

test('permits and their expiry', async () => {
  const requested = await host.ask();
  const params = { id: requested.approval.id };
  const { approval } = await host.alice.approve({ params, body: { for: 'task' } });
  await restart();
  assert.equal((await host.ask()).status, 'granted');
  await host.alice.revokePermit({ params: { id: approval.permit_id! } });
  await restart();
  assert.equal((await host.ask()).status, 'pending');
});

test('an approval of an earlier version keeps its rules about permits', async () => {
  const each = await host.ask({ rules: ['base:x', 'tool:x:approval'], repo: '/srv/one' });
  const other = await host.ask({ rules: ['base:x', 'site:x:approval'], repo: '/srv/other' });
  await restart({}, () => {
    const db = new DatabaseSync(join(world.dir, 'state', 'approvald.sqlite'));
    // Undoes the migrations after the first.
    db.exec(
      'DROP INDEX approvals_by_task; DROP INDEX approvals_by_agent; ' +
        'DROP INDEX approvals_by_agent_and_status; DROP TABLE tombstones; ' +
        'DROP TABLE reply_codes; DROP INDEX approvals_by_memory; DROP INDEX memory_approvals_by_end; ' +
        'ALTER TABLE approvals DROP COLUMN memory_id; ' +
        'ALTER TABLE approvals DROP COLUMN memory_scope; ' +
        'ALTER TABLE approvals DROP COLUMN memory; ' +
        'DROP INDEX permits_by_approval; DROP INDEX approvals_by_permit; ' +
        'ALTER TABLE approvals DROP COLUMN each_call; PRAGMA user_version = 1',
    );
    db.close();
  });
  const approve = ({ approval: { id, nonce } }: typeof each) =>
    host.alice.approve({ params: { id }, body: { for: 'task', nonce } });
  await assert.rejects(approve(each), isCode('denied', /every call/));
  assert.notEqual((await approve(other)).approval.permit_id, null);
});

test('the key is in a private file of its own, and nowhere else', async () => {
  const file = join(world.dir, 'state', 'approvald.key');
  assert.equal(statSync(file).mode & 0o777, 0o600);
  const secret = readFileSync(file, 'utf8').split('\n')[1]!;
  await host.ask();
  await settle();
  assert.equal(JSON.stringify(world.events).includes(secret), false);
});
