// An agent gives colleagues layers of their own, applies one, meets the conflict of the other and
// discards it; and a person does the same. In a whole runtime, as root and as an ordinary user.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { TaskId } from '../../src/wire/primitives.ts';
import { type LayeredTasks, startLayeredTasks } from '../support/layered-tasks.ts';
import { LAYER_MODES } from '../support/layers.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';

const FILES = { a: 'a\n', b: 'b\n' };

for (const mode of LAYER_MODES)
  describe(`subtasks with layers of their own, as ${mode}`, { timeout: 300_000 }, () => {
    let tasks: LayeredTasks;
    before(async () => {
      tasks = await startLayeredTasks(mode);
    });
    after(() => tasks?.stop());

    const shell = (command: string) => call('shell.exec', { command });
    const delegate = (goal: string) =>
      call('task.delegate', { agent: 'helper', goal, workspace: 'own' });
    const idsOf = (results: readonly string[]) =>
      results.map((text) => (/task_[0-9a-z]{26}/.exec(text)?.[0] ?? text) as TaskId);
    const create = async (goal: string, workspace: string) => {
      const body = { goal, agent: 'coder', workspace, workspace_mode: 'layer' as const };
      return (await tasks.runtime().agentd.createTask({ body })).task.id;
    };

    it('the parent applies one, and the second meets a conflict and is discarded', async (t) => {
      if (tasks.missing !== undefined) return t.skip(tasks.missing);
      const dir = tasks.makeDirectory('two', FILES);
      const [goal, one, two] = ['Give work away', 'Write one', 'Write two'];
      tasks.model.on(
        one,
        says(shell('cat a; echo one > a; echo 1 > one')),
        finishes('one is done'),
      );
      tasks.model.on(
        two,
        says(shell('cat a; echo two > a; echo 2 > two')),
        finishes('two is done'),
      );
      let seen: string[] = [];
      tasks.model.on(
        goal,
        says(shell('echo parent > a')),
        says(delegate(one), delegate(two)),
        ({ results }) =>
          says(...idsOf(results.slice(-2)).map((task_id) => call('task.apply', { task_id }))),
        ({ results }) => says(call('task.discard', { task_id: idsOf(results.slice(1, 3))[1] })),
        says(shell('cat a; ls')),
        ({ results }) => {
          seen = results;
          return finishes('done');
        },
      );
      const id = await create(goal, dir);
      const ended = await taskEnded(tasks.runtime(), id);
      assert.equal(ended.status, 'completed', JSON.stringify(ended.error));
      assert.equal(JSON.parse(seen[3]!).count, 2);
      assert.match(seen[4]!, /1 of 2 changes conflict: a \(changed\)/);
      assert.equal(JSON.parse(seen[5]!).discarded, 2);
      assert.equal(JSON.parse(seen[6]!).stdout, 'one\na\nb\none\n');
      assert.equal(readFileSync(join(dir, 'a'), 'utf8'), 'a\n');
      await tasks.done('task', 'apply', id);
      assert.equal(readFileSync(join(dir, 'a'), 'utf8'), 'one\n');
      const applied = await eventually('the events', async () => {
        const found = (await allEvents(tasks.runtime())).filter(
          ({ event, root_task_id }) => event === 'task.applied' && root_task_id === id,
        );
        return found.length === 2 ? found : undefined;
      });
      const [child] = idsOf(seen.slice(1, 3));
      assert.deepEqual(
        applied.map(({ principal, task_id }) => [principal, task_id]),
        [
          ['agent:coder', child],
          [applied[1]!.principal, id],
        ],
      );
    });

    it('an agent applies only what its own subtasks changed, and nothing that runs later', async (t) => {
      if (tasks.missing !== undefined) return t.skip(tasks.missing);
      const dir = tasks.makeDirectory('only', FILES);
      const { id: other } = await tasks.work(dir, 'echo x > a');
      const [goal, one] = ['Try to apply', 'Write what runs'];
      tasks.model.on(one, says(shell('echo "touch x" > .envrc; echo 1 > ok')), finishes('done'));
      let seen: string[] = [];
      tasks.model.on(
        goal,
        says(delegate(one)),
        says(call('task.apply', { task_id: other })),
        ({ results }) => says(call('task.apply', { task_id: idsOf(results)[0]! })),
        ({ results }) => says(call('task.apply', { task_id: idsOf(results)[0]!, paths: ['ok'] })),
        ({ results }) => {
          seen = results;
          return finishes('done');
        },
      );
      const ended = await taskEnded(tasks.runtime(), await create(goal, dir), 20_000);
      assert.equal(ended.status, 'completed', JSON.stringify(ended.error));
      assert.match(seen[1]!, /is not a subtask/);
      assert.match(seen[2]!, /1 of 2 changes are refused: \.envrc .*Only a person/);
      assert.deepEqual(JSON.parse(seen[3]!).applied, ['ok']);
    });

    it('a person makes, looks at, applies, undoes and discards one; marks come with it', async (t) => {
      if (tasks.missing !== undefined) return t.skip(tasks.missing);
      const dir = tasks.makeDirectory('person', FILES);
      const goal = 'Change a, and wait for an answer';
      tasks.model.on(
        goal,
        says(shell('echo parent > a')),
        says(call('person.ask', { question: '?' })),
      );
      const root = await create(goal, dir);
      await eventually('the question', async () => {
        const { task } = await tasks.runtime().agentd.getTask({ params: { id: root } });
        return task.status === 'waiting' ? true : undefined;
      });
      const [secret, plain] = ['Write a secret', 'Read the files'];
      tasks.model.on(secret, says(call('vault.show')), says(shell('echo s > s')), finishes('done'));
      tasks.model.on(plain, says(shell('cat a s; true')), ({ results }) => finishes(results[0]!));
      const subtask = async (goal: string, ...own: string[]) => {
        const words = ['task', 'create', goal, '--agent', 'helper', '--parent', root, ...own];
        const { task } = JSON.parse(await tasks.done(...words, '--json'));
        return taskEnded(tasks.runtime(), task.id as TaskId);
      };
      const child = await subtask(secret, '--workspace', 'own');
      assert.deepEqual([child.layer_task_id, child.labels.includes('secret')], [child.id, true]);
      const before = await subtask(plain);
      assert.match(before.result!, /parent/);
      assert.doesNotMatch(before.result!, /parent\\ns/);
      assert.equal(before.labels.includes('secret'), false, 'nothing of it is in these files');
      assert.match(
        await tasks.done('task', 'diff', child.id),
        /1 change of .* for the layer of its/,
      );
      assert.doesNotMatch(await tasks.done('task', 'diff', root), /\bs\b.*new file/);
      assert.match(await tasks.done('task', 'apply', child.id), /1 change applied to the layer of/);
      const marked = await subtask(plain);
      assert.match(marked.result!, /parent\\ns/);
      assert.equal(marked.labels.includes('secret'), true, 'the mark came with the text');
      await tasks.done('task', 'undo', child.id);
      assert.doesNotMatch((await subtask(plain)).result!, /parent\\ns/);
      assert.match(await tasks.done('task', 'discard', child.id, '--yes'), /1 change discarded/);
      assert.match(
        (await tasks.run('task', 'diff', child.id)).stderr,
        /has no changes for the layer/,
      );
    });

    it('is refused where there is no layer to be above', async () => {
      const create_ = (body: object) =>
        tasks.runtime().agentd.createTask({ body: { goal: 'x', agent: 'coder', ...body } });
      await assert.rejects(create_({ workspace: 'own' }), { code: 'bad_request' });
      const { task } = await create_({});
      const own = { workspace: 'own', parent_task_id: task.id };
      await assert.rejects(create_(own), { code: 'bad_request', message: /only in a tree/ });
    });
  });
