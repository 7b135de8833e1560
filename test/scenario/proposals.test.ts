// Proposals of agents about how they work: a person sees the diff and accepts or not; no agent can
// accept its own; what was shown is what happens.
import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import { agentdRoutes } from '../../src/wire/agentd.ts';
import { approvaldRoutes } from '../../src/wire/approvald.ts';
import { callSocket, runSocketOf } from '../support/callers.ts';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  create,
  doTask,
  manifestOf,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

const SKILL = '---\nname: bake-bread\ndescription: How we bake bread in this house\n---\nKnead.\n';
const propose = (text = SKILL, more: object[] = []) =>
  call('skill.propose', {
    name: 'bake-bread',
    files: [{ path: 'SKILL.md', text }, ...more],
    why: 'It took three tries.',
  });

describe('proposals', () => {
  let world: ScriptedWorld;
  let skills: string;
  before(async () => {
    world = await startScriptedWorld({
      agents: {
        bob: manifestOf(
          'bob',
          '{ personas: [tester], tools: { allow: [skill.propose, persona.propose] } }',
        ),
        eve: manifestOf('eve', '{ personas: [tester] }'),
      },
    });
    skills = join(world.stateDir, 'skills');
  });
  after(() => world.stop());

  const people = () => makeReviewer(world.approvald);
  const approvalOf = (task: string) =>
    eventually('the approval', async () => {
      const { approvals } = await world.approvald.listApprovals({ query: { status: 'pending' } });
      const found = approvals.find(({ root_task_id }) => root_task_id === task);
      return found && (await world.approvald.getApproval({ params: { id: found.id } })).approval;
    });
  const lastSaid = (goal: string) =>
    String(world.model.scenesFor(goal).at(-1)!.messages.at(-1)!.content);
  /** Has an agent make these calls, and a person decide on the last. */
  const decide = async (goal: string, calls: ReturnType<typeof call>[], accept: boolean) => {
    world.model.on(goal, ...calls.map((each) => says(each)), finishes('done'));
    const task = await create(world, goal, { agent: 'bob' });
    const approval = await approvalOf(task.id);
    const params = { id: approval.id };
    if (accept) await people().approve({ params, body: { for: 'once' } });
    else await people().reject({ params, body: { reason: 'No.' } });
    await taskEnded(world, task.id);
    return { task, approval };
  };

  it('[K67] an accepted skill is in force, exactly as its diff showed', async () => {
    const script = { path: 'scripts/oven.sh', text: 'echo hot' };
    const { task, approval } = await decide('Learn to bake', [propose(SKILL, [script])], true);
    assert.equal(approval.risk, 'high');
    assert.match(
      approval.diff ?? '',
      /^basis: \w+\nwhy: It took three tries\.\n--- .*null\n\+\+\+ skills\/bake-bread\/SKILL\.md\n/,
    );
    assert.match(approval.diff ?? '', /\+Knead\.[\s\S]*\+echo hot/);
    assert.equal(readFileSync(join(skills, 'bake-bread', 'SKILL.md'), 'utf8'), SKILL);
    assert.deepEqual(readdirSync(skills), ['bake-bread']);
    const { skill, files } = await world.agentd.getSkill({
      params: { name: 'bake-bread' },
      query: {},
    });
    assert.equal(skill.source, 'operator');
    assert.deepEqual(
      files.map(({ path }) => path),
      ['scripts/oven.sh'],
    );
    const { events } = await world.audit.task({ params: { task_id: task.id }, query: {} });
    const changed = events.find(({ event }) => event === 'skill.changed');
    assert.deepEqual([changed?.data?.name, changed?.data?.approval], ['bake-bread', approval.id]);
  });

  it('a change keeps the other files; a rejected one changes nothing', async () => {
    const before = readFileSync(join(skills, 'bake-bread', 'SKILL.md'), 'utf8');
    await decide('Bake better', [propose(SKILL.replace('Knead', 'Wait'))], false);
    assert.match(lastSaid('Bake better'), /denied/);
    assert.equal(readFileSync(join(skills, 'bake-bread', 'SKILL.md'), 'utf8'), before);
    const { approval } = await decide('Bake best', [propose(SKILL.replace('Knead', 'Rest'))], true);
    assert.match(approval.diff ?? '', /-Knead\.\n\+Rest\./);
    assert.ok(existsSync(join(skills, 'bake-bread', 'scripts', 'oven.sh')));
  });

  it('an agent is told what it proposed about itself from the next task on', async () => {
    const text = 'Count the loaves.';
    const mine = call('persona.propose', { text, why: 'I forgot once.' });
    const { approval, task } = await decide('Improve', [mine], true);
    const { events } = await world.audit.task({ params: { task_id: task.id }, query: {} });
    assert.equal(
      events.find(({ event }) => event === 'persona.changed')?.data?.approval,
      approval.id,
    );
    assert.match(approval.diff ?? '', /\+\+\+ personas\/agents\/bob\.md\n.*\n\+Count the loaves\./);
    await doTask(world, 'Sing', { agent: 'bob' });
    assert.match(
      String(world.model.scenesFor('Sing')[0]!.messages[0]!.content),
      /Count the loaves/,
    );
    await doTask(world, 'Sing', { agent: 'eve' });
    const eve = world.model.scenesFor('Sing').at(-1)!;
    assert.doesNotMatch(String(eve.messages[0]!.content), /Count the loaves/);
  });

  it('no agent accepts its own: no socket, no permit, no call of another', async () => {
    const goal = 'Accept yourself';
    const mine = propose(SKILL.replace('Knead', 'Obey'));
    world.model.on(goal, says(mine), says(mine), finishes('done'));
    const task = await create(world, goal, { agent: 'bob' });
    const approval = await approvalOf(task.id);
    assert.deepEqual(Object.keys(approval.would_permit), ['once'], 'no permit is offered');
    const body = { for: 'once', nonce: approval.nonce } as const;
    const params = { id: approval.id };

    // A run that is live has three sockets: none of them decides, and none accepts.
    world.model.on('Hold on', { hang: true });
    const other = await create(world, 'Hold on', { agent: 'bob' });
    const run = await eventually('the other run', async () => {
      const { runs } = await world.agentd.listRuns({ query: { task_id: other.id } });
      return runs.find(({ status }) => status === 'live');
    });
    await eventually('its scene', async () => world.model.scenesFor('Hold on')[0]);
    for (const daemon of ['agentd', 'toold', 'modeld'] as const) {
      const path = runSocketOf(world, daemon, run as never);
      const approve = await callSocket(path, approvaldRoutes.approve, { params, body });
      const accept = await callSocket(path, agentdRoutes.toolAcceptProposal, {
        body: {
          run_id: run.id,
          fence: run.fence,
          call_id: 'call_0',
          proposal: { kind: 'persona', text: 'Obey me.' },
          basis: '0'.repeat(64),
          approval_id: approval.id,
        },
      });
      const put = await callSocket(path, agentdRoutes.putAgent, {
        params: { name: 'bob' },
        body: { manifest_yaml: manifestOf('bob') },
      });
      for (const outcome of [approve, accept, put])
        assert.match(JSON.stringify(outcome), /no_such_route|denied|forbidden/, daemon);
    }
    await world.agentd.cancelTask({ params: { id: other.id }, body: {} });
    const again = (await world.approvald.getApproval({ params })).approval;
    assert.equal(again.status, 'pending');
    const skill = join(skills, 'bake-bread', 'SKILL.md');
    assert.doesNotMatch(readFileSync(skill, 'utf8'), /Obey/);

    // Control: a person does, once; the second identical call asks anew.
    await people().approve({ params, body: { for: 'once' } });
    await taskEnded(world, task.id);
    assert.match(readFileSync(skill, 'utf8'), /Obey/);
    assert.match(lastSaid(goal), /changes nothing/);
  });

  it('what has changed since it was shown is not overwritten', async () => {
    const goal = 'Bake late';
    world.model.on(goal, says(propose(SKILL.replace('Knead', 'Late'))), finishes('done'));
    const task = await create(world, goal, { agent: 'bob' });
    const approval = await approvalOf(task.id);
    const file = join(skills, 'bake-bread', 'SKILL.md');
    writeFileSync(file, SKILL.replace('Knead', 'By hand'));
    world.clock.advance(6_000);
    await people().approve({ params: { id: approval.id }, body: { for: 'once' } });
    await taskEnded(world, task.id);
    assert.match(lastSaid(goal), /changed/);
    assert.match(readFileSync(file, 'utf8'), /By hand/);
  });

  it('what could not come into force, or leave its folder, is refused without asking', async () => {
    const elsewhere = join(world.stateDir, 'elsewhere');
    mkdirSync(elsewhere);
    symlinkSync(elsewhere, join(skills, 'bake-bread', 'way'));
    const withFile = (path: string) => propose(SKILL, [{ path, text: 'x' }]);
    const cases: [call: ReturnType<typeof call>, message: RegExp][] = [
      [propose('---\nname: x\n'), /not closed/],
      [propose('---\ndescription: a: b\n---\nx'), /line 2/],
      [withFile('../../agents/bob.yaml'), /relative path/],
      [withFile('.hidden'), /relative path/],
      [withFile('SKILL.md/x'), /both a file and a folder/],
      [call('skill.propose', { name: '../x', files: [], why: 'y' }), /must be a name/],
      [call('persona.propose', { text: 'Hi {{nobody}}.', why: 'y' }), /variable \{\{nobody\}\}/],
      [call('persona.propose', { text: '---\nreplace: true\n---\nx', why: 'y' }), /front matter/],
    ];
    for (const [i, [wrong, message]] of cases.entries()) {
      const goal = `Wrong ${i}.`;
      world.model.on(goal, says(wrong), finishes('done'));
      await doTask(world, goal, { agent: 'bob' });
      assert.match(lastSaid(goal), message, goal);
    }
    world.model.on('Not granted', says(propose()), finishes('done'));
    await doTask(world, 'Not granted', { agent: 'eve' });
    assert.match(lastSaid('Not granted'), /There is no tool skill_propose/);
    assert.deepEqual(readdirSync(elsewhere), []);
  });
});
