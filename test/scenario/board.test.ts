// The board: tasks with needs, dependencies and failure policies; who may change them; and why an
// agent got one.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { agentdRoutes } from '../../src/wire/agentd.ts';
import { callSocket, type IdleWorld, runSocketOf, startIdleWorld } from '../support/callers.ts';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  create,
  manifestOf,
  reaches,
  refusedWith,
  type ScriptedWorld,
  startScriptedWorld,
  taskNow,
} from '../support/scripted-world.ts';

const fails = says(call('task.finish', { result: 'It does not work.', status: 'failed' }));
const agentOf = (name: string, description: string, allow: string, more = '') =>
  manifestOf(name, `{ replicas: 4, tools: { allow: [${allow}] }${more} }`, `'${description}'`);
const TEAM = {
  planner: agentOf('planner', 'Splits goals into parts and delegates them.', 'task.delegate'),
  coder: agentOf('coder', 'Writes code and fixes bugs in it.', 'file.write_workspace, git.read'),
  tester: agentOf('tester', 'Writes and runs tests, reproduces bugs.', 'tests.run, git.read'),
  writer: agentOf('writer', 'Writes documentation, guides and release notes.', 'file.read'),
};

describe('the board', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({ agents: TEAM });
  });
  after(() => world.stop());
  const why = async (id: string) =>
    (await world.agentd.getTaskMatch({ params: { id: id as never } })).match;
  const retryOf = (id: string) =>
    eventually(`${id} to be tried again`, async () =>
      (await world.agentd.listTasks({ query: { limit: 200 } })).tasks.find(
        ({ retry_of }) => retry_of === id,
      ),
    );

  it('[K32] gives a task to the one agent that may, and says why', async () => {
    const task = await create(world, 'Anything at all', { needs: ['tests.run'] });
    assert.equal(task.assigned_to, 'tester');
    const match = await why(task.id);
    assert.equal(match?.reason, 'only');
    assert.deepEqual(
      match?.excluded.map(({ agent, lacks }) => [agent, ...lacks]),
      [
        ['coder', 'tests.run'],
        ['planner', 'tests.run'],
        ['writer', 'tests.run'],
      ],
    );
    await taskEnded(world, task.id);
  });

  it('[K32] gives a task to the agent whose words fit, without asking a model', async () => {
    const asked = world.model.scenes.length;
    const task = await create(world, 'Write the release notes and a guide', { needs: [] });
    assert.equal(task.assigned_to, 'writer');
    const match = await why(task.id);
    assert.equal(match?.reason, 'score');
    assert.ok(match!.candidates[0]!.words.some(({ word }) => word === 'guide'));
    await taskEnded(world, task.id);
    const calls = world.model.scenes.slice(asked);
    assert.ok(
      calls.every(({ agent }) => agent === 'writer'),
      'only the task itself called a model',
    );
  });

  it('asks a person when no agent matches clearly, and starts with the answer', async () => {
    const before = await create(world, 'Come first', { agent: 'planner' });
    await taskEnded(world, before.id);
    const task = await create(world, 'Xyzzy', { needs: ['git.read'], after: [before.id] });
    assert.equal(task.status, 'submitted');
    assert.equal(task.assigned_to, null);
    const { waits } = await world.agentd.listWaits({
      query: { status: 'open', kind: 'question', task_id: task.id },
    });
    assert.deepEqual(waits[0]?.choices.toSorted(), ['coder', 'tester']);
    assert.match(waits[0]!.question!, /Which agent gets this task\? Xyzzy/);
    const params = { id: waits[0]!.id };
    await refusedWith('bad_request', world.agentd.answerWait({ params, body: { answer: 'eve' } }));
    await world.agentd.answerWait({ params, body: { answer: 'coder' } });
    const ended = await taskEnded(world, task.id);
    assert.deepEqual([ended.assigned_to, ended.status], ['coder', 'completed']);
    assert.equal((await why(task.id))?.reason, 'person');
    // The goal of an accepted task tells whose such goals are.
    const again = await create(world, 'Xyzzy', { needs: ['git.read'] });
    assert.equal((await taskEnded(world, again.id)).assigned_to, 'coder');
  });

  it('[C153] a vague goal is a question to a person, and no agent starts with a guess', async () => {
    const asked = world.model.scenes.length;
    for (const goal of [
      'Can you help me with something?',
      'I need to set up monitoring for something important',
    ]) {
      const task = await create(world, goal, { needs: [] });
      assert.deepEqual([task.status, task.assigned_to], ['submitted', null], goal);
      const { waits } = await world.agentd.listWaits({
        query: { status: 'open', kind: 'question', task_id: task.id },
      });
      assert.deepEqual(waits[0]?.choices.toSorted(), ['coder', 'planner', 'tester', 'writer']);
      assert.ok(waits[0]!.question!.includes(goal));
      await world.agentd.cancelTask({ params: { id: task.id }, body: {} });
    }
    assert.equal(world.model.scenes.length, asked, 'no model was asked');
    const clear = await create(world, 'Write documentation of it', { needs: [] });
    assert.equal(clear.assigned_to, 'writer', 'control');
    await taskEnded(world, clear.id);
  });

  it('canceling a task ends the question about it; an owner by hand does too', async () => {
    const canceled = await create(world, 'Plugh', { needs: ['git.read'] });
    await world.agentd.cancelTask({ params: { id: canceled.id }, body: {} });
    const owned = await create(world, 'Plugh', { needs: ['git.read'] });
    await world.agentd.updateTask({ params: { id: owned.id }, body: { agent: 'tester' } });
    assert.equal((await taskEnded(world, owned.id)).assigned_to, 'tester');
    const { events } = await world.audit.task({ params: { task_id: owned.id }, query: {} });
    const updated = events.find(({ event }) => event === 'task.updated');
    assert.deepEqual([updated?.principal, updated?.data?.changed], ['person:tester', 'agent']);
    for (const { id } of [canceled, owned]) {
      const { waits } = await world.agentd.listWaits({ query: { task_id: id } });
      assert.deepEqual(
        waits.map(({ outcome }) => outcome),
        ['canceled'],
      );
    }
  });

  it('refuses needs that no agent has, or that are no capability', async () => {
    const make = (more: object) => create(world, 'Deploy it', more);
    const none = await refusedWith('conflict', make({ needs: ['prod.deploy'] }));
    assert.match(none.message, /no agent may do it: coder lacks prod\.deploy/);
    const typo = await refusedWith('bad_request', make({ needs: ['test.run'] }));
    assert.match(
      `${typo.message} ${typo.hint}`,
      /test\.run is not a known .* Did you mean tests\.run/,
    );
    const other = await refusedWith('conflict', make({ needs: ['tests.run'], agent: 'writer' }));
    assert.match(other.message, /agent writer lacks tests\.run/);
  });

  it('[K33] [K82] lists tasks by column, the next to start first', async () => {
    world.model.on('Hold on', { hang: true });
    const hold = await create(world, 'Hold on', { agent: 'planner' });
    await reaches(world, hold.id, 'working');
    const low = await create(world, 'Later', { agent: 'coder', after: [hold.id] });
    const high = await create(world, 'Sooner', { agent: 'coder', after: [hold.id], priority: 9 });
    const { board } = await world.agentd.getBoard({ query: {} as never });
    const column = (name: string) => board.columns.find((one) => one.name === name)!;
    assert.deepEqual(
      column('blocked').tasks.map(({ id }) => id),
      [high.id, low.id],
    );
    assert.deepEqual(
      column('working').tasks.map(({ id }) => id),
      [hold.id],
    );
    assert.ok(column('ended').tasks.length > 0);
    await world.agentd.cancelTask({ params: { id: hold.id }, body: {} });
    assert.equal((await taskNow(world, low.id)).status, 'rejected');
  });

  it('[K32] [K83] a failed task stops only its dependents', async () => {
    world.model.on('Break', fails);
    world.model.on('Succeed', finishes('Fine.'));
    const broken = await create(world, 'Break', { agent: 'coder' });
    const fine = await create(world, 'Succeed', { agent: 'coder' });
    const afterBroken = await create(world, 'After it', { agent: 'coder', after: [broken.id] });
    const afterThat = await create(world, 'After that', {
      agent: 'coder',
      after: [afterBroken.id],
    });
    const afterFine = await create(world, 'After fine', { agent: 'coder', after: [fine.id] });
    assert.equal((await taskEnded(world, afterFine.id)).status, 'completed');
    assert.equal((await taskEnded(world, afterThat.id)).status, 'rejected');
    assert.equal((await taskNow(world, afterBroken.id)).status, 'rejected');
  });

  it('retries a failed task up to its tries, and its dependents wait for the last one', async () => {
    world.model.on('Try me', fails);
    const first = await create(world, 'Try me', {
      agent: 'coder',
      on_failure: 'retry',
      attempts_max: 3,
    });
    const next = await create(world, 'When it worked', { agent: 'coder', after: [first.id] });
    assert.equal((await taskEnded(world, first.id)).status, 'failed');
    const second = await retryOf(first.id);
    world.model.on('Try me', finishes('Now it does.'));
    const third = await retryOf(second.id).catch(() => undefined);
    const last = third ?? second;
    assert.equal((await taskEnded(world, last.id)).attempt, third === undefined ? 2 : 3);
    const ended = await taskEnded(world, next.id);
    assert.equal(ended.status, 'completed');
    assert.deepEqual(ended.after, [last.id]);
  });

  it('after the last try the dependents are rejected', async () => {
    world.model.on('Never works', fails);
    const policy = { on_failure: 'retry', attempts_max: 2 } as const;
    const first = await create(world, 'Never works', { agent: 'coder', ...policy });
    const next = await create(world, 'Waits for it', { agent: 'coder', after: [first.id] });
    assert.equal((await taskEnded(world, next.id)).status, 'rejected');
    const second = await retryOf(first.id);
    assert.deepEqual([second.status, second.attempt], ['failed', 2]);
  });

  it('reassigns a failed task to the next best agent that may do it', async () => {
    world.model.on('Fix bugs in code', (scene) =>
      scene.agent === 'coder' ? fails : finishes('Reproduced and fixed.'),
    );
    const first = await create(world, 'Fix bugs in code', {
      needs: ['git.read'],
      agent: 'coder',
      on_failure: 'reassign',
    });
    assert.equal(first.assigned_to, 'coder');
    await taskEnded(world, first.id);
    const second = await retryOf(first.id);
    assert.equal((await taskEnded(world, second.id)).status, 'completed');
    assert.equal(second.assigned_to, 'tester', 'the only other one with git.read');
    const match = await why(second.id);
    assert.deepEqual([match?.reason, match?.tried], ['next', ['coder']]);
  });

  it('halts the runtime when the policy says so, and starts nothing until it is lifted', async () => {
    world.model.on('Must not fail', fails);
    world.model.on('Innocent', finishes('Done.'));
    const task = await create(world, 'Must not fail', { agent: 'coder', on_failure: 'halt' });
    const later = await create(world, 'Innocent', { agent: 'writer', after: [task.id] });
    await taskEnded(world, task.id);
    const status = await eventually('the halt', async () => {
      const now = await world.agentd.status({});
      return now.halted ? now : undefined;
    });
    assert.match(status.halt_reason!, /its failure policy is halt/);
    await refusedWith('halted', create(world, 'Innocent', { agent: 'writer' }));
    assert.equal((await taskNow(world, later.id)).status, 'rejected');
    await world.agentd.unhalt({});
    assert.equal(
      (await taskEnded(world, (await create(world, 'Innocent', {})).id)).status,
      'completed',
    );
  });

  it('[K33] [K84] a person changes priority, dependencies and policy, and ends a task by hand', async () => {
    world.model.on('Hold the door', { hang: true });
    const hold = await create(world, 'Hold the door', { agent: 'planner' });
    const one = await create(world, 'One', { agent: 'coder', after: [hold.id] });
    const two = await create(world, 'Two', { agent: 'coder', after: [one.id] });
    const update = (id: string, body: object) =>
      world.agentd.updateTask({ params: { id: id as never }, body });
    const changed = (await update(one.id, { priority: 5, on_failure: 'retry' })).task;
    assert.deepEqual([changed.priority, changed.on_failure], [5, 'retry']);
    const loop = await refusedWith('cycle', update(one.id, { after: [two.id] }));
    assert.match(loop.message, /dependency cycle/);
    assert.deepEqual((await taskNow(world, one.id)).after, [hold.id], 'refused as a whole');
    await refusedWith('conflict', update(hold.id, { after: [one.id] }));
    await update(one.id, { status: 'completed', result: 'Done by hand.' });
    const ended = await taskNow(world, one.id);
    assert.deepEqual([ended.status, ended.result], ['completed', 'Done by hand.']);
    assert.equal((await taskEnded(world, two.id)).status, 'completed');
    await refusedWith('ended', update(one.id, { priority: 1 }));
    await update(hold.id, { status: 'failed', result: 'Nobody needs it.' });
    assert.equal((await taskNow(world, hold.id)).status, 'failed');
  });
});

describe('the board and who may change it', () => {
  let world: IdleWorld;
  before(async () => {
    world = await startIdleWorld();
  });
  after(() => world.stop());

  it('[K78] refuses an entry that a run forges, and a change of another task; a person may', async () => {
    const run = await world.startRun();
    const other = await world.startRun();
    const path = runSocketOf(world, 'agentd', run);
    const forged = { body: { goal: 'Forged', agent: 'worker' } };
    const change = { params: { id: other.taskId }, body: { priority: 99 } };
    for (const [route, input] of [
      [agentdRoutes.createTask, forged],
      [agentdRoutes.updateTask, change],
      [agentdRoutes.updateTask, { ...change, params: { id: run.taskId } }],
    ] as const) {
      const outcome = await callSocket(path, route, input as never);
      assert.ok(!outcome.ok && outcome.code === 'forbidden_caller', JSON.stringify(outcome));
    }
    const { tasks } = await world.agentd.listTasks({ query: { limit: 200 } });
    assert.ok(!tasks.some(({ goal }) => goal === 'Forged'));
    // The control: the same requests, by a person.
    assert.equal((await world.agentd.createTask(forged)).task.goal, 'Forged');
    assert.equal((await world.agentd.updateTask(change)).task.priority, 99);
  });
});
