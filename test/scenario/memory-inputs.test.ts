// Memories as inputs of tasks: who gives one and the agent that gets it must both be allowed to
// read it; its marks are those of the task, and the log says which run got it.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { writePersonKey } from '../../src/daemons/approvald/testing/person-key.ts';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { makeClient, socketLink } from '../../src/platform/link.ts';
import { agentdRoutes } from '../../src/wire/agentd.ts';
import type { Fault } from '../../src/wire/errors.ts';
import type { MemoryView, NewMemory } from '../../src/wire/memoryd/records.ts';
import { memorydRoutes } from '../../src/wire/memoryd.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  create,
  doTask,
  manifestOf,
  openWait,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

const agents = {
  planner: manifestOf(
    'planner',
    '{ replicas: 4, tools: { allow: [task.delegate] }, memory: { read: [team, "project:app"] } }',
  ),
  coder: manifestOf('coder', '{ replicas: 4, memory: { read: ["project:app", person] } }'),
};

describe('memories as inputs', { timeout: 120_000 }, () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({ agents });
    for (const name of ['alice', 'bob']) writePersonKey(world.stateDir, name);
  });
  after(() => world.stop());

  const as = (name: string) => {
    const headers = { authorization: `Bearer ${name.repeat(32)}` };
    const link = (daemon: 'agentd' | 'memoryd') =>
      socketLink({ socketPath: socketPathFor(world.runtimeDir, daemon, 'operator'), headers });
    return {
      agentd: makeClient(agentdRoutes, link('agentd')),
      memoryd: makeClient(memorydRoutes, link('memoryd')),
    };
  };
  const remember = async (text: string, more: Partial<NewMemory> = {}): Promise<MemoryView> => {
    const body: NewMemory = { class: 'semantic', scope: 'project:app', text, ...more };
    return (await as('alice').memoryd.remember({ body })).memory;
  };
  /** Resolves to the task, and to everything that its model read. */
  const give = async (memory: { id: string }, person = 'alice', agent = 'coder') => {
    const goal = `Use what you are given ${Math.random()}`;
    world.model.on(goal, finishes('done'));
    const inputs = [{ kind: 'memory_ref' as const, id: memory.id }];
    const task = await doTask({ ...world, ...as(person) }, goal, { agent, inputs });
    return { task, read: JSON.stringify(world.model.scenesFor(goal)) };
  };
  const refusal = (work: Promise<unknown>, id: string) =>
    work.then(
      () => 'done',
      (error: Fault) => `${error.code} ${error.message}`.replaceAll(id, 'X'),
    );

  it('[R268] the agent gets its text, its marks are those of the task, and the log has it', async () => {
    const memory = await remember('The plover page says blue.', { labels: ['outside'] });
    const { task, read } = await give(memory);
    assert.match(read, /The plover page says blue/);
    assert.ok(task.labels.includes('outside'));
    const event = await eventually('the event', async () =>
      (await allEvents(world)).find(
        ({ event, task_id, data }) =>
          event === 'memory.recalled' && task_id === task.id && data?.memories === memory.id,
      ),
    );
    assert.equal(event.agent, 'coder');
    const { task: unmarked } = await give(await remember('The plover is grey.'));
    assert.ok(!unmarked.labels.includes('outside'), 'control');
  });

  it('what the giver may not read is reported like what does not exist', async () => {
    const memory = await remember('Alice keeps the ruff.', { scope: 'person:alice' });
    const unknown = `memory_${'0'.repeat(26)}`;
    const refused = await refusal(give(memory, 'bob'), memory.id);
    assert.equal(refused, await refusal(give({ id: unknown }, 'bob'), unknown));
    assert.match(refused, /^not_found/);
    const { read } = await give(memory);
    assert.match(read, /Alice keeps the ruff/, 'control');
  });

  it('nor does an agent get what it may not read, from a person or a colleague', async () => {
    const team = await remember('The team likes the snipe.', { scope: 'team' });
    assert.match(await refusal(give(team), team.id), /^denied/);
    const open = await remember('The project likes the snipe.');
    const goal = 'Hand both on';
    const toCoder = (id: string) => {
      const inputs = [{ kind: 'memory_ref', id }];
      return call('task.delegate', { agent: 'coder', goal: `Look at ${id}`, inputs });
    };
    world.model.on(`Look at ${open.id}`, finishes('seen'));
    world.model.on(goal, says(toCoder(team.id), toCoder(open.id)), ({ results }) =>
      finishes(results.join()),
    );
    const task = await doTask(world, goal, { agent: 'planner' });
    const { children } = (await world.agentd.getTree({ params: { id: task.id } })).tree;
    assert.equal(children.length, 1, task.result ?? '');
    assert.match(JSON.stringify(world.model.scenesFor(`Look at ${open.id}`)), /project likes/);
  });

  it('one that is forgotten before the run starts is only named', async () => {
    const memory = await remember('The dodo lives.');
    world.model.on('Ask first', says(call('person.ask', { question: 'Go on?' })), finishes('yes'));
    const first = await create(world, 'Ask first', { agent: 'coder' });
    const wait = await openWait(world, first.id, 'question');
    const goal = 'Read about the dodo';
    world.model.on(goal, finishes('done'));
    const inputs = [{ kind: 'memory_ref' as const, id: memory.id }];
    const after = [first.id];
    const task = await create({ ...world, ...as('alice') }, goal, {
      agent: 'coder',
      inputs,
      after,
    });
    await as('alice').memoryd.forget({ body: { ids: [memory.id] } });
    await world.agentd.answerWait({ params: { id: wait.id }, body: { answer: 'yes' } });
    await taskEnded(world, task.id);
    const read = JSON.stringify(world.model.scenesFor(goal));
    assert.match(read, /can no longer be given/);
    assert.doesNotMatch(read, /dodo lives/);
    assert.match(await refusal(give(memory), memory.id), /^conflict X is forgotten/);
  });
});
