// Tests embeddings: refusals, and that similar texts get near vectors.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { embedText } from './embeddings.ts';
import { type OpenaiRefusalRow, testRefusals } from './refusal-rows.ts';

const EMBED = { model: 'rehearsal-embed', input: 'hello' };
const ROWS: OpenaiRefusalRow[] = [
  [
    'no input',
    { model: EMBED.model },
    /Missing required parameter: 'input'/,
    'input',
    'missing_required_parameter',
  ],
  ['an empty input', { ...EMBED, input: '' }, /cannot be an empty string/, 'input', null],
  [
    'an empty input in a list',
    { ...EMBED, input: ['a', ''] },
    /cannot be an empty string/,
    'input',
    null,
  ],
  ['an empty list', { ...EMBED, input: [] }, /empty array/, 'input', 'empty_array'],
  [
    '2049 inputs',
    { ...EMBED, input: Array(2049).fill('a') },
    /maximum length 2048/,
    'input',
    'array_above_max_length',
  ],
  ['an object', { ...EMBED, input: [{}] }, /expected a string/, 'input[0]', 'invalid_type'],
  [
    'a chat model',
    { ...EMBED, model: 'rehearsal-large' },
    /not allowed to generate embeddings/,
    null,
    null,
    403,
  ],
  [
    'an input that is too long',
    { ...EMBED, input: 'x'.repeat(32_772) },
    /maximum context length is 8192 tokens, however you requested 8193/,
    null,
    null,
  ],
  [
    'too many dimensions',
    { ...EMBED, dimensions: 257 },
    /Expected a value <= 256/,
    'dimensions',
    'integer_above_max_value',
  ],
  [
    'an unknown format',
    { ...EMBED, encoding_format: 'int8' },
    /Invalid value: 'int8'/,
    'encoding_format',
    'invalid_value',
  ],
];

testRefusals('refused embeddings', '/v1/embeddings', ROWS);

const dot = (a: Float32Array, b: Float32Array) => a.reduce((sum, x, i) => sum + x * b[i]!, 0);

test('every text has a unit vector, and always the same one', () => {
  fc.assert(
    fc.property(fc.string({ minLength: 1 }), fc.integer({ min: 1, max: 256 }), (text, size) => {
      const vector = embedText(text, size);
      assert.equal(vector.length, size);
      assert.ok(Math.abs(Math.sqrt(dot(vector, vector)) - 1) < 1e-5);
      assert.deepEqual(embedText(text, size), vector);
    }),
  );
});

test('texts that share words are nearer than texts that share none', () => {
  const near = dot(
    embedText('The deploy failed on the staging host', 256),
    embedText('Why did the deploy to staging fail?', 256),
  );
  const far = dot(
    embedText('The deploy failed on the staging host', 256),
    embedText('Penguins eat small fish', 256),
  );
  assert.ok(near > 0.4, `near is ${near}`);
  assert.ok(far < 0.2, `far is ${far}`);
});
