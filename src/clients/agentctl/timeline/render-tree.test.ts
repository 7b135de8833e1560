// The watched tree: a line per task and call, truncated to the terminal.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { paintNothing } from '../out.ts';
import { measureWidth } from '../show/width.ts';
import { at, id, modelCall, task, toolCall, wait } from '../testing/fixtures.ts';
import { teamTree } from '../testing/team.ts';
import { teamRecord } from '../testing/team-script.ts';
import type { TaskRecord } from './gather.ts';
import { renderTree } from './render-tree.ts';

const options = {
  nowMs: Date.parse(at(20)),
  columns: 200,
  rows: 50,
  paint: paintNothing,
};

test('tasks, model calls and tool calls; a delegation and its subtask are one line', () => {
  const denied = 'the manifest does not allow git.push';
  assert.deepEqual(renderTree(teamRecord(), options), [
    '✓ planner  completed · 12 s · $0.0020  Find out why the API became slow',
    '├─ ✓ model planner-large (rehearsal)  812+143 tokens  $0.0012',
    '├─ ✓ researcher  completed · 3.0 s  Read the logs',
    '├─ ✓ coder  completed · 3.9 s · $0.0012  Look at the diff',
    '│  ├─ ✓ model coder-large (rehearsal)  812+143 tokens  $0.0012',
    '│  ├─ ✓ person.ask  asked a person: "May I read the schema?"',
    `│  └─ ✗ git.push  called git.push with {"branch":"main"}  ${denied}`,
    '├─ ✓ model planner-large (rehearsal)  812+143 tokens  $0.0008',
    '└─ ✓ task.finish  reported completion',
  ]);
});

test('an open question says how to answer it', () => {
  const chapter: TaskRecord = {
    task: task(1, { status: 'waiting', reason: "a person's answer", ended_at: null }),
    runs: [],
    waits: [
      wait(7, { kind: 'question', status: 'open', call_id: id('call', 7), question: 'Go on?' }),
    ],
    modelCalls: [],
    toolCalls: [
      toolCall(7, { tool: 'person.ask', arguments: { question: 'Go on?' }, status: 'waiting' }),
    ],
    children: [],
  };
  assert.deepEqual(renderTree(chapter, options), [
    "◌ planner  waiting (a person's answer) · 20 s  Find out why the API became slow",
    `└─ ◌ person.ask  asked a person: "Go on?"  → agentctl answer ${id('wait', 7)} "…"`,
  ]);
});

test('a call that needs approval says where, also when the line is truncated', () => {
  const question = id('approval', 3);
  const waits = [wait(7, { kind: 'approval', status: 'open', call_id: id('call', 7), question })];
  const chapter: TaskRecord = {
    task: task(1, { status: 'waiting', reason: 'waiting for an approval', ended_at: null }),
    runs: [],
    waits,
    modelCalls: [],
    toolCalls: [
      toolCall(7, { tool: 'file.write', arguments: { text: 'a'.repeat(200) }, status: 'waiting' }),
    ],
    children: [],
  };
  const line = renderTree(chapter, { ...options, columns: 80 })[1];
  assert.ok(line?.startsWith(`└─ ◌ file.write  → agentctl approvals ${question}  `));
});

test('a model that does not respond is one line, with what to do, until the task goes on', () => {
  const error = { message: 'the provider local could not be reached' };
  const failed = (attempt: number) =>
    modelCall(11, {
      attempt,
      model: 'default',
      provider: 'local',
      status: 'failed',
      usage: null,
      cost_microusd: 0,
      created_at: at(attempt),
      error,
    });
  const chapter = (more: Partial<TaskRecord>): TaskRecord => ({
    task: task(1, { status: 'working', ended_at: null }),
    runs: [],
    waits: [],
    toolCalls: [],
    children: [],
    modelCalls: [failed(1), failed(2), failed(3)],
    ...more,
  });
  const line = '└─ ✗ model default  attempt 3  the provider local could not be reached';
  assert.deepEqual(renderTree(chapter({}), options).slice(1), [
    line,
    '   └─ ◌ retrying; see which models are available: agentctl model list',
  ]);
  const ended = chapter({ task: task(1, { status: 'failed' }) });
  assert.deepEqual(renderTree(ended, options).slice(1), [line], 'no retry after the end');
  const answered = { ...failed(4), status: 'completed' as const, error: null };
  const goesOn = renderTree(chapter({ modelCalls: [failed(3), answered] }), options);
  assert.deepEqual(goesOn.slice(1), ['└─ ✓ model default  attempt 4']);
});

test('on a short terminal the calls of ended tasks are dropped first, then the oldest lines', () => {
  const tree = teamTree();
  const working = teamRecord({
    ...tree,
    task: { ...tree.task, status: 'working', ended_at: null },
  });
  const short = renderTree(working, { ...options, rows: 6 });
  assert.equal(short.length, 6);
  assert.ok(!short.some((line) => line.includes('git.push')));
  const shorter = renderTree(working, { ...options, rows: 4 });
  assert.equal(shorter.length, 4);
  assert.equal(shorter[0], '… 3 lines above');
});

test('no line is wider than the terminal', () => {
  for (const columns of [20, 40, 80])
    for (const line of renderTree(teamRecord(), { ...options, columns }))
      assert.ok(measureWidth(line) <= columns, `${columns}: ${line}`);
});
