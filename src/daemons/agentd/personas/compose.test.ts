// Composing personas: the order of layers, overlays, and every way in which it is refused.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sha256Hex } from '../../../platform/json.ts';
import type { PersonaSource } from '../../../wire/agentd/personas.ts';
import { COMPOSED_CHARS_MAX, composePersona, type PersonaInput } from './compose.ts';
import { buildLibrary } from './library.ts';
import { readPersona } from './persona-file.ts';

type Files = readonly (readonly [ref: string, source: PersonaSource, text: string])[];

const libraryOf = (files: Files) =>
  buildLibrary(
    files.map(([ref, source, text]) => ({
      ref,
      result: readPersona(text, source, `${source}/${ref}.md`),
    })),
    { stray: [], version: '1' },
  );

const input = (more: Partial<PersonaInput> = {}): PersonaInput => ({
  agent: 'bob',
  description: 'Builds: things.',
  labels: {},
  refs: ['coder'],
  inline: undefined,
  manifestFile: 'bob.yaml',
  manifestHash: 'f'.repeat(64),
  ...more,
});

const BASE = ['base', 'package', 'The base.'] as const;
const CODER = [
  'roles/coder',
  'package',
  '---\nrole: Coder\npurpose: Writes code\n---\n\nYou code.\n',
] as const;

function compose(files: Files, more: Partial<PersonaInput> = {}) {
  const result = composePersona(libraryOf(files), input(more));
  assert.ok(result.ok, JSON.stringify(result));
  return result.persona;
}

function problemsOf(files: Files, more: Partial<PersonaInput> = {}) {
  const result = composePersona(libraryOf(files), input(more));
  assert.ok(!result.ok);
  return result.problems;
}

test('[C74] layers come in one order, and of each the package, the site, the operator', () => {
  const { text, layers, role, purpose, persona, sha256 } = compose(
    [
      BASE,
      ['base', 'operator', 'Our base.'],
      ['groups/night', 'site', 'At night.'],
      CODER,
      ['roles/coder', 'site', 'Site coder.'],
      ['roles/coder', 'operator', '---\npurpose: Writes our code\n---\nOur coder.'],
      ['scopes/pay', 'operator', 'Payments.'],
      ['agents/bob', 'operator', 'Bob himself.'],
      ['agents/eve', 'operator', 'Eve.'],
    ],
    { refs: ['scopes/pay', 'coder', 'groups/night'], inline: 'Inline.' },
  );
  assert.equal(
    text,
    [
      'The base.',
      'Our base.',
      'At night.',
      'You code.',
      'Site coder.',
      'Our coder.',
      'Payments.',
      'Bob himself.',
      'Inline.',
    ].join('\n\n---\n\n'),
  );
  assert.equal(sha256, sha256Hex(text));
  assert.deepEqual(layers.map(({ layer, source }) => `${layer} ${source}`).slice(-3), [
    'scopes/pay operator',
    'agents/bob operator',
    'inline manifest',
  ]);
  assert.deepEqual([role, purpose, persona], ['Coder', 'Writes our code', 'coder']);
});

test('without personas a manifest is read as before; its own layer still counts', () => {
  const files = [BASE, CODER];
  assert.equal(
    compose(files, { refs: undefined, inline: 'You {{agent}}.' }).text,
    'You {{agent}}.',
  );
  assert.equal(compose(files, { refs: undefined }).text, 'You are bob. Builds: things.');
  const own = compose([...files, ['agents/bob', 'operator', 'Mine.']], { refs: undefined });
  assert.equal(own.text, 'Mine.');
  assert.equal(compose(files, { refs: [] }).text, 'The base.');
});

test('a file that replaces takes the place of those before it', () => {
  const mine = ['roles/coder', 'operator', '---\nreplace: true\n---\nOnly mine.'] as const;
  assert.equal(compose([BASE, CODER, mine]).text, 'The base.\n\n---\n\nOnly mine.');
});

test('what a layer extends comes once, before it', () => {
  const { text } = compose(
    [
      BASE,
      CODER,
      ['roles/lead', 'package', '---\nextends: [coder, groups/all]\n---\nYou lead.'],
      ['groups/all', 'package', '---\nextends: [coder]\n---\nAll.'],
    ],
    { refs: ['lead'] },
  );
  assert.equal(text, ['The base.', 'You code.', 'All.', 'You lead.'].join('\n\n---\n\n'));
});

test('a cycle is an error with file and line', () => {
  const problems = problemsOf([
    BASE,
    ['roles/coder', 'package', '---\nrole: Coder\nextends: [lead]\n---\na'],
    ['roles/lead', 'operator', '---\nextends:\n  - coder\n---\nb'],
  ]);
  assert.deepEqual(
    problems.map(({ file, line, message }) => ({ file, line, message })),
    [
      {
        file: 'operator/roles/lead.md',
        line: 2,
        message: 'personas extend each other: roles/coder -> roles/lead -> roles/coder',
      },
    ],
  );
});

test('missing layers are errors: of the manifest, of a file, and the base', () => {
  assert.match(problemsOf([CODER])[0]!.message, /no persona base/);
  const [problem] = problemsOf([BASE, ['roles/coder', 'site', '---\nextends: [gone]\n---\na']]);
  assert.deepEqual(
    [problem!.file, problem!.line, problem!.message],
    ['site/roles/coder.md', 2, 'there is no persona roles/gone'],
  );
});

test('variables are filled in once; an unknown one is an error with file and line', () => {
  const text =
    '---\nrole: Coder\npurpose: Codes\n---\n\n{{agent}} {{ role }} {{label.app}}\n\\{{x}}';
  const { text: filled } = compose([BASE, ['roles/coder', 'package', text]], {
    labels: { app: '{{agent}}' },
  });
  assert.equal(filled, 'The base.\n\n---\n\nbob Coder {{agent}}\n{{x}}');
  const [label, other] = problemsOf([
    BASE,
    ['roles/coder', 'package', '---\nrole: Coder\n---\n\none\n{{label.app}}\n{{nope}}'],
  ]);
  assert.deepEqual([label!.line, other!.line], [6, 7]);
  assert.match(label!.message, /label\.app/);
  assert.match(label!.hint, /metadata\.labels/);
  assert.match(other!.hint, /Known variables: agent/);
});

test('a broken file breaks those that use it, with its own line', () => {
  const broken = ['roles/coder', 'operator', '---\nrole: a: b\n---\nx'] as const;
  const [problem] = problemsOf([BASE, CODER, broken]);
  assert.deepEqual([problem!.file, problem!.line], ['operator/roles/coder.md', 2]);
  compose([BASE, CODER, ['roles/other', 'operator', '---\nx: 1\n---\n']]);
});

test('[C74] all layers together have a limit', () => {
  const long = 'x'.repeat(60_000);
  const files = Array.from({ length: 6 }, (_, i) => [`roles/r${i}`, 'package', long] as const);
  const refs = files.map(([ref]) => ref);
  const [problem] = problemsOf([BASE, ...files], { refs });
  assert.match(problem!.message, new RegExp(`at most ${COMPOSED_CHARS_MAX}`));
});
