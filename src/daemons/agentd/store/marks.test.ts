// Marks: whatever brought outside text in, the task is marked, once, and the mark goes on with
// results, messages and artifacts. On both databases.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callOf, DATABASES, done, type StoreWorld, world } from './testing.ts';

const labelsOf = async ({ store }: StoreWorld, id: string): Promise<string[]> =>
  JSON.parse((await store.taskRow(id)).labels) as string[];
const heldRun = async (it: StoreWorld, taskId: string) =>
  (await it.claim()).find((one) => one.task.id === taskId)!.run;

for (const [name, open] of Object.entries(DATABASES)) {
  test(`[R10] [R401] a mark grows, is told once, and plain provenance marks nobody, on ${name}`, async () => {
    const it = await world(open);
    const task = await it.task();
    const run = await heldRun(it, task.id);
    assert.deepEqual(await it.store.mark(callOf(run), ['tool', 'agent'], 'a tool'), []);
    assert.deepEqual(await labelsOf(it, task.id), ['person']);
    assert.deepEqual(await it.store.mark(callOf(run), ['outside', 'tool'], 'a page'), ['outside']);
    assert.deepEqual(await it.store.mark(callOf(run), ['outside'], 'another page'), []);
    assert.deepEqual(await labelsOf(it, task.id), ['person', 'outside']);
    assert.ok(await it.store.outbox.drain(20_000));
    const told = it.events.filter(({ event }) => event === 'run.marked');
    assert.deepEqual(
      told.map(({ task_id, run_id, status, data }) => [task_id, run_id, status, data]),
      [[task.id, run.id, 'outside', { why: 'a page' }]],
    );
    await it.store.close();
  });

  test(`[R10] [R401] the result of a marked child marks whoever waits for it, on ${name}`, async () => {
    const it = await world(open);
    const parent = await it.task();
    const run = await heldRun(it, parent.id);
    const child = {
      id: `task_${'1'.repeat(26)}`,
      parent,
      contextId: parent.context_id,
      goal: 'read',
      createdBy: 'agent:planner',
      agent: 'coder',
      priority: 0,
      inputs: [],
      limits: {},
      delegation: undefined,
      after: [],
      deadlineMs: null,
      retryOf: null,
      labels: ['agent'],
    };
    await it.store.delegate(callOf(run), child, {}, 9);
    const childRun = await heldRun(it, child.id);
    await it.store.mark(callOf(childRun), ['outside'], 'a page');
    assert.deepEqual(await labelsOf(it, parent.id), ['person'], 'not before it has the result');
    await it.store.finish(callOf(childRun), done('a summary'));
    assert.deepEqual(await labelsOf(it, parent.id), ['person', 'outside']);
    await it.store.close();
  });

  test(`[R10] [R401] messages and artifacts mark who reads them, on ${name}`, async () => {
    const it = await world(open);
    const [one, two] = [await it.task(), await it.task({ agent: 'coder' })];
    const claimed = await it.claim();
    const runOf = (id: string) => claimed.find(({ task }) => task.id === id)!.run;
    const message = {
      type: 'TaskProgress',
      contextId: one.context_id,
      taskId: one.id,
      inReplyTo: null,
      from: 'agent:tester',
      to: 'agent:planner',
      labels: ['agent', 'outside'] as const,
      parts: [{ kind: 'text', text: 'hi' }],
      text: 'hi',
      delivered: false,
    };
    await it.store.send({ ...message, labels: [...message.labels] }, undefined);
    await it.store.inbox({ runId: runOf(one.id).id, fence: runOf(one.id).fence }, 0);
    assert.deepEqual(await labelsOf(it, one.id), ['person', 'outside']);
    const artifact = { id: `artifact_${'2'.repeat(26)}`, labels: ['secret' as const] };
    await it.store.noteRead(callOf(runOf(two.id)), artifact);
    assert.deepEqual(await labelsOf(it, two.id), ['person', 'secret']);
    await it.store.close();
  });
}
