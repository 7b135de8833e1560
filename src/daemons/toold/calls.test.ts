// Calls as a run sees them, with toold hosted between fake peers: done once, recorded, denied,
// waited for, left open.
import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import type { Fault } from '../../wire/errors.ts';
import { fault } from '../../wire/errors.ts';
import { host, restart, setUpEachTest, world } from './testing/each-test.ts';
import {
  advanceUntil,
  allSent,
  effectsIn,
  eventsOf,
  isCode,
  type TooldTestRun,
} from './testing/host.ts';
import { INSTALLED, NOT_INSTALLED } from './tools/packages.ts';

setUpEachTest();
let run: TooldTestRun;
beforeEach(async () => {
  run = await host.admit('one');
});

describe('a call', () => {
  it('is done once and then returned from the record', async () => {
    const first = await run.ask(1, 'test.count_effect', { key: 'a' });
    assert.deepEqual(first, {
      call_id: run.callId(1),
      status: 'completed',
      result: { counted: 'a' },
      recorded: false,
    });
    const second = await run.ask(1, 'test.count_effect', { key: 'a' });
    assert.deepEqual(second, { ...first, recorded: true });
    assert.deepEqual(effectsIn(world), ['a']);
    assert.deepEqual(await eventsOf(world, run.callId(1)), ['.attempted.1', '.ended']);
  });

  it('is returned from the record after a restart', async () => {
    await run.ask(1, 'test.count_effect', { key: 'a' });
    await restart();
    run = await host.admit('one', { fence: 2 });
    const again = await run.ask(1, 'test.count_effect', { key: 'a' });
    assert.equal(again.recorded, true);
    assert.deepEqual(effectsIn(world), ['a']);
  });

  it('requested many times at once is done once', async () => {
    const asks = Array.from({ length: 10 }, () => run.ask(1, 'test.count_effect', { key: 'a' }));
    const answers = await Promise.all(asks);
    assert.ok(answers.every((answer) => answer.status === 'completed'));
    assert.deepEqual(effectsIn(world), ['a']);
  });

  it('with another tool or other arguments under the same id is replay_differs', async () => {
    await run.ask(1, 'test.echo', { text: 'a' });
    await assert.rejects(run.ask(1, 'test.echo', { text: 'b' }), isCode('replay_differs'));
    await assert.rejects(run.ask(1, 'timer.wait', { text: 'a' }), isCode('replay_differs'));
    const slow = run.ask(2, 'test.echo', { text: 'a', delay_ms: 10 });
    await assert.rejects(run.ask(2, 'test.echo', { text: 'b' }), isCode('replay_differs'));
    world.clock.advance(10);
    await advanceUntil(world, slow);
  });

  it('has an id bound to its run: no other run can use it, or learn whether it was used', async () => {
    const other = await host.admit('two');
    const squat = (n: number) => {
      const body = { call_id: run.callId(n), tool: 'test.echo', arguments: { text: 'theirs' } };
      return other.client.call({ body }).catch((error: Fault) => error.toBody());
    };
    const before = JSON.stringify(await squat(1));
    assert.match(before, /bad_request.*not the id of a call of this run/);
    assert.equal((await run.ask(1, 'test.echo', { text: 'a' })).status, 'completed');
    assert.equal(JSON.stringify(await squat(1)), before, 'the same before and after');
    assert.equal((await other.ask(1, 'test.echo', { text: 'b' })).status, 'completed');
    const calls = await host.operator.listCalls({ query: { run_id: other.id } });
    assert.deepEqual(
      calls.calls.map(({ call_id }) => call_id),
      [other.callId(1)],
    );
  });

  it('sends its attempt to the audit log before the effect', async () => {
    const seen: string[] = [];
    world.audit.state.gate = () => void seen.push(`${effectsIn(world).length} done`);
    await run.ask(1, 'test.count_effect', { key: 'a' });
    assert.equal(seen[0], '0 done');
    assert.deepEqual(effectsIn(world), ['a']);
    await allSent(world);
    assert.equal(world.audit.events[0]?.event, 'tool.call.attempted');
  });

  it('puts no content into the audit log', async () => {
    await run.ask(1, 'artifact.put', { name: 'secret-name', text: 'secret-text' });
    await allSent(world);
    assert.doesNotMatch(JSON.stringify(world.audit.events), /secret/);
  });
});

describe('a denial', () => {
  const denials: [string, string, object, object, string][] = [
    ['an unknown tool', 'shell.run', {}, {}, 'unknown_tool'],
    ['wrong arguments', 'test.echo', { txt: 1 }, {}, 'bad_arguments'],
    ['another agent', 'test.echo', { text: 'a' }, { agent: 'deployer' }, 'wrong_agent'],
  ];
  for (const [what, tool, args, more, code] of denials) {
    it(`of ${what} is a value, recorded, and in the log`, async () => {
      const answer = await run.ask(1, tool, args, more);
      assert.equal(answer.status, 'denied');
      assert.equal(answer.error?.code, code);
      assert.equal((await run.ask(1, tool, args, more)).recorded, true);
      await allSent(world);
      const event = world.audit.events.find((e) => e.event === 'tool.call.denied');
      assert.equal(event?.allowed, false);
      assert.match(event?.policy ?? '', /^toold:\w+$/);
      assert.deepEqual(await eventsOf(world, run.callId(1)), ['.denied']);
    });
  }

  it('of a tool that was not granted, of an expired grant, of a spent quota', async () => {
    const narrow = await host.admit('narrow', { tools: ['test.echo'] });
    assert.equal((await narrow.ask(1, 'timer.wait', {})).error?.code, 'not_granted');
    const expired = await host.admit('expired', { grant_expires_at: '2026-06-29T17:59:59Z' });
    assert.equal((await expired.ask(1, 'test.echo', {})).error?.code, 'grant_expired');
    const small = await host.admit('small', { max_calls: 1 });
    assert.equal((await small.ask(1, 'test.echo', { text: '1' })).status, 'completed');
    assert.equal((await small.ask(2, 'test.echo', { text: '2' })).error?.code, 'limit');
    // Calls done before are still returned from the record.
    assert.equal((await small.ask(1, 'test.echo', { text: '1' })).status, 'completed');
  });

  it('past the quota is not recorded forever', async () => {
    const small = await host.admit('small', { max_calls: 1 });
    let refused: unknown;
    for (let i = 0; i < 100 && refused === undefined; i++)
      await small.ask(i, 'test.echo', { text: `${i}` }).catch((error: unknown) => {
        refused = error;
      });
    assert.ok(isCode('limit')(refused));
  });
});

describe('the breaker', () => {
  it('denies the sixth equal call in a row and notifies agentd', async () => {
    for (let i = 1; i <= 5; i++)
      assert.equal((await run.ask(i, 'test.echo', { text: 'a' })).status, 'completed');
    const sixth = await run.ask(6, 'test.echo', { text: 'a' });
    assert.equal(sixth.error?.code, 'breaker');
    await allSent(world);
    assert.equal(world.agentd.breaks.length, 1);
    assert.match(world.agentd.breaks[0]!, /test\.echo was called 6 times in a row/);
  });

  it("remembers the run's calls over a restart", async () => {
    for (let i = 1; i <= 5; i++) await run.ask(i, 'test.echo', { text: 'a' });
    await restart();
    run = await host.admit('one', { fence: 2 });
    for (let i = 1; i <= 5; i++)
      assert.equal((await run.ask(i, 'test.echo', { text: 'a' })).recorded, true);
    assert.equal((await run.ask(6, 'test.echo', { text: 'a' })).error?.code, 'breaker');
  });
});

describe('a wait', () => {
  it("parks a delegation and ends it with the child's result", async () => {
    const args = { agent: 'researcher', goal: 'find out' };
    const waiting = await run.ask(1, 'task.delegate', args);
    assert.equal(waiting.status, 'waiting');
    assert.equal(waiting.wait?.kind, 'child');
    const open = await run.ask(1, 'task.delegate', args);
    assert.deepEqual(open, { ...waiting, recorded: true });
    const answer = { status: 'completed', result: 'found', result_ref: null };
    world.agentd.endWait(waiting.wait!.id, { outcome: 'completed', answer });
    const settledAnswer = await run.ask(1, 'task.delegate', args);
    assert.equal(settledAnswer.status, 'completed');
    assert.equal(settledAnswer.result?.result, 'found');
    assert.match(String(settledAnswer.result?.task_id), /^task_/);
    assert.equal((await run.ask(1, 'task.delegate', args)).recorded, true);
    assert.deepEqual(await eventsOf(world, run.callId(1)), [
      '.attempted.1',
      '.waiting.1',
      '.ended',
    ]);
    assert.equal(world.agentd.done.length, 1);
  });

  it('of a failed child is data for the model; without wait the id is returned', async () => {
    const args = { agent: 'researcher', goal: 'find out' };
    const { wait } = await run.ask(1, 'task.delegate', args);
    const error = { code: 'limit', message: 'too long', hint: '' };
    world.agentd.endWait(wait!.id, { outcome: 'failed', answer: { status: 'failed', error } });
    const failed = await run.ask(1, 'task.delegate', args);
    assert.equal(failed.status, 'completed');
    assert.deepEqual(failed.result?.error, error);
    const free = await run.ask(2, 'task.delegate', { ...args, wait: false });
    assert.equal(free.status, 'completed');
  });

  it('for a person, a timer and a reply', async () => {
    const question = { question: 'which?', choices: ['a', 'b'] };
    const waiting = await run.ask(1, 'person.ask', question);
    const end = { answer: { answer: 'b' }, answered_by: 'person:alice' };
    world.agentd.endWait(waiting.wait!.id, end);
    const answered = await run.ask(1, 'person.ask', question);
    assert.deepEqual(answered.result, { answer: 'b', answered_by: 'person:alice' });

    const timer = await run.ask(2, 'timer.wait', { after_s: 60 });
    assert.equal(timer.wait?.kind, 'timer');
    world.agentd.endWait(timer.wait!.id, { outcome: 'completed' });
    assert.equal((await run.ask(2, 'timer.wait', { after_s: 60 })).status, 'completed');

    const message = { to: 'researcher', text: 'hello', wait_reply: true };
    const sent = await run.ask(3, 'message.send', message);
    assert.equal(sent.wait?.kind, 'message');
    world.agentd.endWait(sent.wait!.id, { answer: { text: 'hi' } });
    const reply = await run.ask(3, 'message.send', message);
    assert.deepEqual(reply.result, { replied: true, reply: { text: 'hi' } });
  });

  it('[K50] for a package: a person installs it or not, and nothing else does', async () => {
    const request = { manager: 'npm', name: 'left-pad', version: '1.3.0', reason: 'to pad' };
    const waiting = await run.ask(1, 'package.request', request);
    const { question } = world.agentd.waits.get(waiting.wait!.id)!;
    assert.match(question ?? '', /^coder asks for the npm package left-pad 1\.3\.0/);
    assert.match(question ?? '', /Its reason: to pad\n/);
    world.agentd.endWait(waiting.wait!.id, { answer: { answer: INSTALLED } });
    assert.equal((await run.ask(1, 'package.request', request)).result?.installed, true);
    const again = await run.ask(2, 'package.request', request);
    world.agentd.endWait(again.wait!.id, { answer: { answer: NOT_INSTALLED } });
    assert.equal((await run.ask(2, 'package.request', request)).result?.installed, false);
    const option = { ...request, name: '--registry=x' };
    assert.equal((await run.ask(3, 'package.request', option)).error?.code, 'bad_arguments');
  });

  it('that expires or is canceled is reported to the model', async () => {
    const ends = [
      ['expired', 'failed'],
      ['canceled', 'canceled'],
    ] as const;
    for (const [n, [outcome, status]] of ends.entries()) {
      const { wait } = await run.ask(n, 'person.ask', { question: outcome });
      world.agentd.endWait(wait!.id, { outcome });
      const answer = await run.ask(n, 'person.ask', { question: outcome });
      assert.equal(answer.status, status);
      assert.equal(answer.error?.code, outcome);
    }
  });
});

describe('an effect whose outcome could not be written', () => {
  const failOnceAfterEffect = () => {
    let failed = false;
    return (name: string) => {
      if (name !== 'toold.after-effect' || failed) return;
      failed = true;
      throw new Error('the outcome is lost');
    };
  };
  beforeEach(async () => {
    await restart({ failpoint: failOnceAfterEffect() });
    run = await host.admit('one', { fence: 2 });
  });

  it('becomes a question without a restart too', async () => {
    await assert.rejects(run.ask(1, 'test.count_effect', { key: 'a' }), isCode('internal'));
    const again = await run.ask(1, 'test.count_effect', { key: 'a' });
    assert.equal(again.wait?.kind, 'question');
    assert.deepEqual(effectsIn(world), ['a']);
  });

  it('is repeated where that is harmless', async () => {
    await assert.rejects(run.ask(1, 'artifact.put', { name: 'n', text: 't' }), isCode('internal'));
    const again = await run.ask(1, 'artifact.put', { name: 'n', text: 't' });
    assert.equal(again.status, 'completed');
    assert.equal(world.agentd.done.length, 1);
  });
});

describe('tools that agentd performs', () => {
  it("finish, send and store, each under the call's id", async () => {
    const put = await run.ask(1, 'artifact.put', { name: 'report', text: 'x'.repeat(70_000) });
    const ref = String(put.result?.artifact);
    const page = await run.ask(2, 'artifact.get', { id: ref });
    assert.equal(String(page.result?.text).length, 60_000);
    const rest = await run.ask(3, 'artifact.get', { id: put.result?.id, offset: 60_000 });
    assert.equal(String(rest.result?.text).length, 10_000);
    assert.equal(rest.result?.next_offset, undefined);
    const sent = await run.ask(4, 'message.send', { to: 'person:alice', text: 'soon' });
    assert.match(String(sent.result?.message_id), /^msg_/);
    const end = await run.ask(5, 'task.finish', { result: 'done', artifacts: [ref] });
    assert.equal(end.result?.status, 'completed');
  });

  it('leave the call to be retried while agentd is down', async () => {
    let away = true;
    world.agentd.state.gate = (route) => {
      if (away && route !== 'marks') throw fault('unavailable', 'agentd is away');
    };
    const args = { to: 'researcher', text: 'hello' };
    await assert.rejects(run.ask(1, 'message.send', args), isCode('unavailable'));
    const { call } = await host.operator.getCall({ params: { id: run.callId(1) } });
    assert.equal(call.status, 'allowed');
    away = false;
    assert.equal((await run.ask(1, 'message.send', args)).status, 'completed');
    const events = await eventsOf(world, run.callId(1));
    assert.deepEqual(events, ['.attempted.1', '.attempted.2', '.ended']);
  });

  it('do not flood the log while they are retried: the backoff grows', async () => {
    let away = true;
    world.agentd.state.gate = (route) => {
      if (away && route !== 'marks') throw fault('unavailable', 'agentd is away');
    };
    const args = { to: 'researcher', text: 'hello' };
    const ask = () => run.ask(1, 'message.send', args);
    for (let i = 0; i < 50; i++) await assert.rejects(ask());
    await assert.rejects(ask(), { code: 'rate_limited', retry: true, retryAfterMs: 1_000 });
    const attempts = (await eventsOf(world, run.callId(1))).length;
    assert.ok(attempts < 20, `${attempts} events`);
    world.clock.advance(1_000);
    await assert.rejects(ask(), isCode('unavailable'));
    await assert.rejects(ask(), { code: 'rate_limited', retryAfterMs: 2_000 });
    away = false;
    world.clock.advance(2_000);
    assert.equal((await ask()).status, 'completed');
    assert.equal((await eventsOf(world, run.callId(1))).length, attempts + 3);
  });

  it('are not done when the grant has expired by then', async () => {
    world.agentd.state.gate = (route) => {
      if (route !== 'marks') throw fault('unavailable', 'agentd is away');
    };
    const args = { to: 'researcher', text: 'hello' };
    await assert.rejects(run.ask(1, 'message.send', args), isCode('unavailable'));
    world.agentd.state.gate = () => {};
    run = await host.admit('one', { fence: 2, tools: ['test.echo'] });
    const answer = await run.ask(1, 'message.send', args);
    assert.equal(answer.status, 'failed');
    assert.equal(answer.error?.code, 'not_granted');
    assert.deepEqual(world.agentd.done, []);
    assert.deepEqual(await eventsOf(world, run.callId(1)), ['.attempted.1', '.ended']);
  });

  it('fail when the fault is permanent, or no gateway accepts the message', async () => {
    const get = await run.ask(1, 'artifact.get', { id: `artifact_${'0'.repeat(26)}` });
    assert.equal(get.status, 'failed');
    assert.equal(get.error?.code, 'not_found');
    const abroad = { to: 'external:a2a:partner', text: 'what?' };
    const sent = await run.ask(2, 'message.send', abroad);
    assert.equal(sent.error?.code, 'unavailable');
    assert.equal(sent.error?.retry, false);
  });
});
