// Why a ready task does not begin: asked at the second look, told once, with what to type next.
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

function world(halted = status(), coder = agent('coder', { tasks: idle })) {
  const facts = { status: halted, agent: coder, nowMs: 0, asked: 0, isAway: false };
  const ask = async (_: string, route: string) => {
    facts.asked++;
    if (facts.isAway) throw fault('unavailable', 'agentd is being started');
    return route === 'status' ? facts.status : { agent: facts.agent, manifest: {} };
  };
  const turns = makeQueueReasons({ call: ask } as unknown as RuntimeClient, () => facts.nowMs);
  const look = async (tree = readyTree()) => (await turns.check(tree)).map(({ text }) => text);
  return { facts, look };
}

test('each reason is said at the second look and not again', async () => {
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
    const { facts, look } = world(halted, coder);
    assert.deepEqual(await look(), []);
    assert.equal(facts.asked, 0, 'most begin before a second look');
    const [text = ''] = await look();
    assert.match(text, words);
    assert.match(text, /^coder: not started, /);
    assert.deepEqual(await look(), []);
  }
});

test('another reason is said in its turn, and parts of a tree have reasons too', async () => {
  const { facts, look } = world(status(), agent('coder', { status: 'paused' }));
  const working = task(2, { status: 'working', assigned_to: 'planner', ended_at: null });
  const tree = readyTree({ task: working, children: [readyTree()] });
  await look(tree);
  assert.match((await look(tree))[0]!, /is paused/);
  facts.agent = agent('coder', { tasks: { ...idle, working: 1 } });
  assert.match((await look(tree))[0]!, /1 other task,/);
});

test('nothing is said of what begins, may begin at any moment, or cannot be asked', async () => {
  const { facts, look } = world();
  await look();
  assert.deepEqual(await look(), []);
  facts.nowMs = 1_999;
  assert.deepEqual(await look(), []);
  facts.nowMs = 2_000;
  facts.isAway = true;
  assert.deepEqual(await look(), []);
  facts.isAway = false;
  assert.match((await look())[0]!, /it is queued: 1 run is live/);
  const begun = world();
  const tree = readyTree({ runs: [run(1, { status: 'queued', activations: 1 })] });
  await begun.look(tree);
  begun.facts.nowMs = 9_000;
  assert.deepEqual(await begun.look(tree), []);
  const other = world(status(), agent('coder', { status: 'paused' }));
  const at2 = task(1, { status: 'ready', assigned_to: 'coder', updated_at: at(2), ended_at: null });
  await other.look();
  assert.deepEqual(await other.look(readyTree({ task: at2 })), [], 'it was taken up in between');
  const done = task(1, { status: 'completed', assigned_to: 'coder' });
  assert.deepEqual(await other.look(readyTree({ task: done })), []);
});
