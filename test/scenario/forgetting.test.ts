// A forgotten text is nowhere in the state any more: not in the briefings, calls, messages,
// artifacts, approvals, results and model calls that had it, nor in what a file keeps of deleted
// rows. What was made of it stays readable, with a gap.
import assert from 'node:assert/strict';
import { rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { agentctl } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import type { TaskView } from '../../src/wire/agentd.ts';
import type { MemoryView } from '../../src/wire/memoryd/records.ts';
import { findFiles } from '../support/find-files.ts';
import { allEvents } from '../support/reconcile.ts';
import {
  eventually,
  freshDir,
  startRuntime,
  type TestRuntime,
  taskEnded,
} from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import { manifestOf, openWait, reaches, scriptedModels } from '../support/scripted-world.ts';

/** A word that nothing else has. */
const WORD = 'zyxquorv';
const TEXT = `The "osprey" key of the boathouse lies\nunder C:\\stones\\${WORD}, 東京.`;
const GOAL = 'Find the osprey key of the boathouse';
const TOOLS = '[memory.read, memory.write, memory.forget]';

for (const mode of ['embedded', 'split'] as const)
  describe(`forgetting, ${mode}`, { timeout: 180_000 }, () => {
    const base = freshDir();
    let model: ScriptedModel;
    let runtime: TestRuntime;
    let memory: MemoryView;
    before(async () => {
      model = await startScriptedModel();
      runtime = await startRuntime({
        base,
        mode,
        agents: {
          coder: manifestOf(
            'coder',
            `{ replicas: 8, tools: { allow: ${TOOLS} }, memory: { read: [team], write: ["project:app"] } }`,
          ),
        },
        config: JSON.stringify({
          agentd: { memory: { wait_ms: 5_000 } },
          toold: { test_tools: true },
          modeld: scriptedModels(model.url),
        }),
      });
    });
    after(async () => {
      await runtime.remove();
      await model.close();
      rmSync(base, { recursive: true, force: true });
    });

    const run = (words: string[]) => agentctl(words, { state: runtime.stateDir });
    const create = async (goal: string): Promise<TaskView> =>
      (await runtime.agentd.createTask({ body: { goal, agent: 'coder' } })).task;
    const remember = async (text: string): Promise<MemoryView> => {
      const body = { class: 'semantic' as const, scope: 'project:app', text };
      return (await runtime.memoryd.remember({ body })).memory;
    };
    const isErased = (id: MemoryView['id']): Promise<MemoryView> =>
      eventually('the copies to be removed', async () => {
        const { memory: now } = await runtime.memoryd.getMemory({ params: { id } });
        return now.erasure?.status === 'done' ? now : undefined;
      });
    const reject = async (task: TaskView): Promise<void> => {
      const { id } = await eventually('the approval', async () => {
        const query = { root_task_id: task.id, status: 'pending' as const };
        return (await runtime.approvald.listApprovals({ query })).approvals[0];
      });
      await makeReviewer(runtime.approvald).reject({ params: { id: id as never }, body: {} });
    };

    let told: TaskView;
    it('control: what a task read and wrote is in each place', async () => {
      memory = await remember(TEXT);
      await remember('Boathouse keys are cut by the smith.');
      const forget = { ids: [memory.id], reason: 'it is old' };
      model.on(
        GOAL,
        says(call('memory.recall', { query: 'osprey key boathouse' })),
        says(
          call('message.send', { to: 'person:alice', text: `Listen: ${TEXT}` }),
          call('artifact.put', { name: 'notes.md', text: `# Notes\n\n${TEXT}\n\nEnd.` }),
          call('memory.remember', { text: `I read: ${TEXT}` }),
        ),
        says(call('memory.forget', forget)),
        finishes(`I found it. ${TEXT}`),
      );
      const task = await create(GOAL);
      await reject(task);
      told = await taskEnded(runtime, task.id);
      assert.equal(told.status, 'completed', JSON.stringify(told.error));
      await eventually('its episode', async () => {
        const query = { scope: 'agent:coder', limit: 50 };
        const { memories } = await runtime.memoryd.listMemories({ query });
        return memories.some(({ text }) => text?.includes('I found it.')) ? true : undefined;
      });
      const { stateDir } = runtime;
      const found = findFiles(stateDir, WORD);
      const has = (name: RegExp) =>
        assert.ok(
          found.some((path) => name.test(path)),
          `${name}: ${found}`,
        );
      for (const daemon of ['agentd', 'toold', 'modeld', 'approvald', 'memoryd'])
        has(new RegExp(`^${daemon}\\.sqlite`));
      has(/^memory\/journals\//);
      has(/^objects\//);
      has(/^mail\/alice\//);
    });

    it('forgets while one run works and another waits, and every byte is gone', async () => {
      const stone = `${GOAL}, and wait`;
      model.on(stone, says(call('person.ask', { question: `Is it so? ${TEXT}` })), ({ messages }) =>
        finishes(JSON.stringify(messages).includes(WORD) ? `still: ${TEXT}` : 'It was forgotten.'),
      );
      const parked = await create(stone);
      const wait = await openWait(runtime, parked.id, 'question');
      await reaches(runtime, parked.id, 'waiting');
      const busy = `${GOAL}, and think`;
      let isFirst = true;
      model.on(busy, ({ messages }) => {
        if (!isFirst)
          return finishes(JSON.stringify(messages).includes(WORD) ? `still: ${TEXT}` : 'Nothing.');
        isFirst = false;
        return { hang: true };
      });
      const live = await create(busy);
      await eventually('its model call', async () =>
        model.scenesFor(busy).length > 0 ? true : undefined,
      );
      const out = await run(['memory', 'forget', memory.id, '--wait']);
      assert.equal(out.code, 0, out.stderr);
      assert.match(out.stdout, /Forgot 1 memory\.\n\d+ copies elsewhere removed\./);
      const { erasure } = await isErased(memory.id);
      assert.deepEqual(Object.keys(erasure!.copies).sort(), [
        'agentd',
        'approvald',
        'maild',
        'memoryd',
        'modeld',
        'toold',
      ]);
      assert.equal((await taskEnded(runtime, live.id)).result, 'Nothing.');
      await runtime.agentd.answerWait({ params: { id: wait.id }, body: { answer: 'yes' } });
      const ended = await taskEnded(runtime, parked.id);
      assert.equal(ended.result, 'It was forgotten.', JSON.stringify(ended.error));
      assert.deepEqual(findFiles(runtime.stateDir, WORD), []);
      assert.deepEqual(findFiles(runtime.stateDir, 'of the boathouse lies'), []);
    });

    it('the task can be read and replayed, with [forgotten] in its place', async () => {
      const { task } = await runtime.agentd.getTask({ params: { id: told.id } });
      assert.equal(task.result, 'I found it. [forgotten]');
      const { replay } = await runtime.agentd.replayTask({ params: { id: told.id } });
      assert.deepEqual(replay.differences, []);
      assert.equal(replay.same, true);
      for (const view of ['show', 'transcript', 'explain', 'replay']) {
        const { code, stdout, stderr } = await run(['task', view, told.id]);
        assert.equal(code, 0, `${view}: ${stderr}`);
        assert.ok(view === 'replay' || stdout.includes('[forgotten]'), `${view}: ${stdout}`);
      }
      const { artifacts } = await runtime.agentd.listArtifacts({ query: { task_id: told.id } });
      const params = { id: artifacts[0]!.id };
      const { text } = await runtime.agentd.getArtifact({ params, query: {} });
      assert.equal(text, '# Notes\n\n[forgotten]\n\nEnd.');
      const shown = await run(['memory', 'show', memory.id]);
      assert.match(shown.stdout, /copies +removed at .*toold \d/);
    });

    it('what a person wrote on their own stays, and the log has ids alone', async () => {
      const query = { scope: 'project:app', limit: 50 };
      const { memories } = await runtime.memoryd.listMemories({ query });
      assert.ok(memories.some(({ text }) => text === 'Boathouse keys are cut by the smith.'));
      const events = await eventually('the event', async () => {
        const all = await allEvents(runtime);
        return all.some(({ event }) => event === 'memory.erased') ? all : undefined;
      });
      const erased = events.filter(({ event }) => event === 'memory.erased');
      assert.deepEqual(
        erased.map(({ data }) => data?.memory_id),
        [memory.id],
      );
      assert.ok(statSync(join(runtime.stateDir, 'agentd.sqlite')).size > 0);
    });
  });
