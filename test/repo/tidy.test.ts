// The tidy check accepts this tree and reports each breach of the style rules.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Files, makeTree, runTool } from './fixture.ts';

const head = '// Owns a thing.';
const long = (count: number): string[] => [head, ...Array(count - 1).fill('export {};')];
/** Joined at run time, so that this file does not contain what it forbids. */
const glue = (...parts: string[]): string => parts.join('');

const wrong: Record<string, { files: Files; says: RegExp }> = {
  'no header': {
    files: { 'src/platform/a.ts': 'export const a = 1;\n' },
    says: /src\/platform\/a\.ts:1: starts without a comment/,
  },
  'a line too wide': {
    files: { 'src/platform/a.ts': [head, `// ${'x'.repeat(98)}`] },
    says: /a\.ts:2: 101 columns/,
  },
  'a file too long': {
    files: { 'src/platform/a.ts': long(601) },
    says: /601 lines: split it .* \(at most 600\)/,
  },
  'a name in camel case': {
    files: { 'src/platform/myClock.ts': [head] },
    says: /'myClock\.ts' is not kebab-case/,
  },
  'a folder without a subject': {
    files: { 'src/platform/utils/a.ts': [head] },
    says: /'utils' says nothing/,
  },
  'a file without a subject': {
    files: { 'src/platform/helpers.test.ts': [head] },
    says: /'helpers\.test\.ts' says nothing/,
  },
  'the environment read in a daemon': {
    files: { 'src/platform/a.ts': [head, 'export const a = process.env.HOME;'] },
    says: /a\.ts:2: reads the environment/,
  },
  'the environment read indirectly': {
    files: { 'src/platform/a.ts': [head, "import { env } from 'node:process';", 'env;'] },
    says: /a\.ts:2: reads the environment/,
  },
  'the type any': {
    files: { 'src/platform/a.ts': [head, 'export const a = {} as any;'] },
    says: /a\.ts:2: the type 'any'/,
  },
  'a type name in two files': {
    files: {
      'src/platform/a.ts': [head, 'export type Thing = 1;'],
      'src/wire/b.ts': [head, 'export type Thing = 2;'],
    },
    says: /src\/wire\/b\.ts:2: the type Thing is also declared in src\/platform\/a\.ts/,
  },
  'an object spread into an object': {
    files: { 'src/platform/a.ts': [head, 'export const a = { ...{ b: 1 }, c: 2 };'] },
    says: /a\.ts:2: a literal is spread into a literal/,
  },
  'an array spread into a call': {
    files: { 'src/platform/a.ts': [head, 'export const a = Math.max(...[1, 2], 3);'] },
    says: /a\.ts:2: a literal is spread into a literal/,
  },
  'a comment that opens with a question word': {
    files: { 'src/platform/a.ts': [head, '', '/** Whether it is one. */', 'export const a = 1;'] },
    says: /a\.ts:3: a comment opens with "Whether"/,
  },
  'a block comment that opens with a question word': {
    files: { 'native/a.c': [head, '/*', ' * What it is.', ' */'] },
    says: /a\.c:3: a comment opens with "What"/,
  },
  'unfinished work': {
    files: { 'docs/page.md': [glue('TO', 'DO: write this')] },
    says: /docs\/page\.md:1: 'TO.O': unfinished/,
  },
  'a path of one machine': {
    files: { 'docs/page.md': ['fine', glue('see /wo', 'rk/main/x')] },
    says: /docs\/page\.md:2: .*a path of one machine/,
  },
  'the host of a registry': {
    files: { 'package-lock.json': [glue('"https://registry', '.npmjs.org/a.tgz"')] },
    says: /the host of a package registry/,
  },
  'a daemon without its parts': {
    files: { 'src/daemons/toold/rules.ts': [head] },
    says: /src\/daemons\/toold: has no README\.md/,
  },
  'a part twice': {
    files: {
      'src/daemons/toold/store.ts': [head],
      'src/daemons/toold/store/calls.ts': [head],
    },
    says: /has store\.ts and store\/: one of them/,
  },
};

for (const [name, { files, says }] of Object.entries(wrong)) {
  test(`refused: ${name}`, (t) => {
    const { status, output } = runTool('tidy.ts', '--root', makeTree(t, files));
    assert.match(output, says);
    assert.equal(status, 1);
  });
}

const messageTests: Record<string, string> = {
  'a method of a message': "error.message.includes('full')",
  'a method behind a cast': "(error as Error).message.startsWith('no')",
  'a method of a message in lower case': "error.message.toLowerCase().endsWith('gone')",
  'a method of a message that may be absent': "(error?.message ?? '').match(/gone/) !== null",
  'a regular expression on a message': '/open box/.test(error.message)',
  'a regular expression on a destructured message': '/open box/.exec(message) !== null',
  'a message compared with a text': "error.message === 'gone'",
  'a hint compared with a constant': 'ASK !== hint',
  'a message looked up in a list': "['gone', 'full'].includes(error.message)",
  'a switch over a message': '() => { switch (error.message) { default: } }',
};
for (const [name, expression] of Object.entries(messageTests)) {
  const lines = [head, `export const decide = (error, message, hint) => ${expression};`];

  test(`refused in product code: ${name}`, (t) => {
    const root = makeTree(t, { 'src/runner/a.ts': lines });
    const { status, output } = runTool('tidy.ts', '--root', root);
    assert.match(output, /src\/runner\/a\.ts:2: decides by the text of a message/);
    assert.equal(status, 1);
  });

  test(`allowed in tests: ${name}`, (t) => {
    const paths = ['src/runner/a.test.ts', 'src/runner/testing/a.ts', 'test/scenario/a.ts'];
    const root = makeTree(t, Object.fromEntries(paths.map((path) => [path, lines])));
    assert.deepEqual(runTool('tidy.ts', '--root', root), { status: 0, output: '' });
  });
}

test('a file on the allow list may test messages, and must need it', (t) => {
  const path = 'src/policy/site.ts';
  const uses = [head, 'export const decide = (error) => /for Action/.test(error.message);'];
  const allowed = runTool('tidy.ts', '--root', makeTree(t, { [path]: uses }));
  assert.deepEqual(allowed, { status: 0, output: '' });
  const idle = [head, 'export const show = (error) => error.message;'];
  const { status, output } = runTool('tidy.ts', '--root', makeTree(t, { [path]: idle }));
  assert.match(output, /src\/policy\/site\.ts: tests no message/);
  assert.equal(status, 1);
});

test('a long file is a warning at first', (t) => {
  const root = makeTree(t, { 'src/platform/a.ts': long(401) });
  const { status, output } = runTool('tidy.ts', '--root', root);
  assert.match(output, /warning: 401 lines/);
  assert.equal(status, 0);
});

function daemonFiles(name: string, parts: readonly string[]): Files {
  const files = parts.map((part) => [`src/daemons/${name}/${part}.ts`, [head]]);
  return { [`src/daemons/${name}/README.md`]: [name], ...Object.fromEntries(files) };
}

test('conforming code passes', (t) => {
  const root = makeTree(t, {
    'src/platform/config.ts': [head, 'export const a = process.env.HOME;'],
    'src/platform/show.ts': [
      head,
      "export const show = (error) => (error.message === '' ? 'empty' : error.message.trim());",
      'export const same = (error, other) => error.message === other.message;',
      "export const has = ({ message }) => message.parts.includes('x');",
      "export const is = (error) => error.code === 'not_found' && error.message !== undefined;",
    ],
    'src/platform/primitives.ts': [head, "export const a = 'any process.env';", '// any word'],
    'bin/run.sh': ['#!/bin/sh', '# Runs it.', 'exit 0'],
    'docs/wide.md': ['x'.repeat(200)],
    ...daemonFiles('toold', ['daemon', 'config', 'api', 'service/start']),
    ...daemonFiles('sandboxd', ['daemon', 'config', 'api']),
  });
  assert.deepEqual(runTool('tidy.ts', '--root', root), { status: 0, output: '' });
});

test('the tree is tidy', () => {
  const { status, output } = runTool('tidy.ts');
  assert.equal(status, 0, output);
});
