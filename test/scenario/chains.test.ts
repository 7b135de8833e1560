// A step with several calls is decided as a whole: a permit for a low-risk call does not cover it
// next to a riskier one, and the approver sees all calls. The model is scripted; runner, toold and
// approvald are real.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import type { ApprovalSummary } from '../../src/wire/approvald.ts';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  create,
  manifestOf,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

const SPEC = `{
  tools: { allow: [test.tools, file.read, delete.recursive] },
  approvals: { required: [test.echo] }
}`;

describe('several calls in one step', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({ agents: { planner: manifestOf('planner', SPEC) } });
  });
  after(() => world.stop());

  const pending = (taskId: string, count: number): Promise<ApprovalSummary[]> =>
    eventually(`${count} to be asked for`, async () => {
      const { approvals } = await world.approvald.listApprovals({ query: { status: 'pending' } });
      const own = approvals.filter(({ task_id }) => task_id === taskId);
      return own.length === count ? own : undefined;
    });

  it('[R108] are decided by the riskiest of them', async () => {
    const goal = 'Say hello, and again, and again with something worse';
    const echo = (text: string) => call('test.echo', { text });
    world.model.on(
      goal,
      says(echo('first')),
      says(echo('second'), call('file.read', { path: 'none' })),
      says(echo('third'), call('delete.recursive', { path: 'none' })),
      finishes('done'),
    );
    const { id } = await create(world, goal, { agent: 'planner' });
    const people = makeReviewer(world.approvald);
    const [first] = await pending(id, 1);
    const params = { id: first!.id };
    const { approval: given } = await people.approve({ params, body: { for: 'task' } });
    assert.equal(given.permit_id !== null, true);

    // The second is covered, next to a call of no higher risk; the third is not.
    const both = await pending(id, 2);
    const third = both.find(({ action }) => action === 'test.echo')!;
    const { approval } = await world.approvald.getApproval({ params: { id: third.id } });
    assert.deepEqual(approval.arguments, { text: 'third' });
    const { class: word, risk, reversibility } = approval;
    assert.deepEqual([word, risk, reversibility], ['delete.recursive', 'high', 'irreversible']);
    const beside = approval.chain.filter(({ part }) => part === 'beside');
    assert.deepEqual(
      beside.map(({ what }) => what),
      ['delete.recursive {"path":"none"}'],
    );
    assert.equal(approval.would_permit.class, undefined);
    const { approvals } = await world.approvald.listApprovals({ query: { task_id: id as never } });
    const granted = approvals.filter(({ permit_id }) => permit_id === given.permit_id);
    assert.equal(granted.length, 2, 'the first, and the second by its permit');

    for (const { id: one } of both)
      await people.approve({ params: { id: one }, body: { for: 'once' } });
    assert.equal((await taskEnded(world, id)).status, 'completed');
  });
});
