// Tests embeddings: what the cache keeps apart, who may be answered from it, and OpenAI's form.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { RawReply } from '../../../platform/dispatch.ts';
import type { Caller } from '../../../wire/caller.ts';
import { admission, OPERATOR, rejects, runCaller, runId } from '../testing/harness.ts';
import { modeld, provider, startWithProvider } from '../testing/with-provider.ts';

type Answer = {
  data: { embedding: number[] | string; index: number }[];
  model: string;
  usage: { prompt_tokens: number };
};

describe('embeddings for clients of OpenAI', () => {
  startWithProvider(({ url }) => ({
    providers: {
      oai: { dialect: 'openai', base_url: `${url}/v1`, models: ['gpt-test', 'text-embed'] },
      ant: { dialect: 'anthropic', base_url: url, models: ['embed-none'] },
    },
    prices: { 'text-embed': { input: 5, output: 5 } },
    aliases: { 'text-embedding-3-*': 'text-embed' },
  }));

  const post = async (body: object, caller: Caller = OPERATOR) => {
    const path = '/openai/v1/embeddings';
    const reply = await modeld.dispatch.run({ method: 'POST', path, query: {}, body, caller });
    assert.ok(reply instanceof RawReply);
    return { answer: JSON.parse(String(reply.body)) as Answer, headers: reply.headers };
  };

  test('a text is paid for once, and answered in the form that was asked for', async () => {
    const first = await post({ model: 'text-embedding-3-small', input: ['one', 'three', 'one'] });
    assert.deepEqual(provider.requests[0]!.body, {
      model: 'text-embed',
      input: ['one', 'three'],
      encoding_format: 'float',
    });
    assert.deepEqual(
      first.answer.data.map(({ embedding }) => embedding),
      [
        [3, 0.5, 0],
        [5, 0.5, 1],
        [3, 0.5, 0],
      ],
    );
    assert.equal(first.answer.model, 'text-embedding-3-small');
    assert.equal(first.answer.usage.prompt_tokens, 2);
    assert.equal(first.headers['agentd-model'], 'text-embed');
    const again = await post({ model: 'text-embed', input: 'three', encoding_format: 'base64' });
    const bytes = Buffer.from(String(again.answer.data[0]!.embedding), 'base64');
    assert.deepEqual([bytes.readFloatLE(0), bytes.readFloatLE(4), bytes.length], [5, 0.5, 12]);
    assert.equal(again.headers['agentd-recorded'], 'true');
    assert.equal(again.answer.usage.prompt_tokens, 0);
    const neutral = await modeld.operator.embed({ body: { model: 'text-embed', input: ['one'] } });
    assert.equal(neutral.recorded, true, 'both routes share the cache');
    assert.equal(provider.requests.length, 1);
  });

  test('tokens, dimensions and models are kept apart from the text', async () => {
    const asks = [
      { model: 'text-embed', input: 'apart' },
      { model: 'text-embed', input: 'apart', dimensions: 2 },
      { model: 'text-embed', input: 'apart', dimensions: 3 },
      { model: 'text-embed', input: [1, 2] },
      { model: 'text-embed', input: [[1, 2, 3], 'apart too'] },
      { model: 'text-embed', input: '[1,2]' },
      { model: 'text-embed', input: '[[1,2],null]' },
      { model: 'oai/other-embed', input: 'apart' },
    ];
    for (const ask of asks) {
      const { data } = (await post(ask)).answer;
      assert.equal(data.length, Array.isArray(ask.input) && Array.isArray(ask.input[0]) ? 2 : 1);
    }
    assert.equal(provider.requests.length, asks.length);
    assert.deepEqual(provider.requests[3]!.body.input, [[1, 2]]);
    assert.equal(provider.requests[2]!.body.dimensions, 3);
    for (const ask of asks) await post(ask);
    assert.equal(provider.requests.length, asks.length, 'each was paid for once');
  });

  test('the cache answers only those who may call the model', async () => {
    const body = { model: 'text-embed', input: 'shared' };
    await post(body);
    const { key } = await modeld.operator.createKey({
      body: { name: 'narrow', models: ['gpt-test'] },
    });
    const caller: Caller = {
      kind: 'key',
      principal: 'key:narrow',
      name: 'narrow',
      secretId: key.secret.slice(7, 19),
      owner: null,
      scopes: ['models'],
    };
    await rejects(post(body, caller), 'denied');
    await modeld.agentd.admitRun({ params: { id: runId(1) }, body: admission(1) });
    assert.equal((await post(body, runCaller(1, 1))).headers['agentd-recorded'], 'true');
    assert.equal(provider.requests.length, 1);
  });

  test('what cannot be embedded is refused before anything is sent', async () => {
    for (const more of [
      { input: [] },
      { input: [''] },
      { input: [1.5] },
      { input: [[]] },
      { input: { a: 1 } },
      { input: Array.from({ length: 2_049 }, () => 'x') },
      { dimensions: 1.5 },
      { encoding_format: 'ubinary' },
      { input_type: 'query' },
    ])
      await rejects(post({ model: 'text-embed', input: 'x', ...more }), 'bad_request');
    const none = await rejects(post({ model: 'embed-none', input: 'x' }), 'unavailable');
    assert.match(none.message, /ant has no embeddings/);
    await rejects(post({ model: 'gpt-test', input: 'x' }), 'bad_request');
    assert.equal(provider.requests.length, 0);
  });
});
