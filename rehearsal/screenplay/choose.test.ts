// Choosing and filling in: which play, which answer, with which words.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Scene } from '../scene.ts';
import { choose } from './choose.ts';
import { readScreenplay } from './load.ts';
import { findNearest } from './nearest.ts';
import { fillTemplate, fillValue } from './template.ts';

const scene: Scene = {
  wire: 'openai',
  model: 'rehearsal-large',
  agent: 'coder',
  goal: 'Build 3 sheds for bob',
  step: 1,
  lastUser: 'Goal: Build 3 sheds for bob',
  results: [],
  allResults: [],
  tools: new Map([['task_finish', { name: 'task_finish', schema: {} }]]),
  toolChoice: { kind: 'auto' },
  allowsParallelCalls: true,
  maxOutputTokens: 1000,
  stopSequences: [],
  mayThink: true,
};

function say(screenplay: string, changes: Partial<Scene> = {}): string | undefined {
  const { plays, problems } = readScreenplay('t.yaml', screenplay);
  assert.deepEqual(problems, []);
  const chosen = choose(plays, { ...scene, ...changes });
  return chosen?.answer.text && fillTemplate(chosen.answer.text, chosen.cast);
}

const withMatch = (match: string, text = 'yes') =>
  `plays:\n  - play: a\n    match: ${match}\n    answers: [{ text: '${text}' }]\n`;

test('every key of a match can fit and can fail', () => {
  const rows: [fits: string, fails: string, changes?: Partial<Scene>][] = [
    ['{ agent: coder }', '{ agent: code }'],
    ['{ agent: [planner, coder] }', '{ agent: [planner] }'],
    ['{ agent: /^co/ }', '{ agent: /^der/ }'],
    ['{ goal: /SHEDS/i }', '{ goal: /SHEDS/ }'],
    ['{ model: rehearsal-large }', '{ model: rehearsal-small }'],
    ['{ step: [1, 4] }', '{ step: 2 }'],
    ['{ last_user: /^Goal/ }', '{ last_user: /^goal/ }'],
    ['{ has_tool: task.finish }', '{ has_tool: [task.finish, artifact.put] }'],
    ['{ wire: openai }', '{ wire: anthropic }'],
    ['{ last_result: /ok/ }', '{ last_result: /no/ }', { results: [{ tool: 't', text: 'ok' }] }],
    ['{ agent: coder, step: 1 }', '{ agent: coder, step: 2 }'],
  ];
  for (const [fits, fails, changes] of rows) {
    assert.equal(say(withMatch(fits), changes), 'yes', fits);
    assert.equal(say(withMatch(fails), changes), undefined, fails);
  }
  assert.equal(say(withMatch('{ last_result: /^$/ }')), undefined);
});

test('the first play that fits wins, and fallbacks stand last when they are loaded', () => {
  const two = `${withMatch('{ step: 1 }', 'first')}${withMatch('{ step: 1 }', 'second').slice(7)}`;
  assert.equal(say(two.replace('play: a', 'play: b')), 'first');
});

const turns = `plays:
  - play: a
    match: { goal: '/(?<n>\\d+)/' }
    answers:
      - { text: 'turn {{step}}', times: '{{goal.n}}' }
      - { text: never, times: 0 }
      - { text: interrupted, when: { last_user: /stop/ } }
      - { text: once }
      - { text: end }
`;

test('answers take their turns, and the last one serves all that follow', () => {
  const said = [1, 2, 3, 4, 5, 6, 99].map((step) => say(turns, { step }));
  assert.deepEqual(said, ['turn 1', 'turn 2', 'turn 3', 'once', 'end', 'end', 'end']);
  assert.equal(say(turns, { step: 2, lastUser: 'please stop' }), 'interrupted');
});

test('the same scene always gives the same answer', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 50 }), fc.string(), (step, lastUser) => {
      assert.equal(say(turns, { step, lastUser }), say(turns, { step, lastUser }));
    }),
  );
});

test('templates quote the scene', () => {
  const changes: Partial<Scene> = {
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
    assert.equal(say(withMatch(match, template), changes), expected, template);
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
  const { plays, problems } = readScreenplay('t.yaml', screenplay);
  assert.deepEqual(problems, []);
  const { answer, cast } = choose(plays, scene)!;
  assert.equal(answer.calls[0]!.tool, 'x_y');
  assert.deepEqual(fillValue(answer.calls[0]!.arguments, cast), {
    a: 1,
    b: [true, null, 'coder'],
    c: { d: 3 },
    e: '3',
  });
});

test('the nearest word is near, or there is none', () => {
  assert.equal(findNearest('delay', ['text', 'delay_ms']), 'delay_ms');
  assert.equal(findNearest('xyz', ['text', 'delay_ms']), undefined);
});
