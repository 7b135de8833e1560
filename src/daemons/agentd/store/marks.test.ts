// Marks: a task is marked once by outside text, and the mark spreads with results, messages and
// artifacts. On both databases.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  DATABASES,
  delegate,
  done,
  makeCall,
  makeSubtask,
  type StoreWorld,
  world,
} from './testing.ts';

const readLabels = async ({ store }: StoreWorld, id: string): Promise<string[]> =>
  JSON.parse((await store.taskRow(id)).labels) as string[];
const claimRun = async (it: StoreWorld, taskId: string) =>
  (await it.claim()).find(({ task }) => task.id === taskId)!.run;

for (const [name, open] of Object.entries(DATABASES)) {
  test(`[R10] [R401] a mark is added once with one event, and other labels mark nothing, on ${name}`, async () => {
    const it = await world(open);
    const task = await it.task();
    const run = await claimRun(it, task.id);
    assert.deepEqual(await it.store.mark(makeCall(run), ['tool', 'agent'], 'a tool'), []);
    assert.deepEqual(await readLabels(it, task.id), ['person']);
    assert.deepEqual(await it.store.mark(makeCall(run), ['outside', 'tool'], 'a page'), [
      'outside',
    ]);
    assert.deepEqual(await it.store.mark(makeCall(run), ['outside'], 'another page'), []);
    assert.deepEqual(await readLabels(it, task.id), ['person', 'outside']);
    assert.ok(await it.store.outbox.drain(20_000));
    const marked = it.events.filter(({ event }) => event === 'run.marked');
    assert.deepEqual(
      marked.map(({ task_id, run_id, status, data }) => [task_id, run_id, status, data]),
      [[task.id, run.id, 'outside', { why: 'a page' }]],
    );
    await it.store.close();
  });

  test(`[R10] [R401] the result of a marked subtask marks the waiting task, on ${name}`, async () => {
    const it = await world(open);
    const parent = await it.task();
    const run = await claimRun(it, parent.id);
    const child = makeSubtask(parent, `task_${'1'.repeat(26)}`);
    await delegate(it.store, makeCall(run), child, {});
    const childRun = await claimRun(it, child.id);
    await it.store.mark(makeCall(childRun), ['outside'], 'a page');
    assert.deepEqual(await readLabels(it, parent.id), ['person'], 'not before it has the result');
    await it.store.finish(makeCall(childRun), done('a summary'));
    assert.deepEqual(await readLabels(it, parent.id), ['person', 'outside']);
    await it.store.close();
  });

  test(`[R10] [R401] messages and artifacts mark their readers, on ${name}`, async () => {
    const it = await world(open);
    const [first, second] = [await it.task(), await it.task({ agent: 'coder' })];
    const claimed = await it.claim();
    const findRun = (id: string) => claimed.find(({ task }) => task.id === id)!.run;
    const message = {
      type: 'TaskProgress',
      contextId: first.context_id,
      taskId: first.id,
      inReplyTo: null,
      from: 'agent:tester',
      to: 'agent:planner',
      labels: ['agent', 'outside'] as const,
      parts: [{ kind: 'text', text: 'hi' }],
      text: 'hi',
      delivered: false,
    };
    await it.store.send({ ...message, labels: [...message.labels] }, undefined);
    await it.store.inbox({ runId: findRun(first.id).id, fence: findRun(first.id).fence }, 0);
    assert.deepEqual(await readLabels(it, first.id), ['person', 'outside']);
    const artifact = { id: `artifact_${'2'.repeat(26)}`, labels: ['secret' as const] };
    await it.store.recordArtifactRead(makeCall(findRun(second.id)), artifact);
    assert.deepEqual(await readLabels(it, second.id), ['person', 'secret']);
    await it.store.close();
  });
}
