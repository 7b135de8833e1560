// Rules of aliases: which one applies, and what a name then stands for, for people and for runs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findAlias } from './model-aliases.ts';
import {
  isOffered,
  listMeanings,
  type ModelEntry,
  type ModelOffer,
  resolveModel,
} from './models.ts';

const chat: ModelEntry = {
  routes: [{ provider: 'configured', model: 'm' }],
  kind: 'chat',
  contextTokens: 1,
  maxOutputTokens: 1,
  isExact: true,
};
const offer = (more: Partial<ModelOffer> = {}): ModelOffer => ({
  models: new Map(),
  providers: [{ name: 'local', models: ['qwen', 'text-embed'] }],
  defaultModel: undefined,
  aliases: [],
  hasRehearsal: true,
  ...more,
});
const two = [{ name: 'local', models: ['qwen', 'llama', 'text-embed'] }];
/** Returns the name on record, and the model that is called. */
const ask = (of: ModelOffer, name: string, own?: string) => {
  const { name: meant, routes, asked } = resolveModel(of, name, 'chat', own);
  assert.equal(asked, name);
  return [meant, routes[0]!.model];
};

test('the most specific alias applies: without *, then with the most other characters', () => {
  const aliases = [
    { pattern: '*', model: 'any' },
    { pattern: 'claude-*', model: 'some' },
    { pattern: 'claude-*haiku*', model: 'small' },
    { pattern: 'claude-haiku-4', model: 'exact' },
  ];
  for (const list of [aliases, aliases.toReversed()]) {
    assert.equal(findAlias(list, 'claude-haiku-4'), 'exact');
    assert.equal(findAlias(list, 'claude-haiku-5'), 'small');
    assert.equal(findAlias(list, 'claude-opus-5'), 'some');
    assert.equal(findAlias(list, 'gpt'), 'any');
    assert.equal(findAlias(list.slice(1, 3), 'gpt') ?? 'none', 'none');
  }
});

test('a name that is offered always means its own model', () => {
  const aliases = [{ pattern: '*', model: 'llama' }];
  const of = offer({ providers: two, aliases, models: new Map([['big', chat]]) });
  for (const [name, model] of [
    ['qwen', 'qwen'],
    ['local/other', 'other'],
    ['big', 'm'],
    ['rehearsal-small', 'rehearsal-small'],
  ] as const)
    assert.deepEqual(ask(of, name), [name, model]);
  assert.equal(ask(of, 'default')[0], 'default', 'and so does the default');
  assert.deepEqual(ask(of, 'claude-x'), ['llama', 'llama'], 'control');
});

test("vendors' names need no alias while there is one model, or a default", () => {
  assert.deepEqual(ask(offer(), 'claude-sonnet-5'), ['qwen', 'qwen']);
  assert.deepEqual(ask(offer(), 'gpt-6-codex'), ['qwen', 'qwen']);
  assert.ok(isOffered(offer(), 'claude-sonnet-5'));
  assert.ok(!isOffered(offer(), 'qwne'), 'a mistyped name is no vendor name');
  const several = offer({ providers: two });
  assert.ok(!isOffered(several, 'claude-sonnet-5'), 'nobody chose one of them');
  assert.deepEqual(ask({ ...several, defaultModel: 'llama' }, 'o3-pro'), ['llama', 'llama']);
  const rehearsed = offer({ providers: [] });
  assert.deepEqual(ask(rehearsed, 'claude-x'), ['rehearsal-large', 'rehearsal-large']);
});

test("for a run vendors' names and the alias `default` mean its own model", () => {
  const several = offer({ providers: two });
  assert.deepEqual(ask(several, 'claude-sonnet-5', 'llama'), ['llama', 'llama']);
  assert.deepEqual(ask(several, 'claude-sonnet-5', 'default'), ['default', 'qwen']);
  const aliases = [
    { pattern: 'gpt-*', model: 'llama' },
    { pattern: 'mine', model: 'llama' },
    { pattern: '*', model: 'default' },
  ];
  const aliased = { ...several, aliases };
  assert.deepEqual(ask(aliased, 'anything', 'qwen'), ['qwen', 'qwen']);
  assert.deepEqual(ask(aliased, 'gpt-5', 'qwen'), ['llama', 'llama'], 'policy decides on it');
  // Policy permits the model by the name in the manifest.
  assert.deepEqual(ask(aliased, 'mine', 'mine'), ['mine', 'llama']);
  assert.deepEqual(ask(aliased, 'claude-x', 'mine'), ['mine', 'llama']);
  assert.deepEqual(ask(several, 'anything', 'qwen'), ['anything', 'qwen'], 'no alias fits');
});

test('embeddings are replaced only by an alias that somebody set', () => {
  const embed = (of: ModelOffer, name: string) => resolveModel(of, name, 'embedding').name;
  const of = offer({ providers: two });
  assert.equal(embed(of, 'gpt-embedding'), 'gpt-embedding');
  assert.equal(
    embed({ ...of, aliases: [{ pattern: 'gpt-*', model: 'default' }] }, 'gpt-embedding'),
    'text-embed',
  );
  const wrong = { ...of, aliases: [{ pattern: 'claude-*', model: 'text-embed' }] };
  assert.throws(() => ask(wrong, 'claude-x'), /model text-embed is an embedding model/);
});

test('an alias of a model that is gone offers nothing', () => {
  const of = offer({ providers: two, aliases: [{ pattern: 'claude-*', model: 'gone' }] });
  assert.ok(!isOffered(of, 'claude-x'));
  assert.ok(isOffered({ ...of, aliases: [{ pattern: 'claude-*', model: 'llama' }] }, 'claude-x'));
});

test('a list of models allows what a name stands for', () => {
  const of = offer({ providers: two, aliases: [{ pattern: 'claude-*', model: 'llama' }] });
  const meanings = (name: string, own?: string) => listMeanings(of, name, { kind: 'chat', own });
  assert.deepEqual(meanings('claude-x'), ['llama']);
  assert.deepEqual(meanings('qwen'), ['qwen']);
  assert.deepEqual(meanings('default'), ['default', 'qwen']);
  assert.deepEqual(meanings('gpt-5'), ['gpt-5'], 'no alias applies');
  assert.deepEqual(meanings('gpt-5', 'llama'), ['llama', 'default', 'qwen']);
});
