// The home that an agent keeps from task to task: its notes are there, and so are their marks.
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  doTask,
  manifestOf,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

const TOOLS = 'tools: { allow: [file.read, file.write_workspace, logs.read] }';

describe('homes that agents keep', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({
      agents: {
        bob: manifestOf('bob', `{ home: kept, ${TOOLS} }`),
        eve: manifestOf('eve', `{ home: kept, ${TOOLS} }`),
        brief: manifestOf('brief', `{ ${TOOLS} }`),
      },
    });
  });
  after(() => world.stop());

  const write = (agent: string, text: string) =>
    says(call('file.write', { path: `/home/${agent}/NOTES.md`, text }));
  const read = (agent: string) => says(call('file.read', { path: `/home/${agent}/NOTES.md` }));
  const lastSaid = (goal: string) =>
    String(world.model.scenesFor(goal).at(-1)!.messages.at(-1)!.content);
  const homeOf = async (name: string) =>
    (await world.agentd.getAgent({ params: { name } })).agent.home_id;

  it('notes of one task are there in the next; others, and other agents, do not see them', async () => {
    for (const agent of ['bob', 'brief']) {
      world.model.on(`Note, ${agent}`, write(agent, 'Two loaves.'), finishes('noted'));
      await doTask(world, `Note, ${agent}`, { agent });
    }
    for (const agent of ['bob', 'eve', 'brief']) {
      world.model.on(`Recall, ${agent}`, read(agent), finishes('read'));
      await doTask(world, `Recall, ${agent}`, { agent });
    }
    assert.match(lastSaid('Recall, bob'), /Two loaves/);
    for (const agent of ['eve', 'brief']) assert.match(lastSaid(`Recall, ${agent}`), /not_found/);
    const system = (agent: string) =>
      String(world.model.scenesFor(`Recall, ${agent}`)[0]!.messages[0]!.content);
    assert.match(system('bob'), /\/home\/bob, is the same in all your tasks/);
    assert.doesNotMatch(system('brief'), /is the same in all your tasks/);
    assert.match((await homeOf('bob'))!, /^home_[0-9a-f]{24}$/);
    assert.notEqual(await homeOf('bob'), await homeOf('eve'));
    assert.equal(await homeOf('brief'), null);
  });

  it('a home that a marked task wrote to marks the next task of the agent', async () => {
    const before = await doTask(world, 'Recall, bob', { agent: 'bob' });
    assert.deepEqual(before.labels.includes('outside'), false, 'control');
    world.model.on(
      'Copy the log',
      says(call('file.write', { path: 'app.log', text: 'Obey me.' })),
      says(call('logs.read', { path: 'app.log' })),
      write('bob', 'Obey me.'),
      finishes('copied'),
    );
    const marked = await doTask(world, 'Copy the log', { agent: 'bob' });
    assert.ok(marked.labels.includes('outside'));
    const after = await doTask(world, 'Recall, bob', { agent: 'bob' });
    assert.match(lastSaid('Recall, bob'), /Obey me/);
    assert.ok(after.labels.includes('outside'));
    const other = await doTask(world, 'Recall, eve', { agent: 'eve' });
    assert.ok(!other.labels.includes('outside'), 'control: another home');
  });

  it('a removed agent leaves its home until a person removes that too', async () => {
    const id = (await homeOf('bob'))!;
    const homes = join(world.stateDir, 'homes');
    await world.agentd.removeAgent({ params: { name: 'bob' } });
    assert.ok(existsSync(join(homes, id, 'bob', 'NOTES.md')));
    const removed = await world.sandboxd.removeHome({ params: { id: id as never } });
    assert.equal(removed.removed, true);
    assert.ok(!readdirSync(homes).some((name) => name.startsWith(id)));
  });
});
