// Tests reading OpenAI's embedding responses.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isFault } from '../../testing/requests.ts';
import { readEmbedResponse } from './embed.ts';

test('embeddings are put in order, and too few are malformed', () => {
  const floats = Buffer.from(Float32Array.from([0.5, -2]).buffer).toString('base64');
  const data = [
    { index: 1, embedding: floats },
    { index: 0, embedding: [1, 2] },
  ];
  const usage = { prompt_tokens: 4, total_tokens: 4 };
  const response = readEmbedResponse({ data, usage, model: 'e' }, { count: 2, model: 'x' });
  assert.deepEqual(response.embeddings, [
    [1, 2],
    [0.5, -2],
  ]);
  assert.equal(response.usage.input_tokens, 4);
  assert.throws(
    () => readEmbedResponse({ data, usage }, { count: 3, model: 'x' }),
    isFault('provider_malformed', /2 embeddings for 3 texts/),
  );
});
