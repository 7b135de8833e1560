// Tests loading of screenplays: problems name the file, the line and the nearest valid name.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { formatProblem, loadScreenplays, readScreenplay } from './load.ts';

const shipped = join(import.meta.dirname, '..', 'screenplays');
const ANSWERS = 'answers: [{ text: hi }]';
const withPlay = (rest: string) => `plays:\n  - play: a\n    match: { agent: x }\n    ${rest}\n`;
const withAnswer = (rest: string) =>
  "plays:\n  - play: a\n    match: { goal: '/(?<n>\\d+)/', last_user: hi }\n" +
  `    answers:\n      - ${rest}\n`;

const INVALID: [name: string, text: string, expected: RegExp][] = [
  ['not YAML', 'plays: [', /^t\.yaml:\d+: /],
  [
    'a duplicate key',
    `plays:\n  - play: a\n    play: b\n    ${ANSWERS}\n`,
    /^t\.yaml:3: Map keys must be unique/,
  ],
  ['a list at the top', '- a\n', /^t\.yaml:1: a screenplay must be a mapping/],
  [
    'an unknown key at the top',
    'play: []\n',
    /^t\.yaml:1: unknown key "play" in a screenplay; did you mean "plays"\?/,
  ],
  ['no plays', 'plays: []\n', /^t\.yaml:1: plays must be a list/],
  [
    'an unknown key of a play',
    withPlay(`${ANSWERS}\n    macth: { agent: x }`),
    /^t\.yaml:5: unknown key "macth" in a play; did you mean "match"\?/,
  ],
  [
    'no name',
    `plays:\n  - match: { agent: x }\n    ${ANSWERS}\n`,
    /^t\.yaml:2: a play needs "play", its name/,
  ],
  ['no answers', withPlay('about: x'), /^t\.yaml:2: a play needs "answers"/],
  [
    'a play that matches everything',
    `plays:\n  - play: a\n    ${ANSWERS}\n`,
    /^t\.yaml:2: a play without "match"/,
  ],
  [
    'two plays with the same name',
    `${withPlay(ANSWERS)}  - play: a\n    match: { agent: y }\n    ${ANSWERS}\n`,
    /^t\.yaml:5: duplicate play "a"/,
  ],
  [
    'an unknown key of a match',
    `plays:\n  - play: a\n    match:\n      agnet: x\n    ${ANSWERS}\n`,
    /^t\.yaml:4: unknown key "agnet" in match; did you mean "agent"\?/,
  ],
  [
    'an invalid pattern',
    `plays:\n  - play: a\n    match: { goal: '/(/' }\n    ${ANSWERS}\n`,
    /^t\.yaml:3: goal is not a valid regular expression/,
  ],
  [
    'a pattern that keeps state',
    `plays:\n  - play: a\n    match: { goal: /x/g }\n    ${ANSWERS}\n`,
    /^t\.yaml:3: goal cannot have the flags g or y/,
  ],
  [
    'an unknown model',
    `plays:\n  - play: a\n    match: { model: rehearsal-lrage }\n    ${ANSWERS}\n`,
    /did you mean "rehearsal-large"\?/,
  ],
  [
    'an unknown wire',
    `plays:\n  - play: a\n    match: { wire: opanai }\n    ${ANSWERS}\n`,
    /^t\.yaml:3: wire cannot be "opanai"; did you mean "openai"\?/,
  ],
  [
    'a step of 0',
    `plays:\n  - play: a\n    match: { step: 0 }\n    ${ANSWERS}\n`,
    /^t\.yaml:3: step must be an integer from 1/,
  ],
  [
    'an unknown key of an answer',
    withAnswer('txt: hi'),
    /^t\.yaml:5: unknown key "txt" in an answer; did you mean "text"\?/,
  ],
  ['an empty answer', withAnswer('delay_ms: 5'), /^t\.yaml:5: an answer needs one of/],
  ['an empty text', withAnswer("text: ''"), /^t\.yaml:5: text must be a non-empty string/],
  [
    'an unknown defect',
    withAnswer('broken: cut_midstream'),
    /^t\.yaml:5: broken cannot be "cut_midstream"; did you mean "cut_mid_stream"\?/,
  ],
  ['an unknown stop reason', withAnswer('{ text: a, stop_reason: ended }'), /did you mean "end"\?/],
  [
    'a call without a tool',
    withAnswer('calls: [{ arguments: {} }]'),
    /^t\.yaml:5: a call needs "tool"/,
  ],
  [
    'an unknown key of a call',
    withAnswer('calls: [{ tool: x, args: {} }]'),
    /unknown key "args" in a call; did you mean "arguments"\?/,
  ],
  [
    'arguments that are a list',
    withAnswer('calls: [{ tool: x, arguments: [1] }]'),
    /^t\.yaml:5: arguments must be a mapping/,
  ],
  [
    'a delay below 0',
    withAnswer('{ text: a, delay_ms: -1 }'),
    /delay_ms must be an integer from 0/,
  ],
  [
    'an error without a status',
    withAnswer('error: { message: x }'),
    /^t\.yaml:5: error needs "status"/,
  ],
  [
    'an error with status 200',
    withAnswer('error: { status: 200, message: x }'),
    /must be from 400 to 599/,
  ],
  [
    'an unknown key of an error',
    withAnswer('error: { status: 500, message: x, retry: 1 }'),
    /unknown key "retry" in error; did you mean "retry_after"\?/,
  ],
  [
    'an unknown usage key',
    withAnswer('{ text: a, usage: { input: 1 } }'),
    /unknown key "input" in usage/,
  ],
  [
    'an unknown value',
    withAnswer("text: '{{gaol}}'"),
    /^t\.yaml:5: text: unknown value "gaol"; did you mean "goal"\?/,
  ],
  [
    'an unknown filter',
    withAnswer("text: '{{goal|shrot}}'"),
    /unknown filter "shrot"; did you mean "short"\?/,
  ],
  ['a filter without its argument', withAnswer("text: '{{goal|or}}'"), /or needs a default text/],
  [
    'an unknown group',
    withAnswer("text: '{{goal.count}}'"),
    /the pattern of goal captures no group "count"/,
  ],
  [
    'a group without a pattern',
    withAnswer("text: '{{last_user.1}}'"),
    /the pattern of last_user captures no group "1"/,
  ],
  [
    'an unknown value in nested arguments',
    withAnswer("calls: [{ tool: x, arguments: { a: [{ b: '{{nope}}' }] } }]"),
    /arguments: unknown value "nope"/,
  ],
  [
    'only answers with when',
    withAnswer('{ text: a, when: { step: 1 } }'),
    /at least one entry without "when"/,
  ],
];

describe('invalid screenplays', () => {
  for (const [name, text, expected] of INVALID) {
    test(name, () => {
      const { problems } = readScreenplay('t.yaml', text);
      assert.match(problems.map(formatProblem).join('\n'), expected);
    });
  }
});

test('the built-in screenplays are valid, and fallbacks come last', () => {
  const { scenarios, problems } = loadScreenplays([shipped]);
  assert.deepEqual(problems, []);
  assert.ok(scenarios.length > 15);
  assert.ok(
    scenarios.findIndex((scenario) => scenario.isFallback) >
      scenarios.findLastIndex((scenario) => !scenario.isFallback),
  );
});

test('the screenplay in the README is valid', () => {
  const readme = readFileSync(join(import.meta.dirname, '..', 'README.md'), 'utf8');
  const block = /\n( {4}plays:\n(?: {4}.*\n)+)/.exec(readme)?.[1] ?? '';
  const { scenarios, problems } = readScreenplay('README.md', block.replaceAll(/^ {4}/gm, ''));
  assert.deepEqual(problems, []);
  assert.equal(scenarios[0]?.replies.length, 3);
});

test('an own directory comes first and replaces plays with the same name', (context) => {
  const directory = mkdtempSync(join(tmpdir(), 'screenplays-'));
  context.after(() => rmSync(directory, { recursive: true }));
  const text = 'plays:\n  - play: slow\n    match: { agent: x }\n    answers: [{ text: mine }]\n';
  writeFileSync(join(directory, 'own.yaml'), text);
  const { scenarios, problems } = loadScreenplays([directory, shipped]);
  assert.deepEqual(problems, []);
  assert.equal(scenarios[0]!.file, join(directory, 'own.yaml'));
  assert.equal(scenarios.filter((scenario) => scenario.name === 'slow').length, 1);
  writeFileSync(join(directory, 'twice.yml'), text);
  const twice = loadScreenplays([directory, shipped]);
  assert.match(
    formatProblem(twice.problems[0]!),
    /twice\.yml:1: duplicate play "slow", already in own\.y/,
  );
});

test('a missing directory and a file that is too large are problems', (context) => {
  const directory = mkdtempSync(join(tmpdir(), 'screenplays-'));
  context.after(() => rmSync(directory, { recursive: true }));
  mkdirSync(join(directory, 'large'));
  writeFileSync(join(directory, 'large', 'a.yaml'), `# ${'x'.repeat(1_000_000)}\n`);
  const missing = loadScreenplays([join(directory, 'nowhere')]);
  assert.match(formatProblem(missing.problems[0]!), /nowhere:0: cannot be read: ENOENT/);
  const large = loadScreenplays([join(directory, 'large')]);
  assert.match(formatProblem(large.problems[0]!), /the maximum is 1000000/);
});
