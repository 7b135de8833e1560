// A run may do what its manifest allows, minus what any delegation above it left out, for no longer
// than any of them allows; and work is delegated only as far, and to whom, the manifest permits.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Delegation } from '../../src/wire/agentd.ts';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, type ScriptedText, says } from '../support/scripted-model.ts';
import {
  create,
  doTask,
  manifestOf,
  openWait,
  refusedWith,
  type ScriptedWorld,
  startScriptedWorld,
  TEAM,
} from '../support/scripted-world.ts';

describe('grants', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({
      agentd: { delegation_depth_max: 3, children_max: 4 },
      agents: {
        ...TEAM,
        lead: manifestOf(
          'lead',
          '{ tools: { allow: [task.delegate] }, team: { delegateTo: [coder] } }',
        ),
        weak: manifestOf('weak', '{ replicas: 4, tools: { allow: [task.delegate] } }'),
      },
    });
  });
  after(() => world.stop());

  const echo = says(call('test.echo', { text: 'it works' }));
  const repeat = ({ results }: { results: string[] }): ScriptedText => finishes(results.join('\n'));
  const delegating = (agent: string, goal: string, delegation?: Delegation): ScriptedText =>
    says(
      call('task.delegate', { agent, goal, ...(delegation === undefined ? {} : { delegation }) }),
    );
  /** The tools offered to each run, by agent. */
  const offered = (goal: string) =>
    (world.model.scenesFor(goal)[0]!.body.tools as { function: { name: string } }[]).map(
      (tool) => tool.function.name,
    );

  it('[R32] [R416] [R269] [R405] an agent cannot delegate tools that it does not have', async () => {
    world.model.on(
      'Give too much',
      delegating('coder', 'Be mighty', { allow: ['test.tools'] }),
      repeat,
    );
    const task = await doTask(world, 'Give too much', { agent: 'weak' });
    assert.match(task.result ?? '', /test\.tools cannot be delegated: the delegator lacks it/);
    const { tree } = await world.agentd.getTree({ params: { id: task.id } });
    assert.deepEqual(tree.children, []);
  });

  it('[R92] [R269] [R315] an allow list leaves only the tools it names, and toold enforces it', async () => {
    world.model.on(
      'Give little',
      delegating('coder', 'Be modest', { allow: ['task.delegate'] }),
      repeat,
    );
    world.model.on('Be modest', echo, repeat);
    const task = await doTask(world, 'Give little', { agent: 'planner' });
    assert.ok(!offered('Be modest').includes('test_echo'));
    assert.ok(offered('Be modest').includes('task_delegate'));
    assert.match(task.result ?? '', /There is no tool test_echo/);
  });

  it('[R416] [R269] [R405] a deny list applies to subtasks of subtasks, which cannot undo it', async () => {
    world.model.on(
      'Forbid it below',
      delegating('coder', 'Pass the ban', { deny: ['test.echo'] }),
      repeat,
    );
    world.model.on(
      'Pass the ban',
      delegating('researcher', 'Feel the ban', { allow: ['test.tools'] }),
      delegating('researcher', 'Feel the ban'),
      repeat,
    );
    world.model.on('Feel the ban', echo, repeat);
    const task = await doTask(world, 'Forbid it below', { agent: 'planner' });
    assert.match(task.result ?? '', /test\.tools cannot be delegated: the delegator lacks it/);
    assert.match(task.result ?? '', /There is no tool test_echo/);
    assert.ok(!offered('Feel the ban').includes('test_echo'));
    assert.ok(offered('Feel the ban').includes('test_count_effect'), 'the rest is still offered');
  });

  it('[R269] [R405] an expired grant allows no tool, and the task can only be ended', async () => {
    const expires_at = new Date(world.clock.nowMs() + 60_000).toISOString();
    world.model.on('Lend for a minute', delegating('coder', 'Borrow', { expires_at }), repeat);
    world.model.on('Borrow', echo, says(call('timer.wait', { after_s: 90 })), echo, repeat);
    const task = await create(world, 'Lend for a minute', { agent: 'planner' });
    const child = (await openWait(world, task.id, 'child')).child_task_id!;
    await openWait(world, child, 'timer');
    await eventually('both to park', async () =>
      (await world.agentd.status({})).runs.parked === 2 ? true : undefined,
    );
    world.clock.advance(91_000);
    const ended = await taskEnded(world, child);
    assert.equal(ended.status, 'completed');
    assert.match(ended.result ?? '', /it works/);
    assert.match(ended.result ?? '', /has expired/);
    await taskEnded(world, task.id);
    const { calls } = await world.toold.listCalls({ query: { task_id: child } });
    assert.deepEqual(
      calls.toReversed().map(({ tool, status }) => `${tool} ${status}`),
      ['test.echo completed', 'timer.wait completed', 'test.echo denied', 'task.finish completed'],
    );
  });

  it('[R269] [R405] a subtask cannot extend its grant', async () => {
    const soon = new Date(world.clock.nowMs() + 60_000).toISOString();
    const late = new Date(world.clock.nowMs() + 3_600_000).toISOString();
    world.model.on('Lend shortly', delegating('coder', 'Lend on', { expires_at: soon }), repeat);
    world.model.on('Lend on', delegating('researcher', 'Keep it', { expires_at: late }), repeat);
    world.model.on('Keep it', says(call('timer.wait', { after_s: 90 })), echo, repeat);
    const task = await create(world, 'Lend shortly', { agent: 'planner' });
    await eventually('all to park', async () =>
      (await world.agentd.status({})).runs.parked === 3 ? true : undefined,
    );
    world.clock.advance(91_000);
    assert.match((await taskEnded(world, task.id)).result ?? '', /has expired/);
  });

  it('[R416] a subtask has no more tokens, money or time than its parent', async () => {
    const more = { max_tokens: 90_000, max_time_s: 9_000 };
    for (const [limits, given] of [
      [undefined, { max_tokens: 50_000, max_cost_microusd: 40_000, max_time_s: 600 }],
      [more, { max_tokens: 50_000, max_cost_microusd: 40_000, max_time_s: 600 }],
      [{ max_tokens: 7_000 }, { max_tokens: 7_000, max_cost_microusd: 40_000, max_time_s: 600 }],
    ] as const) {
      world.model.on(
        'Share the budget',
        says(
          call('task.delegate', {
            agent: 'researcher',
            goal: 'Spend it',
            ...(limits === undefined ? {} : { limits }),
          }),
        ),
        finishes('done'),
      );
      const deadline = new Date(world.clock.nowMs() + 3_600_000).toISOString();
      const task = await doTask(world, 'Share the budget', {
        agent: 'coder',
        deadline,
        limits: { max_tokens: 50_000, max_cost_microusd: 40_000, max_time_s: 600 },
      });
      const { tree } = await world.agentd.getTree({ params: { id: task.id } });
      const child = tree.children[0]?.task;
      assert.deepEqual(child?.limits, given, task.result ?? '');
      assert.equal(child?.deadline, deadline);
    }
  });

  it('[R10] the depth of delegation is limited', async () => {
    world.model.on('Go deeper', ({ agent, step, results }) =>
      step === 0
        ? delegating(agent === 'coder' ? 'researcher' : 'coder', 'Go deeper')
        : finishes(results.join()),
    );
    const task = await doTask(world, 'Go deeper', { agent: 'coder' });
    assert.match(task.result ?? '', /delegated up to 3 levels deep/);
    const { tasks } = await world.agentd.listTasks({ query: { root_task_id: task.id } });
    assert.equal(tasks.length, 4, 'itself and three levels below');
  });

  it('[R10] the number of subtasks is limited', async () => {
    world.model.on(
      'Ask everybody',
      says(
        ...[1, 2, 3, 4, 5, 6].map((n) =>
          call('task.delegate', { agent: 'coder', goal: `Part ${n}`, wait: false }),
        ),
      ),
      repeat,
    );
    const task = await doTask(world, 'Ask everybody', { agent: 'planner' });
    assert.match(task.result ?? '', /up to 4 subtasks/);
    const { tasks } = await world.agentd.listTasks({ query: { parent_task_id: task.id } });
    assert.equal(tasks.length, 4);
  });

  it('[R315] an agent can delegate only to agents its manifest names, and sees no others', async () => {
    world.model.on('Choose a helper', delegating('researcher', 'Help'), repeat);
    const task = await doTask(world, 'Choose a helper', { agent: 'lead' });
    assert.match(task.result ?? '', /its manifest lets it delegate only to coder/);
    const system = String(world.model.scenesFor('Choose a helper')[0]!.messages[0]!.content);
    assert.match(system, /- coder: /);
    assert.doesNotMatch(system, /- researcher: /);
  });

  it('[R269] a person may narrow a task too, with known tool names only', async () => {
    world.model.on('Work narrowly', echo, repeat);
    const delegation = { deny: ['test.tools'] };
    const task = await doTask(world, 'Work narrowly', { agent: 'coder', delegation });
    assert.match(task.result ?? '', /There is no tool test_echo/);
    const wrong = (delegation: Delegation) =>
      refusedWith('bad_request', create(world, 'Never begun', { agent: 'coder', delegation }));
    assert.match((await wrong({ allow: ['git.raed'] })).message, /git\.raed is not a known/);
    assert.match((await wrong({ deny: ['task.finish'] })).message, /cannot be denied/);
    assert.match(
      (await wrong({ expires_at: '2020-01-01T00:00:00Z' })).message,
      /2020-01-01T00:00:00Z is in the past/,
    );
  });
});
