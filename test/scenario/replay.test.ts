// Replay: also for tasks that failed or were canceled, from recorded responses. A replay has no
// effects, and a response that was deleted is reported as a difference.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { agentctl, documentOf } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  create,
  doTask,
  openWait,
  refusedWith,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

describe('replay', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld();
  });
  after(() => world.stop());

  /** Replays and asserts that it had no effect. */
  const replay = async (id: string) => {
    const logged = async () => (await world.audit.events({ query: { limit: 1_000 } })).events;
    const count = async () => ({
      asked: world.model.scenes.length,
      calls: (await world.toold.listCalls({ query: { limit: 1_000 } })).calls.length,
      events: (await logged()).length,
    });
    await eventually('every model call and box to end, and the log to become idle', async () => {
      const events = await logged();
      const known = new Set(events.map(({ id }) => id));
      const ends = events.flatMap(({ id, event }) =>
        event === 'model.call.attempted' || event === 'sandbox.opened'
          ? [id.replace(/\.(attempted|opened)\b/, '.ended')]
          : [],
      );
      if (!ends.every((id) => known.has(id))) return undefined;
      await new Promise((resolve) => setTimeout(resolve, 200));
      return (await logged()).length === events.length ? true : undefined;
    });
    const before = await count();
    const { replay: found } = await world.agentd.replayTask({ params: { id: id as never } });
    assert.deepEqual(await count(), before, 'a replay does nothing and records nothing');
    return found;
  };

  it('[R34] a failed task: the same calls, the same failure', async () => {
    world.model.on(
      'Fail in three',
      says(call('test.echo', { text: 'one' })),
      says(call('artifact.put', { name: 'two', text: 'two' })),
      finishes('it cannot be done', { status: 'failed', error_code: 'impossible' }),
    );
    const task = await doTask(world, 'Fail in three', { agent: 'coder' });
    assert.equal(task.error?.code, 'impossible');
    const found = await replay(task.id);
    assert.deepEqual(found.differences, []);
    assert.equal(found.same, true);
    assert.equal(found.calls, 6, 'three model calls and three tool calls');
  });

  it('[R34] immediately after the end, while the run’s process is still exiting', async () => {
    world.model.on('Be quick', says(call('test.echo', { text: 'x' })), finishes('quick'));
    for (let n = 0; n < 5; n++) {
      const task = await doTask(world, 'Be quick', { agent: 'coder' });
      const { replay: found } = await world.agentd.replayTask({ params: { id: task.id } });
      assert.deepEqual(found.differences, []);
      assert.equal(found.same, true);
    }
  });

  it('[R34] a task that a limit ended, and one that the breaker ended', async () => {
    world.model.on('Go on and on', ({ step }) => says(call('test.echo', { text: `${step}` })));
    const limited = await doTask(world, 'Go on and on', {
      agent: 'coder',
      limits: { max_steps: 3 },
    });
    assert.equal((await replay(limited.id)).same, true);
    world.model.on('Round and round', says(call('test.echo', { text: 'same' })));
    const broken = await doTask(world, 'Round and round', { agent: 'coder' });
    assert.equal(broken.error?.code, 'breaker');
    assert.deepEqual((await replay(broken.id)).differences, []);
  });

  it('[R34] a task that was canceled while it waited, and one in the middle of a model call', async () => {
    world.model.on('Wait to be canceled', says(call('person.ask', { question: 'Well?' })));
    const waiting = await create(world, 'Wait to be canceled', { agent: 'coder' });
    await openWait(world, waiting.id, 'question');
    await eventually('it to park', async () =>
      (await world.agentd.status({})).runs.parked === 1 ? true : undefined,
    );
    await refusedWith('conflict', world.agentd.replayTask({ params: { id: waiting.id } }));
    await world.agentd.cancelTask({ params: { id: waiting.id }, body: {} });
    assert.deepEqual((await replay(waiting.id)).differences, []);
    world.model.on('Think to be canceled', says(call('test.echo', { text: 'hm' })), { hang: true });
    const thinking = await create(world, 'Think to be canceled', { agent: 'coder' });
    await eventually('the second step', async () =>
      world.model.scenesFor('Think to be canceled').length === 2 ? true : undefined,
    );
    await world.agentd.cancelTask({ params: { id: thinking.id }, body: {} });
    const found = await replay(thinking.id);
    assert.deepEqual(found.differences, [], 'the record ends where the run ended');
    assert.equal(found.same, true);
    assert.equal(found.calls, 3, 'two model calls, one tool call');
  });

  it('[R34] a task that was canceled while its provider was down', async () => {
    world.model.on('Wait for the provider', { status: 503 });
    const task = await create(world, 'Wait for the provider', { agent: 'coder' });
    await eventually('a failed attempt', async () => {
      world.clock.advance(1_000);
      const { calls } = await world.modeld.listCalls({ query: { task_id: task.id } });
      return calls.find(({ status }) => status === 'failed');
    });
    await world.agentd.cancelTask({ params: { id: task.id }, body: {} });
    assert.deepEqual((await replay(task.id)).differences, []);
    // If the provider's circuit was open, it is closed by now.
    world.clock.advance(10 * 60_000);
  });

  it('[R34] a deleted response is reported as a difference, with its position', async () => {
    world.model.on(
      'Say something personal',
      says(call('test.echo', { text: 'x' })),
      finishes('a name'),
    );
    const task = await doTask(world, 'Say something personal', { agent: 'coder' });
    const { calls } = await world.modeld.listCalls({ query: { task_id: task.id } });
    const first = calls.at(-1)!;
    const { response } = await world.modeld.getCall({ params: { id: first.call_id } });
    assert.ok(response !== null);
    const second = await world.modeld.getCall({ params: { id: calls[0]!.call_id } });
    // The first response is also part of the second call's context.
    const at = second.call.context.length - 2;
    const hash = second.call.context[at]!;
    assert.equal((await world.modeld.forgetPart({ params: { hash } })).forgotten, true);
    const again = await world.modeld.getCall({ params: { id: calls[0]!.call_id } });
    assert.equal(again.messages[at], '[forgotten]');
    const found = await replay(task.id);
    assert.equal(found.same, false);
    assert.match(JSON.stringify(found.differences), /forgotten/);
  });

  it('[R9] [R34] [R373] task explain lists every call of the tree in order', async () => {
    world.model.on(
      'Tell me all',
      says(
        call('task.delegate', { agent: 'coder', goal: 'One half' }),
        call('task.delegate', { agent: 'researcher', goal: 'Other half' }),
      ),
      finishes('whole'),
    );
    for (const goal of ['One half', 'Other half'])
      world.model.on(goal, says(call('test.echo', { text: goal })), finishes(goal));
    const task = await doTask(world, 'Tell me all', { agent: 'planner' });
    await taskEnded(world, task.id);
    const info = { pid: process.pid, mode: 'embedded', runtime_dir: world.runtimeDir, port: null };
    const more = { started_at: task.created_at, rehearsal: false, version: 'test' };
    writeFileSync(join(world.stateDir, 'runtime.json'), JSON.stringify({ ...info, ...more }));
    const ran = await agentctl(['task', 'explain', task.id, '--json'], { state: world.stateDir });
    assert.equal(ran.code, 0, ran.stderr);
    const explained = JSON.stringify(documentOf(ran));
    const { tasks } = await world.agentd.listTasks({ query: { root_task_id: task.id } });
    assert.equal(tasks.length, 3);
    let calls = 0;
    for (const { id } of tasks) {
      assert.ok(explained.includes(id), id);
      const query = { task_id: id };
      for (const { call_id } of [
        ...(await world.toold.listCalls({ query })).calls,
        ...(await world.modeld.listCalls({ query })).calls,
      ]) {
        assert.ok(explained.includes(call_id), `${call_id} is listed`);
        calls++;
      }
    }
    assert.equal(calls, 6 + 7, 'six model calls, seven tool calls');
  });
});
