// A call that needs approval: it waits without an effect, is done once when it is approved, and
// never otherwise. Policy decides again right before the effect.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { deriveId } from '../../../platform/ids.ts';
import type { ApprovalId, CallId, RunId } from '../../../wire/primitives.ts';
import {
  decideAsPerson,
  effectsIn,
  eventsOf,
  hostToold,
  isCode,
  makeWorld,
  publishPolicy,
  type TooldTestHost,
  type TooldTestRun,
  type TooldWorld,
} from '../testing/host.ts';

const CODER_NEEDS_APPROVAL = {
  tools: { allow: ['test.tools'] },
  approvals: { required: ['test.count_effect'] },
};
const TOOL = 'test.count_effect';

let world: TooldWorld;
let host: TooldTestHost;
let run: TooldTestRun;
beforeEach(async () => {
  world = makeWorld();
  publishPolicy(world.dir, { coder: CODER_NEEDS_APPROVAL });
  host = await hostToold(world);
  run = await host.admit('one');
});
afterEach(async () => {
  await host.stop();
  world.remove();
});

const answer = (callId: CallId, decision: Parameters<TooldWorld['approvald']['decide']>[1]): void =>
  decideAsPerson(world, callId, decision);

describe('a call that needs approval', () => {
  const ask = (args: object = { key: 'x' }) => run.ask(1, TOOL, args);

  it('[R95] waits, says so, and has no effect yet', async () => {
    const first = await ask();
    assert.equal(first.status, 'waiting');
    assert.equal(first.wait?.kind, 'approval');
    assert.deepEqual(effectsIn(world), []);
    const { ask: shown } = world.approvald.approvalOf(run.callId(1))!;
    assert.deepEqual(shown.arguments, { key: 'x' });
    assert.match(shown.rules.join(), /manifest:coder:/);
    assert.equal(shown.each_call, false, 'a permit may cover what only policy asks about');
    assert.deepEqual(await eventsOf(world, run.callId(1)), ['.waiting.0']);
    assert.equal((await ask()).status, 'waiting', 'a repeated call still waits');
    const event = world.audit.events.find(({ id }) => id.endsWith('.waiting.0'));
    assert.equal(event?.data?.checks, 'caller task tool scope sandbox:L0 approval:asked');
  });

  it('[R109] is done once, when it is approved', async () => {
    await ask();
    answer(run.callId(1), { decision: 'approved' });
    assert.equal((await ask()).status, 'completed');
    assert.equal((await ask()).status, 'completed');
    assert.equal(effectsIn(world).length, 1);
    assert.deepEqual(await eventsOf(world, run.callId(1)), [
      '.waiting.0',
      '.attempted.1',
      '.ended',
    ]);
    const event = world.audit.events.find(({ id }) => id.endsWith('.attempted.1'));
    assert.match(String(event?.data?.approval), /^approval_/);
    assert.match(String(event?.data?.checks), /approval:given$/);
  });

  for (const [decision, code] of [
    ['rejected', 'rejected'],
    ['expired', 'expired'],
    ['info', 'more_information'],
    ['canceled', 'denied'],
  ] as const)
    it(`fails permanently when it is ${decision}`, async () => {
      await ask();
      answer(run.callId(1), { decision, text: 'because\u202e' });
      const refused = await ask();
      assert.equal(refused.status, 'denied');
      assert.equal(refused.error?.code, code);
      assert.doesNotMatch(refused.error?.message ?? '', /\u202e/);
      assert.equal((await ask()).status, 'denied');
      assert.deepEqual(effectsIn(world), []);
      assert.deepEqual(await eventsOf(world, run.callId(1)), ['.waiting.0', '.denied']);
    });

  it('[R110] is done at once under a permit', async () => {
    world.approvald.state.permits = true;
    assert.equal((await ask()).status, 'completed');
    assert.equal(effectsIn(world).length, 1);
  });

  it('is done with the arguments a person edited', async () => {
    await ask({ key: 'first' });
    answer(run.callId(1), { decision: 'approved', edited: { key: 'second' } });
    assert.equal((await ask({ key: 'first' })).status, 'completed');
    assert.match(effectsIn(world).join(), /second/);
  });

  it('fails when the edited arguments do not fit the tool', async () => {
    await ask();
    answer(run.callId(1), { decision: 'approved', edited: { nonsense: 1 } });
    const refused = await ask();
    assert.equal(refused.error?.code, 'bad_arguments');
    assert.deepEqual(effectsIn(world), []);
  });

  it('is not done when the capability was removed before the decision', async () => {
    await ask();
    const site = 'forbid (principal, action == Action::"tool.call", resource);';
    publishPolicy(world.dir, { coder: CODER_NEEDS_APPROVAL, version: 2, site });
    world.clock.advance(1_000);
    answer(run.callId(1), { decision: 'approved' });
    const refused = await ask();
    assert.equal(refused.status, 'denied');
    assert.deepEqual(effectsIn(world), []);
  });

  it('is not done on a decision that approvald did not sign for it', async () => {
    await ask();
    answer(run.callId(1), { decision: 'approved' });
    const forgeries: TooldWorld['approvald']['state']['forge'][] = [
      (real) => ({ ...real, signature: Buffer.alloc(64).toString('base64url') }),
      (real) => ({ ...real, arguments: { key: 'y' } }),
      (real) => ({ ...real, statement: { ...real.statement!, agent: 'other' } }),
      (real) => ({ ...real, arguments: { key: 'y' }, edited: true }),
    ];
    for (const forge of forgeries) {
      world.approvald.state.forge = forge;
      await assert.rejects(ask(), isCode('denied'));
    }
    assert.deepEqual(effectsIn(world), []);
    world.approvald.state.forge = (real) => real;
    assert.equal((await ask()).status, 'completed');
  });

  it('is not done on a decision that approvald signed for something else', async () => {
    await ask();
    const other = run.callId(9);
    const hash = 'f'.repeat(64);
    for (const [what, made] of Object.entries({
      'another approval': { approval_id: deriveId<ApprovalId>('approval', other) },
      'another call': { call_id: other },
      'another run': { run_id: deriveId<RunId>('run', 'other') },
      'another agent': { agent: 'other' },
      'another tool': { action: 'test.echo' },
      'other requested arguments': { asked_hash: hash },
      'other arguments that were approved': { arguments_hash: hash },
      'another diff': { diff_hash: hash },
      'a no': { decision: 'rejected' as const },
    }))
      for (const edited of [undefined, { key: 'y' }]) {
        // Edited arguments have no diff that the person saw.
        if (edited !== undefined && 'diff_hash' in made) continue;
        const decision = edited === undefined ? {} : { edited };
        answer(run.callId(1), { decision: 'approved', ...decision });
        world.approvald.state.forge = (real) =>
          world.approvald.signed(real, { ...real.statement!, ...made });
        await assert.rejects(ask(), isCode('denied'), `${what}, ${JSON.stringify(edited)}`);
        assert.deepEqual(effectsIn(world), [], what);
      }
    answer(run.callId(1), { decision: 'approved' });
    world.approvald.state.forge = (real) => world.approvald.signed(real, real.statement!);
    assert.equal((await ask()).status, 'completed', 'control: signed again, for this call');
  });

  it('asks a person when it was interrupted before the rule was added, and fails when rejected', async () => {
    await host.stop();
    let isInterrupted = true;
    const failpoint = (name: string) => {
      if (isInterrupted && name === 'toold.after-attempt-durable') throw new Error('interrupted');
    };
    host = await hostToold(world, { failpoint });
    run = await host.admit('one', { fence: 2 });
    const echo = () => run.ask(2, 'test.echo', { text: 'x' });
    await assert.rejects(echo());
    isInterrupted = false;
    const coder = { tools: { allow: ['test.tools'] }, approvals: { required: ['test.echo'] } };
    publishPolicy(world.dir, { coder, version: 2 });
    world.clock.advance(1_000);
    assert.equal((await echo()).status, 'waiting');
    answer(run.callId(2), { decision: 'rejected', text: 'no' });
    const refused = await echo();
    assert.deepEqual([refused.status, refused.error?.code], ['failed', 'rejected']);
    const events = await eventsOf(world, run.callId(2));
    assert.deepEqual(events, ['.attempted.1', '.ended']);
  });

  it('goes on waiting over a restart, and requests only one approval', async () => {
    await ask();
    await host.stop();
    host = await hostToold(world);
    run = await host.admit('one', { fence: 2 });
    assert.equal((await ask()).status, 'waiting');
    assert.equal(world.approvald.state.approvals.size, 1);
    answer(run.callId(1), { decision: 'approved' });
    assert.equal((await ask()).status, 'completed');
    assert.equal(effectsIn(world).length, 1);
  });
});
