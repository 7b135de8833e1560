// Model names in manifests: which are problems and which are not.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { findModelProblems } from './model-problems.ts';

const agent = (name: string, model: string) => ({ name, model, manifest_file: `/a/${name}.yaml` });
const real = { name: 'opus-large', rehearsal: false, is_default: true };
const rehearsed = { name: 'rehearsal-large', rehearsal: true, is_default: false };
const providers = [{ name: 'local' }];

it('reports a model that no provider offers, with a suggestion and the model used instead', () => {
  const agents = [agent('a', 'opus-lrage'), agent('b', 'zzz'), agent('c', 'opus-large')];
  const found = findModelProblems(agents, { models: [real, rehearsed], providers, aliases: [] });
  assert.deepEqual(
    found.map(({ file, message }) => `${file}: ${message}`),
    [
      '/a/a.yaml: spec.model: no provider offers opus-lrage; did you mean opus-large?',
      '/a/b.yaml: spec.model: no provider offers zzz',
    ],
  );
  assert.match(found[0]!.hint, /opus-large is used instead/);
});

it('accepts default, provider/model, and any name in a rehearsal', () => {
  const agents = [agent('a', 'default'), agent('b', 'local/any'), agent('c', 'rehearsal-large')];
  assert.deepEqual(
    findModelProblems(agents, { models: [real, rehearsed], providers, aliases: [] }),
    [],
  );
  assert.deepEqual(
    findModelProblems([agent('d', 'zzz')], { models: [rehearsed], providers: [], aliases: [] }),
    [],
  );
});

it('accepts an alias that somebody set', () => {
  const agents = [agent('a', 'claude-x'), agent('b', 'gpt-x')];
  const aliases = [
    { pattern: 'claude-*', model: 'opus-large', set_by: 'operator' as const },
    { pattern: 'gpt-*', model: 'default', set_by: 'built-in' as const },
  ];
  const found = findModelProblems(agents, { models: [real], providers, aliases });
  assert.deepEqual(
    found.map(({ file }) => file),
    ['/a/b.yaml'],
  );
});
