// Tests people's decisions: all seven, each valid once, for its request and nothing else.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, beforeEach, describe, it } from 'node:test';
import { commonRoutes } from '../../platform/common-routes.ts';
import type { RawReply } from '../../platform/dispatch.ts';
import { deriveId } from '../../platform/ids.ts';
import { hashJson } from '../../platform/json.ts';
import { localLink, makeClient } from '../../platform/link.ts';
import { verifyJson } from '../../platform/signed-json.ts';
import type { Fault } from '../../wire/errors.ts';
import type { RunId } from '../../wire/primitives.ts';
import { host, restart, setUpEachTest, world } from './testing/each-test.ts';
import { isCode, listEventKinds, makeRequest, publishPolicy, settle } from './testing/host.ts';
import { writePersonKey } from './testing/person-key.ts';

setUpEachTest();
after(() => settle());

const at = (id: string) => ({ params: { id: id as never } });

describe('[R108-R109] approve once', () => {
  it('shows exactly what is requested, and permits exactly that', async () => {
    const { approval, body, redeem, status } = await host.ask({ purpose: 'it is slow' });
    assert.equal(status, 'pending');
    const seen = (await host.alice.getApproval(at(approval.id))).approval;
    assert.deepEqual(seen.arguments, body.arguments);
    assert.equal(seen.diff, body.diff);
    assert.equal(seen.rollback, body.rollback);
    assert.deepEqual(seen.rules, body.rules);
    assert.equal(seen.asks[0]?.purpose, 'it is slow');
    assert.equal((await redeem()).decision, 'pending');

    const { approval: done } = await host.alice.approve({
      ...at(approval.id),
      body: { for: 'once', nonce: seen.nonce },
    });
    assert.equal(done.status, 'approved');
    assert.equal(done.decided_by, 'person:alice');
    assert.equal(done.permit_id, null);
    const answer = await redeem();
    assert.equal(answer.decision, 'approved');
    assert.deepEqual(answer.arguments, body.arguments);
    assert.equal(answer.edited, false);
  });

  it('signs the decision over everything it is bound to', async () => {
    const { approval, body, redeem } = await host.ask();
    await host.alice.approve({ ...at(approval.id), body: {} });
    const { statement, signature } = await redeem();
    const { public_key_pem } = await host.toold.approvalKey({});
    assert.ok(statement !== null && signature !== null);
    assert.equal(verifyJson(statement, signature, public_key_pem), true);
    assert.deepEqual(
      {
        call_id: statement.call_id,
        run_id: statement.run_id,
        agent: statement.agent,
        task_id: statement.task_id,
        hash: statement.arguments_hash,
        by: statement.by,
      },
      {
        call_id: body.call_id,
        run_id: body.run_id,
        agent: body.agent,
        task_id: body.task_id,
        hash: body.arguments_hash,
        by: ['person:alice'],
      },
    );
    for (const change of [
      { call_id: 'call_x' },
      { run_id: 'run_x' },
      { arguments_hash: 'f'.repeat(64) },
      { nonce: 'x' },
      { by: ['person:mallory'] },
      { decision: 'rejected' },
    ])
      assert.equal(verifyJson({ ...statement, ...change }, signature, public_key_pem), false);
  });

  it('issues one nonce per call, and the same decision for a repeated request', async () => {
    const first = await host.ask();
    const second = await host.ask({
      arguments: { other: 1 },
      arguments_hash: hashJson({ other: 1 }),
    });
    for (const { approval } of [first, second])
      await host.alice.approve({ ...at(approval.id), body: {} });
    const one = await first.redeem();
    assert.deepEqual(await first.redeem(), one);
    assert.notEqual((await second.redeem()).statement?.nonce, one.statement?.nonce);
    const redeemed = world.events.filter(({ id }) => id.includes('.redeemed.'));
    assert.equal(redeemed.length, 2);
  });

  it('is in the audit log before it can be used', async () => {
    const { approval, redeem } = await host.ask();
    await host.alice.approve({ ...at(approval.id), body: {} });
    await redeem();
    assert.deepEqual(listEventKinds(world), [
      'approval.requested pending',
      'approval.decided approved',
      'approval.redeemed approved',
    ]);
    assert.equal(JSON.stringify(world.events).includes('abc123'), false, 'no content in events');
  });
});

describe('[R368] counters', () => {
  it('count requests and decisions', async () => {
    const { approval } = await host.ask();
    await host.alice.reject({ ...at(approval.id), body: {} });
    const link = localLink(() => host.hosted.dispatch, {
      kind: 'operator',
      principal: 'person:alice',
    });
    const answer = await makeClient(commonRoutes, link).metrics({});
    const text = String((answer as RawReply).body);
    assert.match(text, /agentd_approvals_requested_total\{.*status="pending".*\} 1/);
    assert.match(text, /agentd_approvals_answered_total\{.*answer="reject".*\} 1/);
  });
});

describe('a decision is bound to its request', () => {
  it('refuses other arguments, another call and another run, and records the refusal', async () => {
    const { approval, redeem } = await host.ask();
    const other = await host.ask({ arguments: { a: 1 }, arguments_hash: hashJson({ a: 1 }) });
    await host.alice.approve({ ...at(approval.id), body: {} });
    const changed = { arguments_hash: 'f'.repeat(64) };
    await assert.rejects(redeem(changed), isCode('denied', /other arguments/));
    await assert.rejects(
      redeem({ run_id: deriveId<RunId>('run', 'two') }),
      isCode('denied', /another run/),
    );
    await assert.rejects(
      redeem({ call_id: other.body.call_id }),
      isCode('denied', /not requested by/),
    );
    await settle();
    assert.equal(listEventKinds(world).filter((kind) => kind.endsWith('refused')).length, 3);
    // The correct one still works.
    assert.equal((await redeem()).decision, 'approved');
  });

  it('refuses a repeated call with a different request', async () => {
    const { body } = await host.ask();
    const args = { commit: 'evil' };
    const again = { ...body, arguments: args, arguments_hash: hashJson(args) };
    await assert.rejects(host.toold.askApproval({ body: again }), isCode('conflict'));
  });

  it('refuses arguments that do not match their hash', async () => {
    const body = { ...makeRequest(), arguments: { commit: 'evil' } };
    await assert.rejects(host.toold.askApproval({ body }), isCode('bad_request'));
  });

  it('is void once the diff has changed', async () => {
    const { approval, redeem } = await host.ask();
    await host.alice.approve({ ...at(approval.id), body: {} });
    const answer = await redeem({ diff_hash: 'e'.repeat(64) });
    assert.equal(answer.decision, 'changed');
    assert.match(answer.text ?? '', /no longer the one the person saw/);
  });

  it('is void for edited arguments, too, once the diff has changed', async () => {
    for (const [more, decision] of [
      [{ diff_hash: 'e'.repeat(64) }, 'changed'],
      [{}, 'approved'],
    ] as const) {
      const { approval, redeem } = await host.ask();
      const body = { edited_arguments: { commit: 'abc123', target: 'staging' } };
      await host.alice.approve({ ...at(approval.id), body });
      assert.equal((await redeem(more)).decision, decision);
    }
  });

  it('is void for another diff or a marked run when it is reused, too', async () => {
    const { approval, redeem } = await host.ask();
    await host.alice.approve({ ...at(approval.id), body: {} });
    const answer = await redeem();
    assert.equal(answer.decision, 'approved');
    const other = await redeem({ diff_hash: 'e'.repeat(64) });
    assert.deepEqual([other.decision, other.arguments, other.signature], ['changed', null, null]);
    assert.equal((await redeem({ labels: ['outside'] })).decision, 'changed');
    assert.deepEqual(await redeem(), answer);
  });

  it('is void once the run has read text from outside', async () => {
    const { approval, redeem } = await host.ask();
    await host.alice.approve({ ...at(approval.id), body: {} });
    assert.equal((await redeem({ labels: ['outside'] })).decision, 'changed');
  });

  it('is void when it is not used in time', async () => {
    const { approval, redeem } = await host.ask();
    await host.alice.approve({ ...at(approval.id), body: {} });
    world.clock.advance(3_600_000);
    assert.equal((await redeem()).decision, 'expired');
  });
});

describe('[R113-R115] the other decisions', () => {
  it('a rejection returns its reason', async () => {
    const { approval, redeem } = await host.ask();
    await host.alice.reject({ ...at(approval.id), body: { reason: 'not on a Friday' } });
    const answer = await redeem();
    assert.equal(answer.decision, 'rejected');
    assert.equal(answer.text, 'not on a Friday');
    assert.equal(answer.arguments, null);
    assert.deepEqual(answer.statement?.by, ['person:alice']);
  });

  it('a question reaches the agent, and the next request shows it', async () => {
    const { approval, redeem } = await host.ask();
    await host.alice.requestInfo({ ...at(approval.id), body: { question: 'Was it tested?' } });
    const answer = await redeem();
    assert.equal(answer.decision, 'info');
    assert.equal(answer.text, 'Was it tested?');
    const next = await host.ask({ purpose: 'yes, all tests pass' });
    assert.notEqual(next.approval.id, approval.id);
    assert.deepEqual(
      next.approval.thread.map(({ question, approval_id }) => ({ question, approval_id })),
      [{ question: 'Was it tested?', approval_id: approval.id }],
    );
  });

  it('a person who escalated can no longer approve; the other person can', async () => {
    const { approval, redeem } = await host.ask();
    const { approval: passed } = await host.alice.escalate({
      ...at(approval.id),
      body: { to: 'person:bob' },
    });
    assert.equal(passed.status, 'pending');
    assert.equal(passed.escalated_to, 'person:bob');
    await assert.rejects(
      host.alice.approve({ ...at(approval.id), body: {} }),
      isCode('denied', /another person must/),
    );
    await assert.rejects(
      host.operator.approve({ ...at(approval.id), body: {} }),
      isCode('denied', /escalated to person:bob/),
    );
    await host.bob.approve({ ...at(approval.id), body: {} });
    assert.deepEqual((await redeem()).statement?.by, ['person:bob']);
  });

  it('escalating without a name leaves it to any other person', async () => {
    const { approval } = await host.ask();
    await host.alice.escalate({ ...at(approval.id), body: {} });
    await host.bob.approve({ ...at(approval.id), body: {} });
    const { approval: done } = await host.bob.getApproval(at(approval.id));
    assert.equal(done.status, 'approved');
  });

  it('another name on the same key is not another person', async () => {
    const { approval } = await host.ask();
    await host.operator.escalate({ ...at(approval.id), body: {} });
    await assert.rejects(host.shared.approve({ ...at(approval.id), body: {} }), isCode('denied'));
  });

  it('escalating is refused when no other person could decide: the approval is not locked', async () => {
    for (const name of ['alice', 'bob']) rmSync(join(world.dir, `state/people/${name}.key`));
    writePersonKey(join(world.dir, 'state'), 'rita', 'reader');
    const { approval, redeem } = await host.ask();
    const noOther = isCode('conflict', /no other person could decide/);
    for (const body of [{}, { to: 'person:bob' }])
      await assert.rejects(host.operator.escalate({ ...at(approval.id), body }), noOther);
    const hint = await host.operator
      .escalate({ ...at(approval.id), body: {} })
      .catch((error: Fault) => error.hint);
    assert.match(String(hint), /agentctl person add/);
    await host.operator.approve({ ...at(approval.id), body: {} });
    assert.equal((await redeem()).decision, 'approved', 'a person who could not escalate decides');
  });

  it('escalating to a person who may not decide is refused with who may', async () => {
    const { approval } = await host.ask();
    const to = (person: string) =>
      host.alice.escalate({ ...at(approval.id), body: { to: `person:${person}` } });
    const site =
      'forbid (principal == Person::"bob", action == Action::"approval.decide", resource);';
    publishPolicy(world, { site: [{ file: 'a.cedar', text: site }] });
    world.clock.advance(1_000);
    await assert.rejects(to('bob'), (error: Fault) => {
      assert.equal(error.code, 'conflict');
      assert.match(error.hint, /one of: operator \(agentctl escalate/);
      return true;
    });
    // The holder of the operator's key is a different person than alice, under any name.
    assert.equal((await to('carol')).approval.escalated_to, 'person:carol');
  });

  it('escalating to oneself is refused', async () => {
    const { approval } = await host.ask();
    const body = { to: 'person:alice' };
    await assert.rejects(host.alice.escalate({ ...at(approval.id), body }), isCode('bad_request'));
  });
});

describe('two people', () => {
  beforeEach(async () => {
    await restart({ second_approver_for: ['production.*'] });
  });

  it('one approval is not enough, however often; a second is', async () => {
    const { approval, redeem } = await host.ask();
    assert.equal(approval.approvers_needed, 2);
    for (const client of [host.operator, host.operator, host.shared]) {
      const { approval: now } = await client.approve({ ...at(approval.id), body: {} });
      assert.equal(now.status, 'pending');
    }
    assert.equal((await redeem()).decision, 'pending');
    await host.bob.approve({ ...at(approval.id), body: {} });
    const answer = await redeem();
    assert.equal(answer.decision, 'approved');
    assert.deepEqual(answer.statement?.by, ['person:oscar', 'person:bob']);
  });

  it('one rejection ends it', async () => {
    const { approval, redeem } = await host.ask();
    await host.alice.approve({ ...at(approval.id), body: {} });
    await host.bob.reject({ ...at(approval.id), body: {} });
    assert.equal((await redeem()).decision, 'rejected');
  });

  it('an edit must be approved by both', async () => {
    const { approval, redeem } = await host.ask();
    await host.alice.approve({ ...at(approval.id), body: {} });
    const edited_arguments = { commit: 'abc123', target: 'staging' };
    const { approval: edited } = await host.bob.approve({
      ...at(approval.id),
      body: { edited_arguments },
    });
    assert.equal(edited.status, 'pending');
    assert.deepEqual(edited.arguments, edited_arguments);
    assert.deepEqual(edited.approved_by, ['person:bob']);
    await host.alice.approve({ ...at(approval.id), body: {} });
    const answer = await redeem();
    assert.deepEqual(answer.arguments, edited_arguments);
    assert.deepEqual(answer.statement?.by, ['person:bob', 'person:alice']);
  });

  it('the narrower of two scopes applies', async () => {
    const { approval } = await host.ask();
    await host.alice.approve({ ...at(approval.id), body: { for: 'class' } });
    const { approval: done } = await host.bob.approve({
      ...at(approval.id),
      body: { for: 'once' },
    });
    assert.equal(done.status, 'approved');
    assert.equal(done.permit_id, null);
  });
});

describe('edit before approve', () => {
  it('returns the edited arguments, with their own hash', async () => {
    const { approval, body, redeem } = await host.ask();
    const edited_arguments = { commit: 'abc123', target: 'staging' };
    await host.alice.approve({ ...at(approval.id), body: { edited_arguments } });
    const answer = await redeem();
    assert.equal(answer.edited, true);
    assert.deepEqual(answer.arguments, edited_arguments);
    assert.equal(answer.statement?.arguments_hash, hashJson(edited_arguments));
    assert.equal(answer.statement?.asked_hash, body.arguments_hash);
    assert.equal(answer.statement?.diff_hash, null, 'no person saw a diff of this');
  });

  it('is for one call only', async () => {
    const { approval } = await host.ask();
    const body = { for: 'task' as const, edited_arguments: { a: 1 } };
    await assert.rejects(host.alice.approve({ ...at(approval.id), body }), isCode('bad_request'));
  });
});
