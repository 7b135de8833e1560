// Prices as published by the vendors, in micro-USD per million tokens (1 USD is 1,000,000). Data
// only: a site's own rows come from its configuration and win. Read from the vendors' pages in
// November 2026.
import type { PriceRow } from './prices.ts';

const usd = (dollars: number): number => Math.round(dollars * 1_000_000);

type Claude = { input: number; output: number; cacheRead: number };

/** Anthropic's writes cost 1.25 times the input for five minutes and twice for an hour. */
const claude = (model: string, { input, output, cacheRead }: Claude): PriceRow => ({
  model,
  input: usd(input),
  output: usd(output),
  cache_read: usd(cacheRead),
  cache_write: usd(input * 1.25),
  cache_write_long: usd(input * 2),
});

type Gpt = { input: number; output: number; cacheRead: number; cacheWrite?: number };

const gpt = (model: string, { input, output, cacheRead, cacheWrite }: Gpt): PriceRow => ({
  model,
  input: usd(input),
  output: usd(output),
  cache_read: usd(cacheRead),
  cache_write: usd(cacheWrite ?? input),
});

/**
 * Above 272,000 tokens of input OpenAI's newer models cost twice for input and half more for
 * output.
 */
const longer = (row: PriceRow): PriceRow => ({
  ...row,
  long: {
    above_input_tokens: 272_000,
    input: row.input * 2,
    output: Math.ceil(row.output * 1.5),
    cache_read: row.cache_read * 2,
    cache_write: row.cache_write * 2,
  },
});

export const PRICE_ROWS: readonly PriceRow[] = [
  claude('claude-fable-5-2', { input: 10, output: 50, cacheRead: 1 }),
  claude('claude-mythos-5-2', { input: 10, output: 50, cacheRead: 1 }),
  claude('claude-fable-5-1', { input: 10, output: 50, cacheRead: 0.25 }),
  claude('claude-mythos-5-1', { input: 10, output: 50, cacheRead: 0.25 }),
  claude('claude-fable-5', { input: 10, output: 50, cacheRead: 1 }),
  claude('claude-mythos-5', { input: 10, output: 50, cacheRead: 1 }),
  claude('claude-opus-5-5', { input: 4, output: 20, cacheRead: 0.2 }),
  claude('claude-opus-5', { input: 5, output: 25, cacheRead: 0.5 }),
  claude('claude-opus-4-8', { input: 5, output: 25, cacheRead: 0.5 }),
  claude('claude-opus-4-7', { input: 5, output: 25, cacheRead: 0.5 }),
  claude('claude-opus-4-6', { input: 5, output: 25, cacheRead: 0.5 }),
  claude('claude-opus-4-5', { input: 5, output: 25, cacheRead: 0.5 }),
  claude('claude-opus-4-1', { input: 15, output: 75, cacheRead: 1.5 }),
  claude('claude-opus-4', { input: 15, output: 75, cacheRead: 1.5 }),
  claude('claude-sonnet-5-5', { input: 2, output: 10, cacheRead: 0.2 }),
  claude('claude-sonnet-5', { input: 2, output: 10, cacheRead: 0.2 }),
  claude('claude-sonnet-4-6', { input: 3, output: 15, cacheRead: 0.3 }),
  claude('claude-sonnet-4-5', { input: 3, output: 15, cacheRead: 0.3 }),
  claude('claude-sonnet-4', { input: 3, output: 15, cacheRead: 0.3 }),
  {
    ...claude('claude-haiku-5-5', { input: 0.1, output: 0.5, cacheRead: 0.01 }),
    long: {
      above_input_tokens: 100_000,
      input: usd(0.5),
      output: usd(2.5),
      cache_read: usd(0.05),
      cache_write: usd(0.625),
      cache_write_long: usd(1),
    },
  },
  claude('claude-haiku-4-5', { input: 1, output: 5, cacheRead: 0.1 }),
  claude('claude-3-5-haiku', { input: 0.8, output: 4, cacheRead: 0.08 }),
  longer(gpt('gpt-6-astra', { input: 10, output: 50, cacheRead: 1, cacheWrite: 12.5 })),
  longer(gpt('gpt-6.1-sol', { input: 2, output: 10, cacheRead: 0.1, cacheWrite: 2.5 })),
  longer(gpt('gpt-6.1-terra', { input: 1, output: 5, cacheRead: 0.05, cacheWrite: 1.25 })),
  longer(gpt('gpt-6-sol', { input: 2, output: 10, cacheRead: 0.2, cacheWrite: 2.5 })),
  longer(gpt('gpt-6-luna', { input: 0.1, output: 0.5, cacheRead: 0.01, cacheWrite: 0.125 })),
  longer(gpt('gpt-5.6-sol', { input: 5, output: 30, cacheRead: 0.5, cacheWrite: 6.25 })),
  longer(gpt('gpt-5.6-terra', { input: 2, output: 12, cacheRead: 0.2, cacheWrite: 2.5 })),
  longer(gpt('gpt-5.6-luna', { input: 0.2, output: 1.2, cacheRead: 0.02, cacheWrite: 0.25 })),
  longer(gpt('gpt-5.5', { input: 5, output: 30, cacheRead: 0.5 })),
  longer(gpt('gpt-5.4', { input: 2.5, output: 15, cacheRead: 0.25 })),
  gpt('gpt-5.4-mini', { input: 0.75, output: 4.5, cacheRead: 0.075 }),
  gpt('gpt-5.4-nano', { input: 0.2, output: 1.25, cacheRead: 0.02 }),
  gpt('gpt-5.2', { input: 1.75, output: 14, cacheRead: 0.175 }),
  gpt('gpt-5.1', { input: 1.25, output: 10, cacheRead: 0.125 }),
  gpt('gpt-5', { input: 1.25, output: 10, cacheRead: 0.125 }),
  gpt('gpt-5-mini', { input: 0.25, output: 2, cacheRead: 0.025 }),
  gpt('gpt-5-nano', { input: 0.05, output: 0.4, cacheRead: 0.005 }),
  gpt('gpt-4.1', { input: 2, output: 8, cacheRead: 0.5 }),
  gpt('gpt-4.1-mini', { input: 0.4, output: 1.6, cacheRead: 0.1 }),
  gpt('gpt-4.1-nano', { input: 0.1, output: 0.4, cacheRead: 0.025 }),
  gpt('gpt-4o', { input: 2.5, output: 10, cacheRead: 1.25 }),
  gpt('gpt-4o-mini', { input: 0.15, output: 0.6, cacheRead: 0.075 }),
  gpt('text-embedding-3-small', { input: 0.02, output: 0, cacheRead: 0.02 }),
  gpt('text-embedding-3-large', { input: 0.13, output: 0, cacheRead: 0.13 }),
  gpt('text-embedding-ada-002', { input: 0.1, output: 0, cacheRead: 0.1 }),
  // Nobody is paid for a rehearsal.
  { provider: 'rehearsal', model: '*', input: 0, output: 0, cache_read: 0, cache_write: 0 },
];

/** A model nobody has named a price for is taken to cost what the dearest does. */
export const FALLBACK_PRICES = {
  input: usd(15),
  output: usd(75),
  cache_read: usd(1.5),
  cache_write: usd(18.75),
  cache_write_long: usd(30),
};

/**
 * What a client can ask for that costs more, by dialect and member of its body: times the price.
 */
export const SURCHARGES = {
  openai: { service_tier: { priority: 2, fast: 2 } },
  anthropic: { speed: { fast: 6 }, inference_geo: { '*': 1.1 } },
} as const;
