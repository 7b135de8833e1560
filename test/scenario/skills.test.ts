// Skills and colleagues as agents find them: a task is told about the skills that fit its goal, and
// the agent reads them; it lists its team.
import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  doTask,
  manifestOf,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

const GOAL = 'The login test fails. Find the cause of this bug.';

describe('skills and colleagues', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({
      agents: {
        bob: manifestOf('bob', '{ personas: [tester], replicas: 2 }'),
        ada: manifestOf('ada', '{ personas: [coder], tools: { deny: [skill.read] } }', 'Codes.'),
        few: manifestOf('few', '{ skills: [map-a-codebase] }'),
      },
    });
    const dir = join(world.stateDir, 'skills', 'our-way');
    mkdirSync(dir, { recursive: true });
    writeFileSync(
      join(dir, 'SKILL.md'),
      '---\nname: our-way\ndescription: Bread, as we bake it\n---\nKnead.',
    );
    writeFileSync(join(dir, 'oven.md'), 'Hot.');
    symlinkSync(join(world.stateDir, 'operator.key'), join(dir, 'key'));
    world.clock.advance(6_000);
  });
  after(() => world.stop());

  const systemOf = (goal: string) => String(world.model.scenesFor(goal)[0]?.messages[0]?.content);
  const outcomesOf = async (task_id: string) =>
    (await world.toold.listCalls({ query: { task_id: task_id as never } })).calls
      .filter(({ tool }) => tool !== 'task.finish')
      .sort((a, b) => (a.call_id < b.call_id ? -1 : 1));

  it('[C31] [C151] a task is told about the skills that fit its goal, and no others', async () => {
    world.model.on(GOAL, finishes('done'));
    await doTask(world, GOAL, { agent: 'bob' });
    assert.match(
      systemOf(GOAL),
      /read one with skill_read before you begin:\n- debug-a-failure: Find the root cause/,
    );
    assert.doesNotMatch(systemOf(GOAL), /write-release-notes/);
    await doTask(world, 'Hum a song', { agent: 'bob' });
    assert.doesNotMatch(systemOf('Hum a song'), /Skills that may fit/);
    const goal = `${GOAL} Alone.`;
    await doTask(world, goal, { agent: 'few' });
    assert.doesNotMatch(systemOf(goal), /Skills that may fit/, 'its manifest names another');
  });

  it('[C31] [C151] an agent reads a skill and its files, and nothing else through it', async () => {
    const goal = 'Bake';
    world.model.on(
      goal,
      says(call('skill.read', { name: 'our-way' })),
      says(call('skill.read', { name: 'our-way', path: 'oven.md' })),
      says(call('skill.read', { name: 'our-way', path: 'key' })),
      says(call('skill.read', { name: 'our-way', path: '../../operator.key' })),
      says(call('skill.read', { name: 'our-wey' })),
      finishes('baked'),
    );
    const task = await doTask(world, goal, { agent: 'bob' });
    const calls = await outcomesOf(task.id);
    assert.deepEqual(
      calls.map(({ status }) => status),
      ['completed', 'completed', 'failed', 'failed', 'failed'],
    );
    const texts = world.model
      .scenesFor(goal)
      .at(-1)!
      .messages.map(({ content }) => String(content));
    const said = texts.join('\n');
    assert.match(said, /Knead\./);
    assert.match(said, /Hot\./);
    assert.match(said, /has no file key/);
    assert.match(said, /did you mean our-way\?/);
    assert.equal(task.status, 'completed');
  });

  it('[C31] a manifest that lists skills closes the others', async () => {
    world.model.on(
      'Read on',
      says(call('skill.read', { name: 'map-a-codebase' })),
      says(call('skill.read', { name: 'our-way' })),
      finishes('read'),
    );
    const task = await doTask(world, 'Read on', { agent: 'few' });
    const calls = await outcomesOf(task.id);
    assert.deepEqual(
      calls.map(({ status }) => status),
      ['completed', 'failed'],
    );
  });

  it('team.list names colleagues with role, purpose and load', async () => {
    world.model.on('Who is there?', says(call('team.list')), finishes('all'));
    await doTask(world, 'Who is there?', { agent: 'bob' });
    const said = String(world.model.scenesFor('Who is there?').at(-1)!.messages.at(-1)!.content);
    assert.match(said, /"name":\s*"ada"/);
    assert.match(said, /"role":\s*"Coder"/);
    assert.match(said, /"purpose":\s*"Codes\."/);
    assert.match(said, /"working":\s*1/);
  });
});
