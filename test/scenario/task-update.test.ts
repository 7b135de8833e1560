// The tool task.update: an agent changes and ends what it delegated, and no other task.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, type ScriptedScene, says } from '../support/scripted-model.ts';
import {
  create,
  manifestOf,
  openWait,
  type ScriptedWorld,
  startScriptedWorld,
  taskNow,
} from '../support/scripted-world.ts';

const AGENTS = {
  planner: manifestOf('planner', '{ tools: { allow: [task.delegate] } }'),
  coder: manifestOf('coder', '{ replicas: 1 }'),
  tester: manifestOf('tester'),
  loner: manifestOf('loner'),
  boss: manifestOf('boss', '{ tools: { allow: [task.delegate] }, team: { delegateTo: [coder] } }'),
};

const idIn = (text: string | undefined): string => /task_[0-9a-z]{26}/.exec(text ?? '')?.[0] ?? '';
const idsOf = ({ results }: ScriptedScene): string[] => results.map(idIn);
const delegate = (agent: string, goal: string) =>
  says(call('task.delegate', { agent, goal, wait: false }));

describe('task.update', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({ agents: AGENTS });
  });
  after(() => world.stop());

  it('[K84] gives what it delegated to another colleague, and ends what is no longer needed', async () => {
    world.model.on('Take for ever', { hang: true });
    world.model.on('Be quick', ({ agent }) => finishes(`done by ${agent}`));
    world.model.on(
      'Manage it',
      delegate('coder', 'Take for ever'),
      delegate('coder', 'Be quick'),
      (scene) => says(call('task.update', { task_id: idsOf(scene)[1], agent: 'tester' })),
      (scene) =>
        says(
          call('task.update', {
            task_id: idsOf(scene)[0],
            status: 'completed',
            result: 'Enough of it.',
          }),
        ),
      says(call('timer.wait', { after_s: 5 })),
      ({ results, messages }) =>
        finishes([...results, ...messages.map(({ content }) => content)].join('\n')),
    );
    const root = await create(world, 'Manage it', { agent: 'planner' });
    const children = await eventually('both to have ended', async () => {
      const query = { parent_task_id: root.id };
      const { tasks } = await world.agentd.listTasks({ query });
      const ended = tasks.filter(({ ended_at }) => ended_at !== null);
      return ended.length === 2 ? ended.toReversed() : undefined;
    });
    assert.deepEqual(
      children.map(({ status, result, assigned_to }) => [status, assigned_to, result]),
      [
        ['completed', 'coder', 'Enough of it.'],
        ['completed', 'tester', 'done by tester'],
      ],
    );
    const { runs } = await world.agentd.listRuns({ query: { task_id: children[0]!.id } });
    assert.equal(runs[0]?.status, 'ended', 'its run was ended');
    await openWait(world, root.id, 'timer');
    world.clock.advance(6_000);
    const { result } = await taskEnded(world, root.id);
    assert.match(result ?? '', /"agent":"tester"/);
    assert.match(result ?? '', /from agent:tester.*:\ndone by tester/);
    const { events } = await world.audit.events({ query: { event: 'task.updated', limit: 10 } });
    assert.deepEqual(events.map(({ principal, data }) => [principal, data?.changed]).sort(), [
      ['agent:planner', 'agent'],
      ['agent:planner', 'result status'],
    ]);
  });

  it('nobody edits the task of another, and nothing above its own rights', async () => {
    world.model.on('Hold on', says(call('person.ask', { question: 'Still?' })), finishes('ok'));
    const foreign = await create(world, 'Hold on', { agent: 'tester' });
    let own = '';
    world.model.on('Wait for it', says(call('person.ask', { question: 'Now?' })), finishes('ok'));
    world.model.on('Reach too far', delegate('coder', 'Wait for it'), (scene) => {
      if (scene.step > 1) return finishes(scene.results.slice(1).join('\n'));
      const [child] = idsOf(scene);
      const update = (task_id: string | undefined, more: object) =>
        call('task.update', { task_id, ...more });
      return says(
        update(foreign.id, { priority: -5 }),
        update(foreign.id, { status: 'failed', result: 'sabotage' }),
        update(own, { status: 'completed', result: 'me' }),
        update(child, { priority: 50 }),
        update(child, { after: [foreign.id] }),
        update(child, { agent: 'tester' }),
        update(child, { priority: -7 }),
      );
    });
    const root = await create(world, 'Reach too far', { agent: 'boss' });
    own = root.id;
    const lines = ((await taskEnded(world, root.id)).result ?? '').split('\n');
    const text = lines.join('\n');
    assert.equal(text.split(`${foreign.id} is not a task that you delegated`).length, 4, text);
    assert.match(text, /is your own task.*task\.finish/);
    assert.match(text, /priority 50 is above that of your own task.*up to 0/);
    assert.match(text, /its manifest lets it delegate only to coder/);
    assert.match(text, /"priority":-7/, 'the control: its own subtask');
    const now = await taskNow(world, foreign.id);
    assert.deepEqual([now.status, now.priority], ['waiting', 0], 'unchanged');
    const params = { id: foreign.id };
    const { task } = await world.agentd.updateTask({ params, body: { priority: 9 } });
    assert.equal(task.priority, 9, 'a person may');
  });

  it('one that may not delegate has no such tool', async () => {
    world.model.on(
      'Change it',
      says(call('task.update', { task_id: `task_${'0'.repeat(26)}` })),
      ({ results }) => finishes(results.join()),
    );
    const task = await create(world, 'Change it', { agent: 'loner' });
    assert.match((await taskEnded(world, task.id)).result ?? '', /There is no tool task_update/);
  });
});
