// A team as a person runs it with agentctl, on a whole runtime, started by root and as an ordinary
// user: presets, the board, personas, and homes that agents keep.
import assert from 'node:assert/strict';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import {
  type AgentctlResult,
  agentctl,
  documentOf,
} from '../../src/clients/agentctl/testing/run-agentctl.ts';
import type { AgentView, PresetView, TaskView } from '../../src/wire/agentd.ts';
import { freshDir, startRuntime, type TestRuntime, taskEnded } from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import { scriptedModels, TEAM } from '../support/scripted-world.ts';

const NOBODY = 65_534;
const IS_ROOT = process.getuid?.() === 0;
const PRESET = `apiVersion: agentd/v1
kind: Preset
metadata: { name: pond, description: P. }
variables: { POND: { default: the large one } }
agents:
  - { name: coder, allow: [file.read] }
  - { name: heron-counter, allow: [file.read], description: Counts herons. }
tasks:
  - { id: count, agent: heron-counter, goal: 'Count at \${POND}' }
`;

for (const mode of IS_ROOT ? (['root', 'user'] as const) : (['user'] as const))
  describe(`a team by agentctl, ${mode}`, () => {
    const base = freshDir();
    let world: TestRuntime;
    let model: ScriptedModel;
    before(async () => {
      model = await startScriptedModel();
      world = await startRuntime({
        base,
        agents: TEAM,
        config: JSON.stringify({ modeld: scriptedModels(model.url) }),
        ...(mode === 'user' && IS_ROOT ? { uid: NOBODY } : {}),
      });
    });
    after(async () => {
      await world.remove();
      await model.close();
      rmSync(base, { recursive: true, force: true });
    });

    const run = (...words: string[]) => agentctl(words, { state: world.stateDir });
    const done = async (...words: string[]): Promise<AgentctlResult> => {
      const ran = await run(...words);
      assert.equal(ran.code, 0, `${words.join(' ')}: ${ran.stderr}`);
      return ran;
    };
    const json = async <T>(...words: string[]) => documentOf<T>(await done(...words, '--json'));
    const names = async () =>
      (await json<{ agents: AgentView[] }>('list')).agents.map(({ name }) => name);
    const tasks = async (...words: string[]) =>
      (await json<{ tasks: TaskView[] }>('task', 'list', ...words)).tasks;

    it('[K35] lists presets, tries one without an effect, loads it, and leaves agents that exist', async () => {
      assert.match((await done('preset', 'list')).stdout, /incident-response/);
      const file = join(base, 'pond.yaml');
      writeFileSync(file, PRESET, { mode: 0o644 });
      const before = await names();
      const refused = await run('preset', 'load', file, '--set', 'POND=the small one');
      assert.notEqual(refused.code, 0, 'coder differs');
      assert.deepEqual(await names(), before);
      const [skip, set] = ['--skip-existing', '--set'];
      const planned = await done(
        'preset',
        'load',
        file,
        skip,
        '--dry-run',
        set,
        'POND=the old one',
      );
      assert.match(planned.stdout, /the old one/);
      assert.deepEqual([await names(), (await tasks()).length], [before, 0]);
      await done('preset', 'load', file, skip, set, 'POND=the small one');
      assert.deepEqual(await names(), [...before, 'heron-counter'].sort());
      const [task] = await tasks();
      assert.deepEqual([task!.goal, task!.status], ['Count at the small one', 'completed']);
    });

    it('a shipped preset works to its end, each agent as its persona says', async () => {
      const { preset } = await json<{ preset: PresetView }>(
        ...(['preset', 'load', 'incident-response', '--no-wait'] as const),
      );
      for (const { task_id } of preset.tasks) {
        const ended = await taskEnded(world, task_id!);
        assert.equal(ended.status, 'completed');
        const [run] = (await world.agentd.listRuns({ query: { task_id: ended.id } })).runs;
        const { agent } = await world.agentd.getAgent({ params: { name: ended.assigned_to! } });
        assert.equal(run!.persona_sha256, agent.persona_sha256);
        assert.notEqual(agent.persona_sha256, null);
      }
    });

    it('[K32] [K33] puts tasks on the board, lists and updates them, and draws what waits for what', async () => {
      model.on('Hold the door', { hang: true });
      const add = async (...words: string[]) =>
        (await json<{ task: TaskView }>('task', 'add', ...words)).task;
      const hold = await add('Hold the door', '--owner', 'planner');
      const next = await add('Paint it', '--owner', 'coder', '--after', hold.id);
      assert.deepEqual(
        [next.assigned_to, next.status, next.after],
        ['coder', 'blocked', [hold.id]],
      );
      const own = await tasks('--agent', 'coder', '--status', 'blocked');
      assert.deepEqual(
        own.map(({ id }) => id),
        [next.id],
      );
      assert.ok((await done('task', 'graph')).stdout.includes('Paint it'));
      await done('pause', 'coder');
      await done('task', 'update', hold.id, '--status', 'completed', '--result', 'Held.');
      const ready = await tasks('--agent', 'coder', '--status', 'ready');
      assert.deepEqual(
        ready.map(({ id }) => id),
        [next.id],
      );
      await done('resume', 'coder');
      assert.equal((await taskEnded(world, next.id)).status, 'completed');
      assert.equal((await taskEnded(world, hold.id)).result, 'Held.');
    });

    it('an agent that keeps its home finds its notes, and takes them along when it goes', async () => {
      const allow = ['--allow', 'file.read', '--allow', 'file.write_workspace'];
      await done('agent', 'create', 'bob', '--persona', 'writer', '--home', 'kept', ...allow);
      const path = '/home/bob/NOTES.md';
      model.on('Note it', says(call('file.write', { path, text: 'Two loaves.' })), finishes('ok'));
      model.on('Recall it', says(call('file.read', { path })), ({ results }) =>
        finishes(results.join()),
      );
      await done('task', 'create', 'Note it', '--agent', 'bob', '--wait');
      const recalled = await done('task', 'create', 'Recall it', '--agent', 'bob', '--wait');
      assert.match(recalled.stdout, /Two loaves\./);
      const { agent } = await world.agentd.getAgent({ params: { name: 'bob' } });
      const notes = join(world.stateDir, 'homes', agent.home_id!, 'bob', 'NOTES.md');
      assert.ok(existsSync(notes));
      await done('agent', 'remove', 'bob');
      assert.ok(!existsSync(notes));
    });
  });
