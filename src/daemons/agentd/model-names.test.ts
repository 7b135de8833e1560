// Which names of models in manifests are a problem, and which are not.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { modelProblems } from './model-names.ts';

const agent = (name: string, model: string) => ({ name, model, manifest_file: `/a/${name}.yaml` });
const real = { name: 'opus-large', rehearsal: false, is_default: true };
const played = { name: 'rehearsal-large', rehearsal: true, is_default: false };
const providers = [{ name: 'local' }];

it('a model that nobody offers is named, with the one that was meant and the one that answers', () => {
  const agents = [agent('a', 'opus-lrage'), agent('b', 'zzz'), agent('c', 'opus-large')];
  const found = modelProblems(agents, { models: [real, played], providers });
  assert.deepEqual(
    found.map(({ file, message }) => `${file}: ${message}`),
    [
      '/a/a.yaml: spec.model: no provider offers opus-lrage; did you mean opus-large?',
      '/a/b.yaml: spec.model: no provider offers zzz',
    ],
  );
  assert.match(found[0]!.hint, /opus-large answers instead/);
});

it('default, a model of a provider by its own name, and anything in a rehearsal are none', () => {
  const agents = [agent('a', 'default'), agent('b', 'local/any'), agent('c', 'rehearsal-large')];
  assert.deepEqual(modelProblems(agents, { models: [real, played], providers }), []);
  assert.deepEqual(modelProblems([agent('d', 'zzz')], { models: [played], providers: [] }), []);
});
