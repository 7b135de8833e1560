// Tests selecting and rendering: which scenario, which reply, with which text.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { NormalizedRequest } from '../normalized-request.ts';
import { findNearestName } from './did-you-mean.ts';
import { readScreenplay } from './load.ts';
import { selectReply } from './select-reply.ts';
import { renderTemplate, renderValue } from './template.ts';

const request: NormalizedRequest = {
  wire: 'openai',
  model: 'rehearsal-large',
  agent: 'coder',
  system: 'You are agent:coder.\nBe brief.',
  goal: 'Build 3 sheds for bob',
  step: 1,
  lastUser: 'Goal: Build 3 sheds for bob',
  userText: 'Goal: Build 3 sheds for bob',
  results: [],
  allResults: [],
  tools: new Map([['task_finish', { name: 'task_finish', schema: {} }]]),
  toolChoice: { kind: 'auto' },
  allowsParallelCalls: true,
  maxOutputTokens: 1000,
  stopSequences: [],
  isThinkingAllowed: true,
};

function renderText(
  screenplay: string,
  changes: Partial<NormalizedRequest> = {},
): string | undefined {
  const { scenarios, problems } = readScreenplay('t.yaml', screenplay);
  assert.deepEqual(problems, []);
  const selected = selectReply(scenarios, { ...request, ...changes });
  return selected?.reply.text && renderTemplate(selected.reply.text, selected.context);
}

const withMatch = (match: string, text = 'yes') =>
  `plays:\n  - play: a\n    match: ${match}\n    answers: [{ text: '${text}' }]\n`;

test('every key of a match can match and can fail', () => {
  const rows: [fits: string, fails: string, changes?: Partial<NormalizedRequest>][] = [
    ['{ agent: coder }', '{ agent: code }'],
    ['{ agent: [planner, coder] }', '{ agent: [planner] }'],
    ['{ agent: /^co/ }', '{ agent: /^der/ }'],
    ['{ goal: /SHEDS/i }', '{ goal: /SHEDS/ }'],
    ['{ model: rehearsal-large }', '{ model: rehearsal-small }'],
    ['{ step: [1, 4] }', '{ step: 2 }'],
    ['{ system: /brief/ }', '{ system: /long/ }'],
    ['{ last_user: /^Goal/ }', '{ last_user: /^goal/ }'],
    ['{ has_tool: task.finish }', '{ has_tool: [task.finish, artifact.put] }'],
    ['{ wire: openai }', '{ wire: anthropic }'],
    ['{ last_result: /ok/ }', '{ last_result: /no/ }', { results: [{ tool: 't', text: 'ok' }] }],
    ['{ agent: coder, step: 1 }', '{ agent: coder, step: 2 }'],
  ];
  for (const [fits, fails, changes] of rows) {
    assert.equal(renderText(withMatch(fits), changes), 'yes', fits);
    assert.equal(renderText(withMatch(fails), changes), undefined, fails);
  }
  assert.equal(renderText(withMatch('{ last_result: /^$/ }')), undefined);
});

test('the first scenario that matches wins', () => {
  const screenplay = `${withMatch('{ step: 1 }', 'first')}${withMatch('{ step: 1 }', 'second').slice(7)}`;
  assert.equal(renderText(screenplay.replace('play: a', 'play: b')), 'first');
});

const sequence = `plays:
  - play: a
    match: { goal: '/(?<n>\\d+)/' }
    answers:
      - { text: 'turn {{step}}', times: '{{goal.n}}' }
      - { text: never, times: 0 }
      - { text: interrupted, when: { last_user: /stop/ } }
      - { text: once }
      - { text: end }
`;

test('replies are used in sequence, and the last one serves all later steps', () => {
  const texts = [1, 2, 3, 4, 5, 6, 99].map((step) => renderText(sequence, { step }));
  assert.deepEqual(texts, ['turn 1', 'turn 2', 'turn 3', 'once', 'end', 'end', 'end']);
  assert.equal(renderText(sequence, { step: 2, lastUser: 'please stop' }), 'interrupted');
});

test('the same request always gets the same reply', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 50 }), fc.string(), (step, lastUser) => {
      assert.equal(
        renderText(sequence, { step, lastUser }),
        renderText(sequence, { step, lastUser }),
      );
    }),
  );
});

test('templates quote the request', () => {
  const changes: Partial<NormalizedRequest> = {
    results: [
      { tool: 'task_delegate', text: '{"status":"completed","result":{"text":"[rehearsal] one"}}' },
      { tool: 'task_delegate', text: 'two' },
    ],
    allResults: [{ tool: 'person_ask', text: '{"answer":"green"}' }],
  };
  const rows: [template: string, expected: string][] = [
    ['{{agent}} {{model}} {{step}}', 'coder rehearsal-large 1'],
    ['{{goal.n}} {{goal.1}} {{goal.0}}', '3 3 3 sheds'],
    ['{{result.1}}, {{result.2}}, {{result.3|or:none}}', 'one, two, none'],
    ['{{last_result}}', 'two'],
    ['{{results}}', 'one\ntwo'],
    ['{{tool.person_ask}} {{tool.person.ask}} {{tool.nobody|or:-}}', 'green green -'],
    ['{{goal|short:5}}', 'Build…'],
    ['{ not a template }', '{ not a template }'],
  ];
  for (const [template, expected] of rows) {
    const match = "{ goal: '/(?<n>\\d+) sheds/' }";
    assert.equal(renderText(withMatch(match, template), changes), expected, template);
  }
});

test('arguments keep their types, and a number can be quoted', () => {
  const screenplay = `plays:
  - play: a
    match: { goal: '/(?<n>\\d+)/' }
    answers:
      - calls:
          - tool: x.y
            arguments:
              { a: 1, b: [true, null, '{{agent}}'], c: { d: '{{goal.n|number}}' }, e: '{{goal.n}}' }
`;
  const { scenarios, problems } = readScreenplay('t.yaml', screenplay);
  assert.deepEqual(problems, []);
  const { reply, context } = selectReply(scenarios, request)!;
  assert.equal(reply.calls[0]!.tool, 'x_y');
  assert.deepEqual(renderValue(reply.calls[0]!.arguments, context), {
    a: 1,
    b: [true, null, 'coder'],
    c: { d: 3 },
    e: '3',
  });
});

test('the nearest name is near, or undefined', () => {
  assert.equal(findNearestName('delay', ['text', 'delay_ms']), 'delay_ms');
  assert.equal(findNearestName('xyz', ['text', 'delay_ms']), undefined);
});
