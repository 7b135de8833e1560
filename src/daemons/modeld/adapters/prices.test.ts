// Tests prices: a call's cost, its bound, rounding up, and unknown models.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Usage } from '../../../wire/modeld.ts';
import {
  boundMicrousd,
  costMicrousd,
  makePriceBook,
  PRICE_ROWS,
  type PriceRow,
  readSurcharge,
} from './prices.ts';
import { boundEmbedTokens, boundInputTokens } from './tokens.ts';

const usage = (more: Partial<Usage>): Usage => ({
  input_tokens: 0,
  output_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  reasoning_tokens: 0,
  ...more,
});
const book = makePriceBook();

test('a model is found by name, by family, by provider, and otherwise costs the most', () => {
  assert.equal(book.find('x', 'claude-opus-5-5').output, 20_000_000);
  assert.equal(book.find('x', 'claude-haiku-4-5-20251001').input, 1_000_000);
  assert.equal(book.find('x', 'gpt-5-2025-08-07').input, 1_250_000);
  assert.equal(book.find('x', 'openai/gpt-5-mini').input, 250_000);
  assert.equal(book.find('rehearsal', 'gpt-5').input, 0);
  const unknown = book.find('x', 'brand-new');
  assert.equal(unknown.isKnown, false);
  for (const row of PRICE_ROWS)
    assert.ok(unknown.input >= row.input && unknown.output >= row.output);
});

test('the configuration overrides prices', () => {
  const own = makePriceBook({
    rows: [
      { provider: 'local', model: '*', input: 0, output: 0, cache_read: 0, cache_write: 0 },
      { model: 'gpt-5', input: 7, output: 7, cache_read: 7, cache_write: 7 },
    ],
    fallback: { input: 3, output: 3, cache_read: 3, cache_write: 3 },
  });
  assert.equal(own.find('local', 'gpt-5').input, 0);
  assert.equal(own.find('openai', 'gpt-5').input, 7);
  assert.equal(own.find('openai', 'who').input, 3);
});

test('a cost is the sum of its parts, rounded up', () => {
  const row = book.find('x', 'claude-opus-5-5');
  const spent = usage({
    input_tokens: 1_000,
    output_tokens: 500,
    cache_read_tokens: 10_000,
    cache_write_tokens: 300,
    reasoning_tokens: 400,
  });
  // 4,000 + 10,000 + 2,000 + 200 · 5 + 100 · 8
  assert.equal(costMicrousd(row, { usage: spent, cacheWriteLongTokens: 100 }), 17_800);
  assert.equal(costMicrousd(row, { usage: usage({ cache_read_tokens: 1 }) }), 1);
  assert.equal(costMicrousd(row, { usage: usage({}) }), 0);
  assert.equal(costMicrousd(row, { usage: spent, cacheWriteLongTokens: 100, times: 1.1 }), 19_580);
});

test('the long-prompt price applies to a whole long prompt', () => {
  const row = book.find('x', 'claude-haiku-5-5');
  assert.equal(costMicrousd(row, { usage: usage({ input_tokens: 100_000 }) }), 10_000);
  assert.equal(
    costMicrousd(row, { usage: usage({ input_tokens: 60_000, cache_read_tokens: 40_001 }) }),
    32_001,
  );
});

test('no call can cost more than its bound', () => {
  const row = fc.constantFrom(...PRICE_ROWS, book.find('x', 'unknown'));
  const split = fc.array(fc.nat({ max: 200_000 }), { minLength: 4, maxLength: 4 });
  fc.assert(
    fc.property(row, split, fc.nat(), fc.constantFrom(1, 1.1, 2), (prices, drawn, extra, times) => {
      const [input_tokens, output_tokens, cache_read_tokens, cache_write_tokens] = drawn as [
        number,
        number,
        number,
        number,
      ];
      const spent = usage({ input_tokens, output_tokens, cache_read_tokens, cache_write_tokens });
      const cost = costMicrousd(prices, {
        usage: spent,
        cacheWriteLongTokens: extra % (cache_write_tokens + 1),
        times,
      });
      const inputTokens = input_tokens + cache_read_tokens + cache_write_tokens + (extra % 500_000);
      const bound = boundMicrousd(prices, { inputTokens, outputTokens: output_tokens, times });
      assert.ok(Number.isSafeInteger(cost) && cost <= bound, `${cost} > ${bound}`);
    }),
    { numRuns: 500 },
  );
});

test('surcharges of client options are read', () => {
  assert.equal(readSurcharge('openai', {}), 1);
  assert.equal(readSurcharge('openai', { service_tier: 'priority' }), 2);
  assert.equal(readSurcharge('openai', { service_tier: 'flex' }), 1);
  assert.equal(
    readSurcharge('anthropic', { inference_geo: 'us', speed: 'fast' }),
    6.6000000000000005,
  );
});

const bound = (body: Record<string, unknown>, contextTokens = 1_000_000) =>
  boundInputTokens({
    body,
    sizeBytes: Buffer.byteLength(JSON.stringify(body)),
    dialect: 'anthropic',
    contextTokens,
  });
const says = (content: unknown) => ({ messages: [{ role: 'user', content }] });

test('the bound is never below the bytes of the text, and never above the window', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 500 }), (text) => {
      assert.ok(bound(says(text)) >= Buffer.byteLength(text) + 64);
      assert.equal(bound(says(text), 10), 10);
    }),
  );
});

test('tools, images and parts of unknown size raise the bound', () => {
  const plain = bound(says('x'));
  assert.ok(bound({ ...says('x'), tools: [{ name: 't' }] }) >= plain + 1_024);
  const image = { type: 'image', source: { type: 'url', url: 'http://x' } };
  assert.ok(bound(says([image, image])) >= 24_000);
  const inResult = [{ type: 'tool_result', tool_use_id: '1', content: [image] }];
  assert.ok(bound(says(inResult)) >= 12_000);
  for (const content of [
    [{ type: 'document', source: { type: 'url', url: 'http://x' } }],
    [{ type: 'file', file: { file_id: 'f' } }],
    [{ type: 'tool_result', content: [{ type: 'document', source: { type: 'file' } }] }],
  ])
    assert.equal(bound(says(content)), 1_000_000);
  const text = [{ type: 'document', source: { type: 'text', data: 'abc' } }];
  assert.ok(bound(says(text)) < 1_000);
  const search = { ...says('x'), tools: [{ type: 'web_search_20260318', name: 'web_search' }] };
  assert.equal(bound(search), 1_000_000);
  assert.equal(boundEmbedTokens(['é', 'ab']), 132);
});

test('small and large sums are rounded up alike', () => {
  const row = (price: number): PriceRow => ({
    model: 'm',
    input: price,
    output: 0,
    cache_read: 0,
    cache_write: 0,
  });
  const tokens = fc.oneof(fc.nat(5_000_000), fc.nat({ max: 2 ** 31 - 1 }));
  const price = fc.oneof(fc.nat(100_000_000), fc.constantFrom(1, 1_000_000, 999_999_999));
  fc.assert(
    fc.property(tokens, price, fc.constantFrom(1, 1.1, 2.5, 6), (input, each, times) => {
      const used = usage({ input_tokens: input });
      const scaled = BigInt(input) * BigInt(each) * BigInt(Math.ceil(times * 1_000));
      const exact = Number((scaled + 999_999_999n) / 1_000_000_000n);
      assert.equal(costMicrousd(row(each), { usage: used, times }), exact);
    }),
  );
});
