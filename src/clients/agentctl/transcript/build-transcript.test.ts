// A task's transcript: what was said in order, subtasks inside the call that made them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { paintNothing } from '../out.ts';
import { at, modelCall, task, toolCall } from '../testing/fixtures.ts';
import { teamRecord } from '../testing/team-script.ts';
import type { TaskRecord } from '../timeline/gather.ts';
import { buildTranscript, type ReadCallBody } from './build-transcript.ts';
import { LINES_SHOWN_MAX, renderTranscript } from './render-transcript.ts';

const says =
  (text: string): ReadCallBody =>
  async () => ({ messages: [], response: { parts: [{ type: 'text', text }] } });
const render = async (record: TaskRecord, readBody: ReadCallBody, full = false) =>
  renderTranscript(await buildTranscript(record, readBody), {
    paint: paintNothing,
    columns: 100,
    full,
  });
const alone = (more: Partial<TaskRecord>): TaskRecord => ({
  task: task(1, { ended_at: null, status: 'working' }),
  runs: [],
  waits: [],
  modelCalls: [],
  toolCalls: [],
  children: [],
  ...more,
});

test('the transcript of the team’s task', async () => {
  const lines = await render(teamRecord(), says('I see.'));
  assert.deepEqual(lines, [
    'person:ada asks',
    '  Find out why the API became slow',
    '',
    'planner',
    '  I see.',
    '',
    'person:ada writes',
    '  Look at the database first',
    '',
    'planner calls task.delegate',
    '  agent: researcher',
    '  goal: Read the logs',
    '│',
    '│  planner asks',
    '│    Read the logs',
    '│',
    '│  researcher completed',
    '│    Slow since 14:02.',
    '',
    'planner calls task.delegate',
    '  agent: coder',
    '  goal: Look at the diff',
    '│',
    '│  planner asks',
    '│    Look at the diff',
    '│',
    '│  coder',
    '│    I see.',
    '│',
    '│  coder calls person.ask',
    '│    question: May I read the schema?',
    '│',
    '│  person:ada answers',
    '│    yes',
    '│',
    '│  coder calls git.push',
    '│    branch: main',
    '│',
    '│  git.push of coder',
    '│    denied: the manifest does not allow git.push',
    '│',
    '│  coder completed',
    '│    The index is gone.',
    '',
    'planner',
    '  I see.',
    '',
    'planner completed',
    '  A query without an index.',
  ]);
});

test('long texts are cut unless --full is given, and control characters are replaced', async () => {
  const text = ['\u001b[2Jone', ...Array.from({ length: 30 }, (_, i) => `line ${i}`)].join('\n');
  const record = alone({ modelCalls: [modelCall(1)] });
  const short = await render(record, says(text));
  assert.ok(short.includes('  \ufffd[2Jone'));
  assert.equal(short.at(-1), `  … ${31 - LINES_SHOWN_MAX} more lines (--full)`);
  assert.equal((await render(record, says(text), true)).at(-1), '  line 29');
});

test('output of several lines stands as it is', async () => {
  const call = toolCall(1, { tool: 'shell.exec', arguments: { command: 'ls' } });
  const result = { stdout: 'a\nb\n', exit_code: 0 };
  const lines = await render(alone({ toolCalls: [{ ...call, result }] }), says(''));
  assert.deepEqual(lines.slice(-4), ['shell.exec answers', '  a', '  b', '  exit_code: 0']);
});

test('a failed model call says why', async () => {
  const failed = modelCall(1, { status: 'failed', error: { message: 'overloaded' } });
  const lines = await render(alone({ modelCalls: [failed] }), says(''));
  assert.match(lines.at(-1)!, /no response from the model planner-large \(failed\): overloaded/);
});

test('a program’s calls and their results come from its messages', async () => {
  const program = alone({
    task: task(1, { program: { argv: ['claude'] }, ended_at: null, status: 'working' }),
    modelCalls: [modelCall(1, { created_at: at(1), ended_at: at(2) })],
  });
  const content = [{ type: 'tool_result', content: 'README.md' }];
  const body = {
    messages: [
      { role: 'assistant', content: 'x' },
      { role: 'user', content },
    ],
    response: { content: [{ type: 'tool_use', name: 'Bash', input: { command: 'ls' } }] },
  };
  const entries = await buildTranscript(program, async () => body);
  assert.deepEqual(
    entries.map(({ from, kind, text }) => [from, kind, text]),
    [
      ['person:ada', 'goal', 'Find out why the API became slow'],
      ['planner', 'result', 'README.md'],
      ['planner', 'call', '{"command":"ls"}'],
    ],
  );
});
