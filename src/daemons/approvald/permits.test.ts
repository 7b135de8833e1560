// Tests what permits cover, how long, and that a run which has read text from outside gets none.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { deriveId } from '../../platform/ids.ts';
import { hashJson } from '../../platform/json.ts';
import type { ApprovalReach, AskApproval } from '../../wire/approvald.ts';
import type { TaskId } from '../../wire/primitives.ts';
import { host, setUpEachTest, world } from './testing/each-test.ts';
import { isCode, listEventKinds, settle } from './testing/host.ts';

setUpEachTest();

let n = 0;
/** Another request of the same kind, with its own arguments. */
function next(more: Partial<AskApproval> = {}) {
  const args = { commit: `next-${n++}` };
  return host.ask({ arguments: args, arguments_hash: hashJson(args), ...more });
}
async function permit(scope: ApprovalReach, more: { expires_in_s?: number } = {}) {
  const { approval } = await next();
  const params = { id: approval.id };
  const done = await host.alice.approve({ params, body: { for: scope, ...more } });
  return done.approval.permit_id!;
}
const NETWORK = {
  ...({ class: 'network.external', risk: 'low', reversibility: 'read-only', what: '' } as const),
};
const PART = { part: 'brings', what: '' } as const;
const otherTask = { root_task_id: deriveId<TaskId>('task', 'elsewhere') };

const scopes: [ApprovalReach, string, Partial<AskApproval>, 'pending' | 'granted'][] = [
  ['once', 'nothing else', {}, 'pending'],
  ['task', 'the same tool in the task', {}, 'granted'],
  ['task', 'no other task', otherTask, 'pending'],
  [
    'task',
    'no call that another rule asks about',
    { rules: ['base:production', 'site:x:1'] },
    'pending',
  ],
  ['class', 'nor there', { rules: ['site:x:1'] }, 'pending'],
  ['task', 'no other tool', { action: 'deploy.undo' }, 'pending'],
  ['task', 'no other agent', { agent: 'coder' }, 'pending'],
  ['task', 'no other class', { class: 'network.external' }, 'pending'],
  ['repo', 'the same tool in the repository, in any task', otherTask, 'granted'],
  ['repo', 'no other repository', { repo: '/srv/other' }, 'pending'],
  ['repo', 'not what has no repository', { repo: null }, 'pending'],
  ['class', 'any tool of the class, in any task', { action: 'x', ...otherTask }, 'granted'],
  ['class', 'no other class', { class: 'secrets.read' }, 'pending'],
  ['class', 'nothing worse', { reversibility: 'irreversible' }, 'pending'],
  [
    'class',
    'no chain with a link of another class',
    { chain: [{ ...NETWORK, part: 'brings' }] },
    'pending',
  ],
  [
    'class',
    'a call in a step with one of another class that is no worse',
    { chain: [{ ...NETWORK, part: 'beside' }] },
    'granted',
  ],
  [
    'class',
    'no call in a step with one that is worse',
    { chain: [{ ...NETWORK, reversibility: 'irreversible', part: 'beside' }] },
    'pending',
  ],
  ['task', 'no marked run', { labels: ['outside'] }, 'pending'],
  ['repo', 'no marked run', { labels: ['outside'] }, 'pending'],
  ['class', 'no marked run', { labels: ['outside', 'tool'] }, 'pending'],
];

describe('[R110-R112] the scope of an approval', () => {
  for (const [scope, what, more, status] of scopes)
    it(`for ${scope}: ${what}`, async () => {
      await permit(scope);
      assert.equal((await next(more)).status, status);
    });

  it('a tool that needs approval for every call has no permit', async () => {
    const { approval } = await next({ each_call: true });
    const params = { id: approval.id };
    assert.deepEqual(Object.keys(approval.would_permit), ['once']);
    for (const scope of ['task', 'repo', 'class'] as const)
      await assert.rejects(
        host.alice.approve({ params, body: { for: scope } }),
        isCode('denied', /every call/),
      );
    await host.alice.approve({ params, body: {} });
    await permit('class');
    assert.equal((await next({ each_call: true })).status, 'pending');
    assert.equal((await next()).status, 'granted', 'the permit covers other calls');
  });

  it('a call covered by a permit is granted at once, and names the approver', async () => {
    const id = await permit('task');
    const { redeem, approval } = await next();
    assert.equal(approval.status, 'approved');
    assert.deepEqual(approval.approved_by, ['person:alice']);
    const { decision, statement } = await redeem();
    assert.equal(decision, 'approved');
    assert.equal(statement?.permit_id, id);
    assert.deepEqual(statement?.by, ['person:alice']);
    assert.ok(listEventKinds(world).includes('permit.used task'));
    const { permits } = await host.alice.listPermits({ query: { active: 'true' } });
    assert.equal(permits[0]?.uses, 1);
  });

  it('a chain of calls has its riskiest class', async () => {
    const { approval } = await next({
      class: 'file.write_workspace',
      risk: 'low',
      reversibility: 'reversible',
      chain: [
        {
          class: 'production.change',
          risk: 'high',
          reversibility: 'externally-reversible',
          ...PART,
        },
        { class: 'mail.send', risk: 'medium', reversibility: 'irreversible', ...PART },
      ],
    });
    assert.equal(approval.class, 'production.change');
    assert.equal(approval.risk, 'high');
    assert.equal(approval.reversibility, 'irreversible');
  });

  it('a permit of a low class does not cover a chain with a worse link', async () => {
    const low = {
      class: 'file.write_workspace',
      risk: 'low',
      reversibility: 'reversible',
    } as const;
    const { approval } = await next(low);
    await host.alice.approve({ params: { id: approval.id }, body: { for: 'task' } });
    assert.equal((await next(low)).status, 'granted');
    const worse = {
      class: 'production.change',
      risk: 'high',
      reversibility: 'reversible',
    } as const;
    for (const part of ['brings', 'beside'] as const) {
      const { approval: chained, status } = await next({
        ...low,
        chain: [{ ...worse, part, what: '' }],
      });
      assert.equal(status, 'pending');
      assert.equal(chained.class, 'production.change');
      // Approving a file does not approve every change of production.
      assert.deepEqual(Object.keys(chained.would_permit).sort(), ['once', 'repo', 'task']);
      const params = { id: chained.id };
      const body = { for: 'class' as const };
      await assert.rejects(host.alice.approve({ params, body }), isCode('bad_request', /class/));
    }
  });
});

describe('the chain of a call', () => {
  const shown = { ...NETWORK, ...PART };
  it('must be the one shown when the decision is used', async () => {
    for (const [brings, decision] of [
      [[], 'approved'],
      [[shown], 'approved'],
      [[{ ...shown, risk: 'high' as const }], 'changed'],
      [[{ ...shown, class: 'secrets.read' }], 'changed'],
    ] as const) {
      const { approval, redeem } = await next({ chain: [shown] });
      await host.alice.approve({ params: { id: approval.id }, body: { for: 'once' } });
      assert.equal((await redeem({ brings: [...brings] })).decision, decision);
    }
  });
});

describe('a permit ends', () => {
  it('when it is revoked, at once, also for calls it granted that are not done yet', async () => {
    const id = await permit('task');
    const granted = await next();
    assert.equal(granted.status, 'granted');
    const { permit: revoked } = await host.bob.revokePermit({ params: { id } });
    assert.equal(revoked.active, false);
    assert.equal(revoked.revoked_by, 'person:bob');
    assert.equal((await granted.redeem()).decision, 'rejected');
    assert.equal((await next()).status, 'pending');
    await settle();
    assert.ok(listEventKinds(world).includes('permit.revoked task'));
  });

  it('when it expires', async () => {
    await permit('task', { expires_in_s: 60 });
    world.clock.advance(59_999);
    const last = await next();
    assert.equal(last.status, 'granted');
    world.clock.advance(1);
    assert.equal((await last.redeem()).decision, 'rejected');
    assert.equal((await next()).status, 'pending');
  });

  it('when its run reads text from outside before it acts', async () => {
    await permit('task');
    const { redeem } = await next();
    assert.equal((await redeem({ labels: ['outside'] })).decision, 'changed');
  });

  it('revoking twice is revoking once', async () => {
    const id = await permit('task');
    await host.alice.revokePermit({ params: { id } });
    const { permit: again } = await host.bob.revokePermit({ params: { id } });
    assert.equal(again.revoked_by, 'person:alice');
  });
});

describe('what cannot be permitted', () => {
  it('any call of a marked run, except once', async () => {
    const { approval } = await next({ labels: ['outside'] });
    assert.deepEqual(Object.keys(approval.would_permit), ['once']);
    const params = { id: approval.id };
    for (const scope of ['task', 'repo', 'class'] as const)
      await assert.rejects(
        host.alice.approve({ params, body: { for: scope } }),
        isCode('denied', /text from outside/),
      );
    await host.alice.approve({ params, body: { for: 'once' } });
  });

  it('a repository, if the call has none', async () => {
    const { approval } = await next({ repo: null });
    const body = { for: 'repo' as const };
    await assert.rejects(
      host.alice.approve({ params: { id: approval.id }, body }),
      isCode('bad_request'),
    );
  });

  it('more time than the site allows', async () => {
    const { approval } = await next();
    const body = { for: 'task' as const, expires_in_s: 31_000_000 };
    await assert.rejects(
      host.alice.approve({ params: { id: approval.id }, body }),
      isCode('bad_request', /up to 2592000/),
    );
  });
});
