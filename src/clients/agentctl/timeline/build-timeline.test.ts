// A task's timeline: everything that happened, in order, subtasks inside the call that made them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { paintNothing } from '../out.ts';
import { measureWidth } from '../show/width.ts';
import { at, id, modelCall, run, task, toolCall, wait } from '../testing/fixtures.ts';
import { teamRecord } from '../testing/team-script.ts';
import { buildTimeline, sumTotals } from './build-timeline.ts';
import type { TaskRecord } from './gather.ts';
import { formatOffset, formatTotals, renderSteps } from './render-steps.ts';

const lines = (record: TaskRecord) =>
  renderSteps(buildTimeline(record), { paint: paintNothing, columns: Number.POSITIVE_INFINITY });

test('the timeline of the team’s task', () => {
  const tools = 'it called tools; 812 tokens in, 143 out';
  const rule = 'manifest planner allows task.delegate';
  const denied = 'denied by manifest coder has no git.write: the manifest does not allow git.push';
  assert.deepEqual(lines(teamRecord()), [
    '   +0.0 s  person:ada asked planner for "Find out why the API became slow"',
    '   +0.1 s  planner started it',
    `   +0.5 s  planner called the model planner-large (rehearsal): ${tools}, $0.0012`,
    '   +1.0 s  person:ada wrote to planner: "Look at the database first"',
    `   +2.0 s  planner delegated a subtask to researcher — allowed by ${rule}, done`,
    '   +2.0 s  │  planner asked researcher for "Read the logs"',
    '   +2.2 s  │  researcher started it',
    '   +3.0 s  │  researcher’s runner crashed: the process was killed',
    '   +5.0 s  │  researcher completed: "Slow since 14:02."',
    '   +2.0 s  planner delegated a subtask to coder — done',
    '   +2.1 s  │  planner asked coder for "Look at the diff"',
    '   +2.3 s  │  coder started it',
    `   +2.5 s  │  coder called the model coder-large (rehearsal): ${tools}, $0.0012`,
    '   +3.0 s  │  coder asked a person: "May I read the schema?" — done',
    '   +4.0 s  │  person:ada answered after 1.0 s: "yes"',
    `   +4.5 s  │  coder called git.push with {"branch":"main"} — ${denied}`,
    '   +6.0 s  │  coder completed: "The index is gone."',
    `   +9.0 s  planner called the model planner-large (rehearsal): ${tools}, $0.0008`,
    '  +11.0 s  planner reported completion — done',
    '  +12.0 s  planner completed: "A query without an index."',
  ]);
});

test('the totals include the cost and that it was a rehearsal', () => {
  const totals = sumTotals(buildTimeline(teamRecord()));
  assert.deepEqual(totals, {
    tasks: 3,
    model_calls: 3,
    tool_calls: 5,
    tokens: 2_865,
    cost_microusd: 3_200,
    rehearsal: true,
  });
  assert.match(formatTotals(totals), /3 tasks, 3 model calls.*\$0\.0032; a rehearsal responded/);
});

test('failures are included', () => {
  const record: TaskRecord = {
    task: task(1, {
      status: 'failed',
      result: null,
      error: { code: 'limit', message: 'the limit of 3 steps is reached', hint: '' },
      retry_of: id('task', 9),
      after: [id('task', 8)],
    }),
    runs: [run(1)],
    waits: [
      wait(5, { kind: 'question', outcome: 'expired', opened_at: at(1), ended_at: at(61) }),
      wait(6, { kind: 'timer', status: 'open', outcome: null, ended_at: null, opened_at: at(5) }),
    ],
    modelCalls: [
      modelCall(1, {
        status: 'failed',
        provider: 'anthropic',
        error: { message: 'overloaded' },
        usage: null,
      }),
    ],
    toolCalls: [
      toolCall(2, { tool: 'deploy', arguments: {}, status: 'unknown', created_at: at(3) }),
      toolCall(3, {
        tool: 'artifact.get',
        arguments: { id: 'x' },
        status: 'failed',
        error: { message: 'not\nthere' },
        created_at: at(4),
      }),
    ],
    children: [],
  };
  const text = lines(record).join('\n');
  assert.match(text, /asked planner for .* \(retry of task_0*9; starts after task_0*8\)/);
  assert.match(text, /called the model planner-large \(anthropic\): failed overloaded/);
  assert.match(text, /called deploy with \{\} — outcome unknown/);
  assert.match(text, /read x — allowed, but failed: not there/);
  assert.match(text, /waited 1 min 0 s for a question: expired/);
  assert.match(text, /planner waits for a timer/);
  assert.match(text, /\+12\.0 s {2}planner: failed, the limit of 3 steps is reached/);
});

test('a subtask that no call made appears at its time', () => {
  const child: TaskRecord = {
    task: task(2, { parent_task_id: id('task', 1), created_at: at(5), ended_at: at(6) }),
    runs: [],
    waits: [],
    modelCalls: [],
    toolCalls: [],
    children: [],
  };
  const record: TaskRecord = {
    ...child,
    task: task(1),
    modelCalls: [modelCall(1, { created_at: at(7) })],
    children: [child],
  };
  const kinds = buildTimeline(record).map(({ kind, depth }) => `${depth}${kind}`);
  assert.deepEqual(kinds, ['0asked', '1asked', '1ended', '0model', '0ended']);
});

test('untrusted text cannot control the terminal', () => {
  const record: TaskRecord = {
    ...teamRecord(),
    task: task(1, { goal: 'x\u001b[2J\nfake line' }),
  };
  const [first] = lines({ ...record, children: [] });
  assert.match(first!, /"x\ufffd\[2J fake line"/);
});

test('lines wrap with their indent', () => {
  const options = { paint: paintNothing, columns: 60 };
  for (const line of renderSteps(buildTimeline(teamRecord()), options))
    assert.ok(measureWidth(line) <= 60, line);
  assert.equal(formatOffset(1_500), '+1.5 s');
  assert.equal(formatOffset(3_600_000), '+60 min');
});
