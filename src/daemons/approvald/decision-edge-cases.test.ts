// Tests double clicks, late decisions, equal requests, who may decide, and who is notified.
import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { deriveId } from '../../platform/ids.ts';
import { hashJson } from '../../platform/json.ts';
import type { AskApproval } from '../../wire/approvald.ts';
import type { RunId, TaskId } from '../../wire/primitives.ts';
import { host, restart, setUpEachTest, world } from './testing/each-test.ts';
import { advanceUntil, isCode, listEventKinds, settle, unavailableFault } from './testing/host.ts';

setUpEachTest();
after(() => settle());

const at = (id: string) => ({ params: { id: id as never } });

describe('repeated, late and outdated decisions', () => {
  it('the same decision twice is one decision and one permit', async () => {
    const { approval } = await host.ask();
    const body = { for: 'task' as const };
    const [one, two] = await Promise.all([
      host.alice.approve({ ...at(approval.id), body }),
      host.alice.approve({ ...at(approval.id), body }),
    ]);
    assert.equal(one.approval.permit_id, two.approval.permit_id);
    const { permits } = await host.alice.listPermits({ query: {} });
    assert.equal(permits.length, 1);
    await settle();
    assert.equal(
      listEventKinds(world).filter((kind) => kind.startsWith('approval.decided')).length,
      1,
    );
  });

  it('another decision after the first is refused', async () => {
    const { approval } = await host.ask();
    await host.alice.reject({ ...at(approval.id), body: {} });
    await assert.rejects(
      host.bob.approve({ ...at(approval.id), body: {} }),
      isCode('conflict', /is already rejected \(person:alice\)/),
    );
    await assert.rejects(host.alice.approve({ ...at(approval.id), body: {} }), isCode('conflict'));
  });

  it('without a decision in time it is rejected, and a late one changes nothing', async () => {
    await restart({ expires_s_for: { 'production.change': 60 } });
    const { approval, redeem } = await host.ask();
    world.clock.advance(59_999);
    await settle();
    assert.equal((await redeem()).decision, 'pending');
    world.clock.advance(1);
    await assert.rejects(
      host.alice.approve({ ...at(approval.id), body: {} }),
      isCode('conflict', /has expired/),
    );
    assert.equal((await redeem()).decision, 'expired');
    await settle();
    assert.ok(listEventKinds(world).includes('approval.expired expired'));
  });

  it('it expires by time, without a request', async () => {
    const { body } = await host.ask();
    world.waits.add(body.call_id);
    world.clock.advance(86_400_000);
    await advanceUntil(world, () => world.notifications.length === 1);
    assert.deepEqual(world.notifications[0]?.outcome, 'expired');
  });

  it('a decision on arguments that another person edited meanwhile is refused', async () => {
    const { approval } = await host.ask();
    const joined = await host.ask();
    assert.equal(joined.approval.id, approval.id);
    const body = { nonce: approval.nonce };
    await assert.rejects(
      host.alice.approve({ ...at(approval.id), body }),
      isCode('conflict', /has changed since you looked/),
    );
    await host.alice.approve({ ...at(approval.id), body: { nonce: joined.approval.nonce } });
  });

  it('a used nonce is refused', async () => {
    const { approval } = await host.ask();
    await host.alice.escalate({ ...at(approval.id), body: { nonce: approval.nonce } });
    const body = { nonce: approval.nonce };
    await assert.rejects(host.bob.approve({ ...at(approval.id), body }), isCode('conflict'));
  });
});

describe('equal requests', () => {
  it('share one approval, and one decision applies to each call once', async () => {
    const one = await host.ask();
    const two = await host.ask({ run_id: deriveId<RunId>('run', 'two') });
    assert.equal(two.approval.id, one.approval.id);
    assert.equal(two.approval.calls, 2);
    const { approvals, pending } = await host.alice.listApprovals({ query: { status: 'pending' } });
    assert.equal(approvals.length, 1);
    assert.equal(pending, 1);
    await host.alice.approve({ ...at(one.approval.id), body: {} });
    const answers = [await one.redeem(), await two.redeem()];
    assert.deepEqual(
      answers.map(({ decision }) => decision),
      ['approved', 'approved'],
    );
    assert.notEqual(answers[0]?.statement?.nonce, answers[1]?.statement?.nonce);
    const three = await host.ask();
    assert.notEqual(three.approval.id, one.approval.id, 'a later request is a new approval');
  });

  for (const [what, more] of [
    ['another agent', { agent: 'coder' }],
    ['another diff', { diff: '-fast\n+slow\n' }],
    ['marks', { labels: ['outside'] }],
    ['another tree of tasks', { root_task_id: deriveId<TaskId>('task', 'other') }],
    ['another rollback', { rollback: 'none' }],
  ] satisfies [string, Partial<AskApproval>][])
    it(`${what} is not equal`, async () => {
      const one = await host.ask();
      assert.notEqual((await host.ask(more)).approval.id, one.approval.id);
    });

  it('an agent cannot request without limit', async () => {
    await restart({ pending_per_agent_max: 2 });
    for (const n of [1, 2]) await host.ask({ arguments: { n }, arguments_hash: hashJson({ n }) });
    const third = { arguments: { n: 3 }, arguments_hash: hashJson({ n: 3 }) };
    await assert.rejects(host.ask(third), isCode('limit'));
    await host.ask({ ...third, agent: 'coder' });
  });
});

describe('only people decide', () => {
  it('no daemon, no run', async () => {
    const { approval } = await host.ask();
    const { nonce } = approval;
    const run = host.as({
      kind: 'run',
      principal: 'agent:deployer',
      runId: deriveId<RunId>('run', 'one'),
      fence: 1,
      mode: 'live',
      agent: 'deployer',
      taskId: deriveId('task', 'leaf'),
    });
    const agent = host.as({ kind: 'operator', principal: 'agent:deployer' });
    for (const client of [run, host.toold])
      await assert.rejects(
        client.approve({ ...at(approval.id), body: { nonce } }),
        isCode('forbidden_caller'),
      );
    await assert.rejects(agent.approve({ ...at(approval.id), body: { nonce } }), isCode('denied'));
  });
});

describe('waiting calls', () => {
  it('agentd is notified once the call waits, until it acknowledges', async () => {
    const { approval, body } = await host.ask();
    await host.alice.approve({ ...at(approval.id), body: {} });
    await settle();
    assert.deepEqual(world.notifications, [], 'the call does not wait yet');
    world.beforeCall = () => {
      throw unavailableFault();
    };
    world.waits.add(body.call_id);
    for (let i = 0; i < 5; i++) {
      world.clock.advance(1_000);
      await settle();
    }
    assert.deepEqual(world.notifications, []);
    world.beforeCall = () => {};
    await advanceUntil(world, () => world.notifications.length > 0);
    assert.deepEqual(world.notifications, [
      {
        approval_id: approval.id,
        call_id: body.call_id,
        decision: 'approved',
        outcome: 'answered',
        by: 'person:alice',
      },
    ]);
    world.clock.advance(60_000);
    await settle();
    assert.equal(world.notifications.length, 1);
  });

  it('an approval without a waiting call is canceled', async () => {
    const one = await host.ask();
    const two = await host.ask({ run_id: deriveId<RunId>('run', 'two') });
    const agentd = host.as({ kind: 'daemon', principal: 'service:agentd', daemon: 'agentd' });
    const withdraw = (run_id: RunId) =>
      agentd.withdrawApprovals({ body: { run_id, reason: 'canceled' } });
    assert.deepEqual(await withdraw(one.body.run_id), { withdrawn: 1 });
    const status = async () => (await host.alice.getApproval(at(one.approval.id))).approval.status;
    assert.equal(await status(), 'pending', 'the other call still waits');
    assert.equal((await one.redeem()).decision, 'canceled');
    await withdraw(two.body.run_id);
    assert.equal(await status(), 'canceled');
    await assert.rejects(
      host.alice.approve({ ...at(one.approval.id), body: {} }),
      isCode('conflict', /is canceled/),
    );
  });

  it('the end of a run that was not reported is found', async () => {
    const { approval, body } = await host.ask();
    world.endedRuns.add(body.run_id);
    world.clock.advance(60_000);
    await settle();
    assert.equal((await host.alice.getApproval(at(approval.id))).approval.status, 'canceled');
  });
});

describe('while the audit log is down', () => {
  it('a decision is not returned before it is recorded', async () => {
    const { approval, redeem } = await host.ask();
    await host.alice.approve({ ...at(approval.id), body: {} });
    await settle();
    let away = true;
    world.beforeCall = (name) => {
      if (away && name === 'audit') throw unavailableFault();
    };
    const waiting = redeem();
    let given = false;
    waiting.then(() => {
      given = true;
    });
    await settle();
    assert.equal(given, false);
    away = false;
    assert.equal((await waiting).decision, 'approved');
    assert.ok(listEventKinds(world).includes('approval.redeemed approved'));
  });
});
