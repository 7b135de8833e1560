// Artifacts that their authors have shared are found and read in other threads, with their labels,
// by agents that may.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  doTask,
  manifestOf,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

describe('shared artifacts', () => {
  let world: ScriptedWorld;
  before(async () => {
    const may =
      '{ tools: { allow: [team.artifacts, file.read, file.write_workspace, logs.read] } }';
    world = await startScriptedWorld({
      agents: {
        ada: manifestOf('ada', may),
        bob: manifestOf('bob', may),
        eve: manifestOf('eve'),
      },
    });
  });
  after(() => world.stop());

  const lastSaid = (goal: string) =>
    String(world.model.scenesFor(goal).at(-1)!.messages.at(-1)!.content);
  const put = async (goal: string, name: string, ...before: ReturnType<typeof call>[]) => {
    world.model.on(
      goal,
      ...before.map((each) => says(each)),
      says(call('artifact.put', { name, text: `this is ${name}` })),
      finishes('put'),
    );
    const task = await doTask(world, goal, { agent: 'ada' });
    const { artifacts } = await world.agentd.listArtifacts({ query: { task_id: task.id } });
    return artifacts[0]!.id;
  };
  const ask = async (agent: string, goal: string, tool: string, args: Record<string, unknown>) => {
    world.model.on(goal, says(call(tool, args)), finishes('asked'));
    const task = await doTask(world, goal, { agent });
    return { task, said: lastSaid(goal) };
  };

  it('a shared artifact is listed and read in another thread; others are not', async () => {
    const [plan, draft] = [await put('Plan', 'plan.md'), await put('Draft', 'draft.md')];
    const early = await ask('bob', 'Read the plan early', 'artifact.get', { id: plan });
    assert.match(early.said, /belongs to another thread/);
    const shared = await ask('ada', 'Share', 'artifact.share', { id: plan });
    assert.match(shared.said, /true/);
    const { events } = await world.audit.task({ params: { task_id: shared.task.id }, query: {} });
    assert.equal(events.find(({ event }) => event === 'artifact.shared')?.artifact, plan);
    const { said } = await ask('bob', 'What is there?', 'artifact.list', {});
    assert.match(said, /plan\.md/);
    assert.doesNotMatch(said, /draft\.md/);
    assert.match((await ask('bob', 'Read it', 'artifact.get', { id: plan })).said, /this is plan/);
    const other = await ask('bob', 'Read the draft', 'artifact.get', { id: draft });
    assert.match(other.said, /belongs to another thread/);
    const eve = await ask('eve', 'Read as eve', 'artifact.get', { id: plan });
    assert.match(eve.said, /belongs to another thread/, 'without the capability');
    const theirs = await ask('bob', 'Share hers', 'artifact.share', { id: draft });
    assert.match(theirs.said, /is not from agent:bob/);
  });

  it('one with marks is listed without its name, and marks who reads it', async () => {
    const log = { path: 'app.log' };
    const page = await put(
      'Copy a log',
      'obey-me.md',
      call('file.write', { ...log, text: 'x' }),
      call('logs.read', log),
    );
    await ask('ada', 'Share the page', 'artifact.share', { id: page });
    const listed = await ask('bob', 'List again', 'artifact.list', {});
    assert.match(listed.said, new RegExp(page));
    assert.doesNotMatch(listed.said, /obey-me/);
    assert.ok(!listed.task.labels.includes('outside'), 'control');
    const { said, task } = await ask('bob', 'Read the page', 'artifact.get', { id: page });
    assert.match(said, /this is obey-me/);
    assert.ok(task.labels.includes('outside'));
  });
});
