// Why a ready task does not start: read at the second poll, reported once, with what to type next.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TreeNode } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { RuntimeClient } from '../runtime.ts';
import { agent, at, run, status, task } from '../testing/fixtures.ts';
import { makeQueueReasons } from './queue-reason.ts';

const readyTree = (more: Partial<TreeNode> = {}): TreeNode => ({
  task: task(1, { status: 'ready', assigned_to: 'coder', updated_at: at(1), ended_at: null }),
  runs: [run(1, { status: 'queued', activations: 0 })],
  waits: [],
  children: [],
  ...more,
});
const idle = { ready: 1, working: 0, waiting: 0, ended: 0 };

function makeRuntime(halted = status(), coder = agent('coder', { tasks: idle })) {
  const facts = { status: halted, agent: coder, nowMs: 0, requests: 0, isDown: false };
  const ask = async (_: string, route: string) => {
    facts.requests++;
    if (facts.isDown) throw fault('unavailable', 'agentd is being started');
    return route === 'status' ? facts.status : { agent: facts.agent, manifest: {} };
  };
  const turns = makeQueueReasons({ call: ask } as unknown as RuntimeClient, () => facts.nowMs);
  const poll = async (tree = readyTree()) => (await turns.check(tree)).map(({ text }) => text);
  return { facts, poll };
}

test('each reason is reported at the second poll and not again', async () => {
  const busy = { ...idle, working: 2 };
  for (const [halted, coder, words] of [
    [status({ halted: true, halt_reason: 'fire' }), agent('coder'), /\(fire\)\n.*agentctl unhalt$/],
    [status(), agent('coder', { status: 'paused' }), /is paused\n.*agentctl resume coder$/],
    [status(), agent('coder', { status: 'stopped' }), /is stopped\n.*agentctl resume coder$/],
    [
      status(),
      agent('coder', { status: 'removed' }),
      /is removed\n.*agentctl run AGENT --task task_/,
    ],
    [
      status(),
      agent('coder', { replicas: 2, tasks: busy }),
      /busy with 2 other tasks, its maximum/,
    ],
  ] as const) {
    const { facts, poll } = makeRuntime(halted, coder);
    assert.deepEqual(await poll(), []);
    assert.equal(facts.requests, 0, 'most begin before a second poll');
    const [text = ''] = await poll();
    assert.match(text, words);
    assert.match(text, /^coder: not started, /);
    assert.deepEqual(await poll(), []);
  }
});

test('a new reason is reported, and subtasks have reasons too', async () => {
  const { facts, poll } = makeRuntime(status(), agent('coder', { status: 'paused' }));
  const working = task(2, { status: 'working', assigned_to: 'planner', ended_at: null });
  const tree = readyTree({ task: working, children: [readyTree()] });
  await poll(tree);
  assert.match((await poll(tree))[0]!, /is paused/);
  facts.agent = agent('coder', { tasks: { ...idle, working: 1 } });
  assert.match((await poll(tree))[0]!, /1 other task,/);
});

test('nothing is reported for a task that starts, may start at any moment, or cannot be read', async () => {
  const { facts, poll } = makeRuntime();
  await poll();
  assert.deepEqual(await poll(), []);
  facts.nowMs = 1_999;
  assert.deepEqual(await poll(), []);
  facts.nowMs = 2_000;
  facts.isDown = true;
  assert.deepEqual(await poll(), []);
  facts.isDown = false;
  assert.match((await poll())[0]!, /it is queued: 1 run is live in this runtime\n/);
  facts.status = status({ queue: { for_agents: [], for_machine: 3, runs_live_max: 1 } });
  assert.match((await poll())[0]!, /1 run is live in this runtime, its maximum \(agentd\.runs/);
  const started = makeRuntime();
  const tree = readyTree({ runs: [run(1, { status: 'queued', activations: 1 })] });
  await started.poll(tree);
  started.facts.nowMs = 9_000;
  assert.deepEqual(await started.poll(tree), []);
  const other = makeRuntime(status(), agent('coder', { status: 'paused' }));
  const at2 = task(1, { status: 'ready', assigned_to: 'coder', updated_at: at(2), ended_at: null });
  await other.poll();
  assert.deepEqual(await other.poll(readyTree({ task: at2 })), [], 'it ran between the polls');
  const done = task(1, { status: 'completed', assigned_to: 'coder' });
  assert.deepEqual(await other.poll(readyTree({ task: done })), []);
});
