// Reading screenplays: what is wrong is named with file, line and the nearest right word.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { formatProblem, loadScreenplays, readScreenplay } from './load.ts';

const shipped = join(import.meta.dirname, '..', 'screenplays');
const answers = 'answers: [{ text: hi }]';
const play = (rest: string) => `plays:\n  - play: a\n    match: { agent: x }\n    ${rest}\n`;
const answer = (rest: string) =>
  "plays:\n  - play: a\n    match: { goal: '/(?<n>\\d+)/', last_user: hi }\n" +
  `    answers:\n      - ${rest}\n`;

const INVALID: [name: string, text: string, expected: RegExp][] = [
  ['not YAML', 'plays: [', /^t\.yaml:\d+: /],
  [
    'one key twice',
    `plays:\n  - play: a\n    play: b\n    ${answers}\n`,
    /^t\.yaml:3: Map keys must be unique/,
  ],
  ['a list at the top', '- a\n', /^t\.yaml:1: a screenplay must be a mapping/],
  [
    'another key at the top',
    'play: []\n',
    /^t\.yaml:1: a screenplay has no "play"; did you mean "plays"\?/,
  ],
  ['no plays', 'plays: []\n', /^t\.yaml:1: plays must be a list/],
  [
    'an unknown key of a play',
    play(`${answers}\n    macth: { agent: x }`),
    /^t\.yaml:5: a play has no "macth"; did you mean "match"\?/,
  ],
  [
    'no name',
    `plays:\n  - match: { agent: x }\n    ${answers}\n`,
    /^t\.yaml:2: a play needs "play", its name/,
  ],
  ['no answers', play('about: x'), /^t\.yaml:2: a play needs "answers"/],
  [
    'a play that takes everything',
    `plays:\n  - play: a\n    ${answers}\n`,
    /^t\.yaml:2: a play without "match"/,
  ],
  [
    'two plays of one name',
    `${play(answers)}  - play: a\n    match: { agent: y }\n    ${answers}\n`,
    /^t\.yaml:5: two plays are called "a"/,
  ],
  [
    'an unknown key of a match',
    `plays:\n  - play: a\n    match:\n      agnet: x\n    ${answers}\n`,
    /^t\.yaml:4: match has no "agnet"; did you mean "agent"\?/,
  ],
  [
    'a wrong pattern',
    `plays:\n  - play: a\n    match: { goal: '/(/' }\n    ${answers}\n`,
    /^t\.yaml:3: goal is not a valid regular expression/,
  ],
  [
    'a pattern that remembers',
    `plays:\n  - play: a\n    match: { goal: /x/g }\n    ${answers}\n`,
    /^t\.yaml:3: goal cannot have the flags g or y/,
  ],
  [
    'an unknown model',
    `plays:\n  - play: a\n    match: { model: rehearsal-lrage }\n    ${answers}\n`,
    /did you mean "rehearsal-large"\?/,
  ],
  [
    'an unknown wire',
    `plays:\n  - play: a\n    match: { wire: opanai }\n    ${answers}\n`,
    /^t\.yaml:3: wire cannot be "opanai"; did you mean "openai"\?/,
  ],
  [
    'a step of 0',
    `plays:\n  - play: a\n    match: { step: 0 }\n    ${answers}\n`,
    /^t\.yaml:3: step must be a whole number from 1/,
  ],
  [
    'an unknown key of an answer',
    answer('txt: hi'),
    /^t\.yaml:5: an answer has no "txt"; did you mean "text"\?/,
  ],
  ['an empty answer', answer('delay_ms: 5'), /^t\.yaml:5: an answer needs one of/],
  ['an empty text', answer("text: ''"), /^t\.yaml:5: text must be a text that is not empty/],
  [
    'an unknown way to break',
    answer('broken: cut_midstream'),
    /^t\.yaml:5: broken cannot be "cut_midstream"; did you mean "cut_mid_stream"\?/,
  ],
  ['an unknown reason', answer('{ text: a, stop_reason: ended }'), /did you mean "end"\?/],
  [
    'a call without a tool',
    answer('calls: [{ arguments: {} }]'),
    /^t\.yaml:5: a call needs "tool"/,
  ],
  [
    'an unknown key of a call',
    answer('calls: [{ tool: x, args: {} }]'),
    /a call has no "args"; did you mean "arguments"\?/,
  ],
  [
    'arguments that are a list',
    answer('calls: [{ tool: x, arguments: [1] }]'),
    /^t\.yaml:5: arguments must be a mapping/,
  ],
  [
    'a delay below 0',
    answer('{ text: a, delay_ms: -1 }'),
    /delay_ms must be a whole number from 0/,
  ],
  [
    'an error without a status',
    answer('error: { message: x }'),
    /^t\.yaml:5: error needs "status"/,
  ],
  [
    'an error that is none',
    answer('error: { status: 200, message: x }'),
    /must be from 400 to 599/,
  ],
  [
    'an unknown key of an error',
    answer('error: { status: 500, message: x, retry: 1 }'),
    /error has no "retry"; did you mean "retry_after"\?/,
  ],
  ['an unknown count', answer('{ text: a, usage: { input: 1 } }'), /usage has no "input"/],
  [
    'an unknown value',
    answer("text: '{{gaol}}'"),
    /^t\.yaml:5: text: no value is called "gaol"; did you mean "goal"\?/,
  ],
  [
    'an unknown filter',
    answer("text: '{{goal|shrot}}'"),
    /no filter is called "shrot"; did you mean "short"\?/,
  ],
  ['a filter without its word', answer("text: '{{goal|or}}'"), /or needs the text to use instead/],
  [
    'a group that is not there',
    answer("text: '{{goal.count}}'"),
    /the pattern of goal captures no group "count"/,
  ],
  [
    'a group of no pattern',
    answer("text: '{{last_user.1}}'"),
    /the pattern of last_user captures no group "1"/,
  ],
  [
    'an unknown value deep inside',
    answer("calls: [{ tool: x, arguments: { a: [{ b: '{{nope}}' }] } }]"),
    /arguments: no value is called "nope"/,
  ],
  [
    'only answers with when',
    answer('{ text: a, when: { step: 1 } }'),
    /at least one without "when"/,
  ],
];

describe('screenplays that are wrong', () => {
  for (const [name, text, expected] of INVALID) {
    test(name, () => {
      const { problems } = readScreenplay('t.yaml', text);
      assert.match(problems.map(formatProblem).join('\n'), expected);
    });
  }
});

test('the screenplays that ship are right, and every play can be told by its name', () => {
  const { scenarios, problems } = loadScreenplays([shipped]);
  assert.deepEqual(problems, []);
  assert.ok(scenarios.length > 15);
  assert.ok(
    scenarios.findIndex((scenario) => scenario.isFallback) >
      scenarios.findLastIndex((scenario) => !scenario.isFallback),
  );
});

test('the screenplay in the README is right', () => {
  const readme = readFileSync(join(import.meta.dirname, '..', 'README.md'), 'utf8');
  const block = /\n( {4}plays:\n(?: {4}.*\n)+)/.exec(readme)?.[1] ?? '';
  const { scenarios, problems } = readScreenplay('README.md', block.replaceAll(/^ {4}/gm, ''));
  assert.deepEqual(problems, []);
  assert.equal(scenarios[0]?.replies.length, 3);
});

test('a directory of one’s own stands first and replaces plays of the same name', (context) => {
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
    /twice\.yml:1: "slow" is already a play of own\.y/,
  );
});

test('a directory that is missing, and a file that is too large, are problems', (context) => {
  const directory = mkdtempSync(join(tmpdir(), 'screenplays-'));
  context.after(() => rmSync(directory, { recursive: true }));
  mkdirSync(join(directory, 'large'));
  writeFileSync(join(directory, 'large', 'a.yaml'), `# ${'x'.repeat(1_000_000)}\n`);
  const missing = loadScreenplays([join(directory, 'nowhere')]);
  assert.match(formatProblem(missing.problems[0]!), /nowhere:0: cannot be read: ENOENT/);
  const large = loadScreenplays([join(directory, 'large')]);
  assert.match(formatProblem(large.problems[0]!), /a screenplay has at most 1000000/);
});
