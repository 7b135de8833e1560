// Presets: a team with its tasks is loaded as a whole or not at all, and works in the order of its
// dependencies.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { TaskView } from '../../src/wire/agentd.ts';
import { ROOT, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import { refusedWith, type ScriptedWorld, startScriptedWorld } from '../support/scripted-world.ts';

const shipped = (name: string) => ({
  file: `${name}.yaml`,
  text: readFileSync(join(ROOT, 'presets', `${name}.yaml`), 'utf8'),
});

describe('presets', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld();
  });
  after(() => world.stop());
  const load = async (body: object) =>
    (await world.agentd.loadPreset({ body: body as never })).preset;
  const agentNames = async () => (await world.agentd.listAgents({})).agents.map(({ name }) => name);
  const countTasks = async () =>
    (await world.agentd.listTasks({ query: { limit: 500 } })).tasks.length;

  it('[K106] [K110] a preset of seven tasks runs in the order of its dependencies, with results handed on', async () => {
    world.model.on('Design', finishes('THE DESIGN'));
    world.model.on('Implement', finishes('THE CODE'));
    const preset = await load(shipped('feature-build'));
    assert.equal(preset.tasks.length, 7);
    const ended = new Map<string, TaskView>();
    for (const { id, task_id } of preset.tasks) ended.set(id, await taskEnded(world, task_id!));
    for (const { id, after: earlier } of preset.tasks) {
      assert.equal(ended.get(id)!.status, 'completed', id);
      const [run] = (await world.agentd.listRuns({ query: { task_id: ended.get(id)!.id } })).runs;
      for (const other of earlier)
        assert.ok(run!.created_at >= ended.get(other)!.ended_at!, `${id} after ${other}`);
    }
    const [review] = world.model.scenesFor('Review the change');
    const told = JSON.stringify(review!.messages);
    assert.match(told, /THE CODE/);
    assert.doesNotMatch(told, /THE DESIGN/, 'only of the tasks that it waits for');
  });

  it('[K109] loading it again changes nothing; --again creates its tasks anew', async () => {
    const [agents, tasks] = [await agentNames(), await countTasks()];
    const again = await load(shipped('feature-build'));
    assert.deepEqual([await agentNames(), await countTasks()], [agents, tasks]);
    assert.ok(again.agents.every(({ action }) => action === 'keep'));
    const anew = await load({ ...shipped('feature-build'), again: true });
    assert.equal(await countTasks(), tasks + 7);
    assert.notEqual(anew.context_id, again.context_id);
    for (const { task_id } of anew.tasks) await taskEnded(world, task_id!);
  });

  it('[K107] [K108] [K109] a dry run shows all and changes nothing; values are checked', async () => {
    const [agents, tasks] = [await agentNames(), await countTasks()];
    const body = { ...shipped('incident-response'), dry_run: true };
    const plan = await load({ ...body, variables: { SERVICE: 'search' } });
    assert.match(plan.tasks[0]!.goal, /: search, /);
    assert.ok(plan.agents.every(({ action }) => action === 'create'));
    const set = (variables: object) => load({ ...body, variables });
    await refusedWith('bad_request', set({ SERVICE: 'Search; rm -rf /' }));
    await refusedWith('bad_request', set({ SEVERITY: 'huge' }));
    await refusedWith('bad_request', set({ SERVCE: 'search' }));
    const required = `apiVersion: agentd/v1
kind: Preset
metadata: { name: r, description: R. }
variables: { WHAT: {} }
agents: [{ name: coder }]
tasks: [{ id: a, goal: 'Do \${WHAT}', agent: coder }]
`;
    const missing = await refusedWith('bad_request', load({ file: 'r.yaml', text: required }));
    assert.match(`${missing.message} ${missing.hint}`, /requires WHAT.*--set WHAT=…/);
    assert.deepEqual([await agentNames(), await countTasks()], [agents, tasks]);
  });

  it('[K110] a preset that fails half way leaves no agent and no task; corrected, it loads', async () => {
    const [agents, tasks] = [await agentNames(), await countTasks()];
    const text = (needs: string) => `apiVersion: agentd/v1
kind: Preset
metadata: { name: half, description: H. }
agents: [{ name: half-one, allow: [file.read] }, { name: half-two, allow: [file.read] }]
tasks:
  - { id: a, goal: 'One', agent: half-one }
  - { id: b, goal: 'Two', needs: [${needs}], after: [a] }
`;
    await refusedWith('conflict', load({ file: 'half.yaml', text: text('prod.deploy') }));
    assert.deepEqual([await agentNames(), await countTasks()], [agents, tasks]);
    const bad = text('file.read').replace('allow: [file.read] }]', 'allow: [file.raed] }]');
    const wrong = await refusedWith('bad_config', load({ file: 'half.yaml', text: bad }));
    assert.match(wrong.message, /half\.yaml:4: agent half-two: .*unknown capability file\.raed/);
    assert.deepEqual([await agentNames(), await countTasks()], [agents, tasks]);
    const preset = await load({ file: 'half.yaml', text: text('file.read') });
    assert.equal(await countTasks(), tasks + 2);
    assert.deepEqual(
      (await agentNames()).filter((name) => !agents.includes(name)),
      ['half-one', 'half-two'],
    );
    for (const { task_id, agent } of preset.tasks)
      if (agent !== null) await taskEnded(world, task_id!);
    const other = text('file.read').replace('file.read] }, {', 'git.read] }, {');
    await refusedWith('conflict', load({ file: 'half.yaml', text: other, again: true }));
  });

  it('[K110] its agents are created, and its mail is read by the agent that works there', async () => {
    world.model.on('Read the mail', finishes('read'));
    const text = `apiVersion: agentd/v1
kind: Preset
metadata: { name: kickoff, description: K. }
agents: [{ name: fresh, description: Reads., allow: [file.read] }]
tasks: [{ id: a, goal: 'Read the mail', agent: fresh }]
mail: [{ to: fresh, subject: About it, body: It is urgent. }]
`;
    const preset = await load({ file: 'kickoff.yaml', text });
    assert.deepEqual(
      preset.agents.map(({ name, action }) => [name, action]),
      [['fresh', 'create']],
    );
    const [{ id, task_id }] = preset.tasks as [(typeof preset.tasks)[number]];
    assert.equal(id, 'a', 'its own id beside that of the task');
    await taskEnded(world, task_id!);
    const [scene] = world.model.scenesFor('Read the mail');
    assert.match(JSON.stringify(scene!.messages), /About it.*It is urgent\./);
  });

  it('marks of a task reach those that get its result', async () => {
    world.model.on(
      'Read it',
      says(call('test.echo', { text: 'from outside', outside: true })),
      finishes('Read.'),
    );
    const text = `apiVersion: agentd/v1
kind: Preset
metadata: { name: marks, description: M. }
agents: [{ name: coder }]
tasks:
  - { id: a, goal: 'Read it', agent: coder }
  - { id: b, goal: 'Use it', agent: coder, after: [a] }
  - { id: c, goal: 'Alone', agent: coder }
`;
    const preset = await load({ file: 'marks.yaml', text });
    const ended = [];
    for (const { task_id } of preset.tasks) ended.push(await taskEnded(world, task_id!));
    const has = ended.map(({ labels }) => labels.includes('outside'));
    assert.equal(has[1], has[0], 'the one that waited has the marks of the one before');
    assert.equal(has[2], false);
  });

  it('codebase-audit takes its critical path and at most a tenth more', async (t) => {
    for (const goal of ['Scope', 'Audit', 'Rank'])
      world.model.on(goal, { ...finishes('Audited.'), delayMs: 1_500 });
    const take = async (body: object) => {
      const beganMs = performance.now();
      const preset = await load(body);
      let tokens = 0;
      for (const { task_id } of preset.tasks) {
        assert.equal((await taskEnded(world, task_id!)).status, 'completed');
        const { total } = await world.modeld.usage({ query: { task_id: task_id! } });
        tokens += total.usage.input_tokens + total.usage.output_tokens;
      }
      return { ms: Math.round(performance.now() - beganMs), tokens };
    };
    const { file, text } = shipped('codebase-audit');
    // Its longest path, alone: without three of the four that work at the same time.
    const path = text
      .replace(/ {2}- id: (tests|structure|documents)\n(?: {4}.*\n)+/g, '')
      .replace('[security, tests, structure, documents]', '[security]');
    const critical = await take({ file, text: path });
    const whole = await take({ file, text });
    t.diagnostic(
      `wall ${whole.ms} ms, ${whole.tokens} tokens; critical path ${critical.ms} ms, ${critical.tokens} tokens`,
    );
    assert.ok(whole.tokens > critical.tokens);
    assert.ok(whole.ms <= 1.1 * critical.ms, `${whole.ms} ms against ${critical.ms} ms`);
  });

  it('those that ship leave nothing to be reported about their agents', async () => {
    for (const name of ['bug-triage', 'codebase-audit', 'incident-response'])
      for (const { task_id } of (await load(shipped(name))).tasks) await taskEnded(world, task_id!);
    assert.deepEqual((await world.agentd.listAgents({})).problems, []);
  });
});
