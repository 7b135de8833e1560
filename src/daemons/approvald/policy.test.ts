// Tests that policy decides who may decide: roles, site rules, and rules that require two people.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { host, setUpEachTest, world } from './testing/each-test.ts';
import { isCode, publishPolicy } from './testing/host.ts';

setUpEachTest();

const rule = (text: string) => ({ site: [{ file: '10-site.cedar', text }] });
async function pendingApproval() {
  const { approval, redeem } = await host.ask();
  return { redeem, params: { id: approval.id } };
}

test('only people with the role decide, and the record names the rule', async () => {
  publishPolicy(world, { people: { alice: { roles: ['approver'] }, bob: { roles: [] } } });
  const { params } = await pendingApproval();
  await assert.rejects(host.bob.approve({ params, body: {} }), isCode('denied', /person:bob/));
  await assert.rejects(host.operator.reject({ params, body: {} }), isCode('denied'));
  const { approval } = await host.alice.approve({ params, body: {} });
  assert.equal(approval.status, 'approved');
  assert.match(approval.answers[0]?.rule ?? '', /approvers/);
});

test('a site rule denies one person one class, and one scope', async () => {
  publishPolicy(
    world,
    rule(`
      @id("no-bob") forbid (principal == Person::"bob", action == Action::"approval.decide", resource)
      when { context.class == "production.change" && context.decision == "approve" };
      @id("no-class") forbid (principal, action == Action::"approval.decide", resource)
      when { context.reach == "class" };`),
  );
  const { params } = await pendingApproval();
  await assert.rejects(host.bob.approve({ params, body: {} }), isCode('denied', /10-site.cedar:1/));
  await assert.rejects(
    host.alice.approve({ params, body: { for: 'class' } }),
    isCode('denied', /10-site.cedar:2/),
  );
  await host.bob.escalate({ params, body: {} });
  const { approval } = await host.alice.approve({ params, body: { for: 'task' } });
  assert.equal(approval.status, 'approved');
});

test('a rule with the effect ask requires two people', async () => {
  publishPolicy(
    world,
    rule(`@id("two") @ask("two people for what is high")
      forbid (principal, action == Action::"approval.decide", resource)
      when { context.risk == "high" };`),
  );
  const { params, redeem } = await pendingApproval();
  const { approval } = await host.alice.approve({ params, body: {} });
  assert.equal(approval.status, 'pending');
  assert.equal(approval.approvers_needed, 2);
  await host.alice.approve({ params, body: {} });
  assert.equal((await redeem()).decision, 'pending');
  await host.bob.approve({ params, body: {} });
  assert.deepEqual((await redeem()).statement?.by, ['person:alice', 'person:bob']);
});

test('one person may still reject where two must approve', async () => {
  publishPolicy(
    world,
    rule(
      `@id("two") @ask("two") forbid (principal, action == Action::"approval.decide", resource);`,
    ),
  );
  const { params } = await pendingApproval();
  const { approval } = await host.alice.reject({ params, body: {} });
  assert.equal(approval.status, 'rejected');
});

test('without any policy every decision is denied', async () => {
  rmSync(join(world.dir, 'state', 'policy', 'bundle.json'));
  const { params } = await pendingApproval();
  await assert.rejects(host.alice.approve({ params, body: {} }), isCode('unavailable'));
});
