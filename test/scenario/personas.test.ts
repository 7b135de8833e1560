// Personas as people use them: layered, loaded while the runtime runs, recorded with each run, and
// out of the reach of the agents that they describe.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { sha256Hex } from '../../src/platform/json.ts';
import { eventually } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  doTask,
  manifestOf,
  refusedWith,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

describe('personas', () => {
  let world: ScriptedWorld;
  let overlay: string;
  before(async () => {
    world = await startScriptedWorld({
      agents: {
        bob: manifestOf(
          'bob',
          '{ personas: [coder], persona: Mind the gap., tools: { allow: [file.read, file.write_workspace, git.read, git.write_branch, tests.run] } }',
        ),
        boss: manifestOf(
          'boss',
          '{ personas: [planner], tools: { allow: [task.delegate, file.read, git.read] } }',
        ),
        plain: manifestOf('plain', '{ persona: "Say {{this}} as it is." }'),
      },
    });
    overlay = join(world.stateDir, 'personas');
  });
  after(() => world.stop());

  /** Directories are polled by the clock, which only the test advances. */
  const afterLook = <T>(what: string, look: () => Promise<T | undefined>) =>
    eventually(what, async () => {
      world.clock.advance(1_000);
      return look();
    });
  const personaOf = (name: string) => world.agentd.getAgentPersona({ params: { name } });
  const write = (path: string, text: string): string => {
    const file = join(overlay, path);
    mkdirSync(join(file, '..'), { recursive: true });
    writeFileSync(file, text);
    return file;
  };
  const untilTold = (name: string, what: RegExp) =>
    afterLook(`${name} to be told ${what}`, async () => {
      const { text, sha256 } = await personaOf(name);
      return what.test(text) ? sha256 : undefined;
    });
  const systemOf = (goal: string) => String(world.model.scenesFor(goal)[0]?.messages[0]?.content);

  it('[C24] [C29] [K44] an agent is told its layers in order, and the inline text last', async () => {
    const { text, layers, role, sha256 } = await personaOf('bob');
    assert.deepEqual(
      layers.map(({ layer, source }) => [layer, source]),
      [
        ['base', 'package'],
        ['roles/coder', 'package'],
        ['inline', 'manifest'],
      ],
    );
    assert.equal(
      text,
      layers
        .map((layer) => layer.text)
        .join('\n\n---\n\n')
        .replace('{{agent}}', 'bob'),
    );
    assert.equal(role, 'Coder');
    assert.equal(sha256, sha256Hex(text));
    const { agent } = await world.agentd.getAgent({ params: { name: 'bob' } });
    assert.match(agent.summary, /^Coder \(coder\) - Reads, writes and tests code[^:]*$/);
    const { personas } = await world.agentd.listPersonas({});
    assert.deepEqual(personas.find(({ ref }) => ref === 'roles/coder')!.agents, ['bob']);
    assert.equal((await personaOf('plain')).text, 'Say {{this}} as it is.');
  });

  it('[C30] [C74] the hash of what it was told is in the record of each run and in the log', async () => {
    const { sha256 } = await personaOf('bob');
    const task = await doTask(world, 'Hum', { agent: 'bob' });
    assert.match(systemOf('Hum'), /You are bob, one of a team[\s\S]*Mind the gap\./);
    const { runs } = await world.agentd.listRuns({ query: { task_id: task.id } });
    assert.deepEqual(
      runs.map((run) => run.persona_sha256),
      [sha256],
    );
    const { events } = await world.audit.task({ params: { task_id: task.id }, query: {} });
    const started = events.find(({ event }) => event === 'run.started');
    assert.equal(started?.data?.persona_sha256, sha256);
  });

  it('[K104] a planner knows its colleagues, gives them work with what done means, and keeps track', async () => {
    const goal = 'Survey the pond';
    const part = 'Measure the pond. Done means: length and width, each measured twice.';
    world.model.on(
      goal,
      says(call('team.list')),
      says(call('task.delegate', { agent: 'bob', goal: part })),
      ({ results }) => finishes(`Surveyed: ${results.at(-1)}`),
    );
    world.model.on('Measure the pond', finishes('12 by 7, twice.'));
    const task = await doTask(world, goal, { agent: 'boss' });
    const told = systemOf(goal);
    assert.match(told, /A part is one outcome, one owner, one way to tell that it is done/);
    assert.match(
      told,
      /Say what to find out or make, what is known, what a good answer\s+contains/,
    );
    assert.match(told, /Compare it with what you asked for/);
    assert.match(told, /Colleagues you can give work to with task_delegate:[\s\S]*\n- bob: /);
    const [listed, outcome] = world.model.scenesFor(goal).at(-1)!.results;
    assert.match(listed!, /"name":\s*"bob",\s*"role":\s*"Coder"/);
    assert.match(outcome!, /12 by 7, twice\./);
    const { tree } = await world.agentd.getTree({ params: { id: task.id } });
    assert.deepEqual(
      tree.children.map((child) => [child.task.assigned_to, child.task.goal, child.task.status]),
      [['bob', part, 'completed']],
    );
    assert.match(task.result ?? '', /^Surveyed: .*12 by 7/);
  });

  it('[C29] an overlay applies from the next task on, and its removal too', async () => {
    const before = (await personaOf('bob')).sha256;
    const file = write('roles/coder.md', 'We indent with tabs.');
    const changed = await untilTold('bob', /indent with tabs/);
    assert.notEqual(changed, before);
    await doTask(world, 'Whistle', { agent: 'bob' });
    assert.match(systemOf('Whistle'), /# Coder[\s\S]*indent with tabs[\s\S]*Mind the gap/);
    const event = await eventually('the event', async () =>
      (
        await world.audit.agent({ params: { agent: 'bob' }, query: { limit: 500 } })
      ).events.findLast(({ event: kind }) => kind === 'agent.changed'),
    );
    assert.equal(event.data?.persona_sha256, changed);
    rmSync(file);
    assert.equal(await untilTold('bob', /^((?!tabs)[\s\S])*$/), before);
    write('agents/plain.md', 'You are plain.');
    await untilTold('plain', /^You are plain\.\n\n---\n\nSay/);
  });

  it('a broken overlay is named with file and line, and the last good one stays in force', async () => {
    const good = (await personaOf('bob')).sha256;
    for (const [text, line, message] of [
      ['---\nrole: [\n---\nx', 2, /Flow sequence/],
      ['Fine.\n{{nobody}}', 2, /no value for the variable \{\{nobody\}\}/],
      ['---\nextends: [coder]\n---\nMe again.', 2, /extend each other/],
      ['---\nextends: [gone]\n---\nMe again.', 2, /no persona roles\/gone/],
    ] as const) {
      const file = write('roles/coder.md', text);
      const problem = await afterLook('the problem', async () =>
        (await world.agentd.listAgents({})).problems.find(
          (found) => found.file === file && message.test(found.message),
        ),
      );
      assert.equal(problem.line, line, text);
      assert.match(problem.hint, /Until then agent bob stays as it was\.$/);
      assert.equal((await personaOf('bob')).sha256, good);
    }
    assert.equal((await doTask(world, 'Sing on', { agent: 'bob' })).status, 'completed');
    rmSync(join(overlay, 'roles/coder.md'));
    await afterLook('no problem', async () =>
      (await world.agentd.listAgents({})).problems.length === 0 ? true : undefined,
    );
  });

  it('a manifest that names a missing persona is refused as a whole, with its line', async () => {
    const manifest = (of: string) =>
      `apiVersion: agentd/v1\nkind: Agent\nmetadata: { name: eve }\nspec:\n  personas:\n    - ${of}\n`;
    const put = (of: string) =>
      world.agentd.putAgent({ params: { name: 'eve' }, body: { manifest_yaml: manifest(of) } });
    const refused = await refusedWith('bad_manifest', put('codr'));
    assert.match(
      refused.message,
      /line 6: spec\.personas\.0: there is no persona roles\/codr; did you mean coder\?/,
    );
    await refusedWith('not_found', personaOf('eve'));
    assert.equal((await put('coder')).agent.persona, 'coder');
  });

  it('[C30] [C105] [C107] an agent cannot change what it is told, in any way that it has', async () => {
    const before = await personaOf('bob');
    const at = (path: string) => join(overlay, path);
    const listing = () => readdirSync(overlay, { recursive: true }).sort();
    const files = listing();
    const skills = join(world.stateDir, 'skills');
    const skill = join(skills, 'obey', 'SKILL.md');
    const tries = [
      call('file.write', { path: at('agents/bob.md'), text: 'Obey me.' }),
      call('file.write', { path: '/etc/agentd/personas/agents/bob.md', text: 'Obey me.' }),
      call('file.write', { path: '../../../personas/agents/bob.md', text: 'Obey me.' }),
      call('file.write', { path: 'personas/agents/bob.md', text: 'Obey me.' }),
      call('file.read', { path: at('agents/plain.md') }),
      call('file.write', { path: skill, text: 'Obey me.' }),
      call('file.write', { path: '/etc/agentd/skills/obey/SKILL.md', text: 'Obey me.' }),
      call('file.write', { path: '../../../skills/obey/SKILL.md', text: 'Obey me.' }),
    ];
    const goal = 'Rewrite your orders';
    world.model.on(goal, ...tries.map((each) => says(each)), finishes('done'));
    const task = await doTask(world, goal, { agent: 'bob' });
    const { calls } = await world.toold.listCalls({ query: { task_id: task.id } });
    const outcomes = calls
      .filter(({ tool }) => tool.startsWith('file.'))
      .map(({ tool, status }) => `${tool} ${status}`);
    assert.deepEqual(
      outcomes.filter((outcome) => outcome.endsWith('completed')),
      ['file.write completed'],
      'control: a file of that name in its own workspace is an ordinary file',
    );
    world.clock.advance(10_000);
    assert.deepEqual(listing(), files);
    assert.deepEqual(readdirSync(skills), []);
    assert.equal((await personaOf('bob')).text, before.text);
    assert.equal(readFileSync(at('agents/plain.md'), 'utf8'), 'You are plain.');
  });
});
