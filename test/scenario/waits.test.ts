// Waits: for a subtask, a reply, a timer, a person. A parked run has no process and is woken with
// its full context when all its waits have ended.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  create,
  openWait,
  reaches,
  refusedWith,
  type ScriptedWorld,
  startScriptedWorld,
  taskNow,
} from '../support/scripted-world.ts';

describe('waits', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld();
  });
  after(() => world.stop());

  /** Asserts that nothing runs, in the record and in /proc. */
  const assertNoProcess = async () => {
    await eventually('no runner', async () =>
      readdirSync(join(world.stateDir, 'runners')).length === 0 ? true : undefined,
    );
    const { runs } = await world.agentd.status({});
    assert.equal(runs.live, 0);
    assert.ok(runs.parked > 0);
  };
  const waitNow = async (id: string) =>
    (await world.agentd.getWait({ params: { id: id as never } })).wait;

  it('[C143] for a subtask: the run is woken with its result or its failure', async () => {
    world.model.on(
      'Ask two',
      says(
        call('task.delegate', { agent: 'coder', goal: 'Well done' }),
        call('task.delegate', { agent: 'researcher', goal: 'Badly done' }),
      ),
      ({ results }) => finishes(results.join('\n')),
    );
    world.model.on('Well done', says(call('timer.wait', { after_s: 30 })), finishes('forty-two'));
    world.model.on('Badly done', finishes('the book is lost', { status: 'failed' }));
    const task = await create(world, 'Ask two', { agent: 'planner' });
    const slow = await eventually('the coder to be asked', async () => {
      const { tasks } = await world.agentd.listTasks({ query: { parent_task_id: task.id } });
      return tasks.find((child) => child.assigned_to === 'coder');
    });
    await openWait(world, slow.id, 'timer');
    const parked = await reaches(world, task.id, 'waiting');
    assert.equal(parked.reason, 'waiting for a subtask');
    await assertNoProcess();
    world.clock.advance(31_000);
    const ended = await taskEnded(world, task.id);
    assert.equal(ended.status, 'completed');
    assert.match(ended.result ?? '', /forty-two/);
    assert.match(ended.result ?? '', /the book is lost/);
    assert.equal(world.model.scenesFor('Ask two').length, 2, 'the first step was not repeated');
  });

  it('for a timer: the run is woken at its time and not before', async () => {
    world.model.on(
      'Sleep an hour',
      says(call('timer.wait', { after_s: 3_600 })),
      finishes('rested'),
    );
    const task = await create(world, 'Sleep an hour', { agent: 'coder' });
    const wait = await openWait(world, task.id, 'timer');
    await reaches(world, task.id, 'waiting');
    await assertNoProcess();
    await refusedWith(
      'conflict',
      world.agentd.answerWait({ params: { id: wait.id }, body: { answer: 'get up' } }),
    );
    world.clock.advance(3_599_000);
    assert.equal((await waitNow(wait.id)).status, 'open');
    world.clock.advance(1_000);
    assert.equal((await taskEnded(world, task.id)).result, 'rested');
  });

  it('for a person: only offered choices are accepted, the first answer counts, and its author is recorded', async () => {
    world.model.on(
      'Choose a colour',
      says(call('person.ask', { question: 'Which colour?', choices: ['red', 'blue'] })),
      ({ results }) => finishes(`answered: ${results.join()}`),
    );
    const task = await create(world, 'Choose a colour', { agent: 'coder' });
    const wait = await openWait(world, task.id, 'question');
    assert.equal(wait.question, 'Which colour?');
    await reaches(world, task.id, 'waiting');
    await assertNoProcess();
    const answer = (text: string) =>
      world.agentd.answerWait({ params: { id: wait.id }, body: { answer: text } });
    assert.match((await refusedWith('bad_request', answer('green'))).message, /red · blue/);
    await answer('blue');
    assert.match((await refusedWith('conflict', answer('red'))).hint, /agentctl questions/);
    assert.match((await taskEnded(world, task.id)).result ?? '', /"answer":"blue"/);
    assert.equal((await waitNow(wait.id)).answered_by, 'person:tester');
  });

  it('for a person who never answers: the question expires, and the agent is notified', async () => {
    world.model.on(
      'Ask the void',
      says(call('person.ask', { question: 'Anybody?', expires_in_s: 60 })),
      ({ results }) => finishes(results.join()),
    );
    const task = await create(world, 'Ask the void', { agent: 'coder' });
    const wait = await openWait(world, task.id, 'question');
    await reaches(world, task.id, 'waiting');
    world.clock.advance(61_000);
    assert.match((await taskEnded(world, task.id)).result ?? '', /not answered in time/);
    assert.equal((await waitNow(wait.id)).outcome, 'expired');
  });

  it('[R44] for a reply: a message from the addressee wakes the run', async () => {
    world.model.on(
      'Write and wait',
      says(call('message.send', { to: 'person:tester', text: 'May I?', wait_reply: true })),
      ({ results }) => finishes(results.join()),
    );
    const task = await create(world, 'Write and wait', { agent: 'coder' });
    const wait = await openWait(world, task.id, 'message');
    assert.equal(wait.from, 'person:tester');
    await reaches(world, task.id, 'waiting');
    await assertNoProcess();
    const { messages } = await world.agentd.listMessages({ query: { task_id: task.id } });
    await world.agentd.sendMessage({
      body: {
        type: 'TaskProgress',
        to: 'agent:coder',
        task_id: task.id,
        in_reply_to: messages[0]!.id,
        parts: [{ kind: 'text', text: 'You may.' }],
      },
    });
    assert.match((await taskEnded(world, task.id)).result ?? '', /You may\./);
  });

  it('for several at once: the run is woken when the last has ended', async () => {
    world.model.on(
      'Wait for all',
      says(
        call('timer.wait', { after_s: 10 }),
        call('person.ask', { question: 'Ready?' }),
        call('test.echo', { text: 'at once' }),
      ),
      ({ results }) => finishes(results.join('|')),
    );
    const task = await create(world, 'Wait for all', { agent: 'coder' });
    const question = await openWait(world, task.id, 'question');
    await reaches(world, task.id, 'waiting');
    world.clock.advance(11_000);
    await eventually(
      'the timer to end',
      async () =>
        (await world.agentd.listWaits({ query: { task_id: task.id, status: 'ended' } })).waits[0],
    );
    assert.equal((await taskNow(world, task.id)).status, 'waiting', 'the question is still open');
    await world.agentd.answerWait({ params: { id: question.id }, body: { answer: 'ready' } });
    const ended = await taskEnded(world, task.id);
    assert.match(ended.result ?? '', /ended_at.*\|.*ready.*\|.*at once/);
    const { runs } = await world.agentd.listRuns({ query: { task_id: task.id } });
    assert.equal(runs[0]?.activations, 2);
  });

  it('canceling a task ends its waits', async () => {
    world.model.on('Wait in vain', says(call('person.ask', { question: 'Still there?' })));
    const task = await create(world, 'Wait in vain', { agent: 'coder' });
    const wait = await openWait(world, task.id, 'question');
    await reaches(world, task.id, 'waiting');
    await world.agentd.cancelTask({ params: { id: task.id }, body: {} });
    assert.equal((await waitNow(wait.id)).outcome, 'canceled');
    await refusedWith(
      'conflict',
      world.agentd.answerWait({ params: { id: wait.id }, body: { answer: 'yes' } }),
    );
    assert.equal((await world.agentd.status({})).waits_open, 0);
  });
});
