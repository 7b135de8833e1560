// The vendors' published prices in micro-USD per million tokens, and the cost of a call in whole
// micro-USD, rounded up. Rows of the configuration take precedence.
import type { DialectName, Usage } from '../../../wire/modeld.ts';
import { asText, type JsonObject } from './reading.ts';

/** Micro-USD per million tokens. */
export type Prices = {
  input: number;
  output: number;
  cache_read: number;
  cache_write: number;
  /** Writes kept for an hour; as `cache_write` when left out. */
  cache_write_long?: number | undefined;
};

export type PriceRow = Prices & {
  /** A provider's name; any when left out. */
  provider?: string | undefined;
  /** A model's name at the provider, or * for all of them. */
  model: string;
  /** Other prices for the whole call when its input is longer than this. */
  long?: (Prices & { above_input_tokens: number }) | undefined;
};

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

/** Above 272,000 input tokens, OpenAI's newer models cost 2x for input and 1.5x for output. */
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

/** Read from the vendors' pages in November 2026. */
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
  // A rehearsal is free.
  { provider: 'rehearsal', model: '*', input: 0, output: 0, cache_read: 0, cache_write: 0 },
];

/** A model without a known price is charged at the rate of the most expensive one. */
const FALLBACK_PRICES = {
  input: usd(15),
  output: usd(75),
  cache_read: usd(1.5),
  cache_write: usd(18.75),
  cache_write_long: usd(30),
};

/** Price multipliers of options in a client's body, by dialect and member. */
const SURCHARGES = {
  openai: { service_tier: { priority: 2, fast: 2 } },
  responses: { service_tier: { priority: 2, fast: 2 } },
  anthropic: { speed: { fast: 6 }, inference_geo: { '*': 1.1 } },
} as const;

export type PriceBook = {
  find(provider: string, model: string): PriceRow & { isKnown: boolean };
};

/** `claude-haiku-4-5-20251001` and `openai/gpt-5` have the price of their family. */
function readFamily(model: string): string {
  const own = model.slice(model.lastIndexOf('/') + 1);
  return own.replace(/-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$/, '');
}

export function makePriceBook(
  options: { rows?: readonly PriceRow[]; fallback?: Prices } = {},
): PriceBook {
  const rows = [...(options.rows ?? []), ...PRICE_ROWS];
  const fallback = { model: '*', ...(options.fallback ?? FALLBACK_PRICES), isKnown: false };
  const searchIn = (own: readonly PriceRow[], model: string): PriceRow | undefined => {
    const family = readFamily(model);
    return (
      own.find((row) => row.model === model) ??
      own.find((row) => row.model === family) ??
      own.find((row) => row.model === '*')
    );
  };
  // A provider's row, even for all its models, takes precedence over rows for any provider.
  const search = (provider: string, model: string): PriceRow | undefined =>
    searchIn(
      rows.filter((row) => row.provider === provider),
      model,
    ) ??
    searchIn(
      rows.filter((row) => row.provider === undefined),
      model,
    );
  return {
    find(provider, model) {
      const row = search(provider, model);
      return row === undefined ? fallback : { ...row, isKnown: true };
    },
  };
}

/** Makes a row from prices in USD. */
export function makePriceRow(
  model: string,
  price: {
    input: number;
    output: number;
    cache_read?: number | undefined;
    cache_write?: number | undefined;
  },
): PriceRow {
  return {
    model,
    input: usd(price.input),
    output: usd(price.output),
    cache_read: usd(price.cache_read ?? price.input),
    cache_write: usd(price.cache_write ?? price.input),
  };
}

function choosePrices(row: PriceRow, inputTokens: number): Prices {
  return row.long !== undefined && inputTokens > row.long.above_input_tokens ? row.long : row;
}

const UNIT = 1_000_000_000n;

/** Big integers, because tokens times prices may exceed the largest exact number. */
function toMicrousd(terms: readonly [tokens: number, price: number][], times: number): number {
  let sum = 0n;
  for (const [tokens, price] of terms) sum += BigInt(tokens) * BigInt(price);
  const scaled = sum * BigInt(Math.ceil(times * 1_000));
  return Number((scaled + UNIT - 1n) / UNIT);
}

export function costMicrousd(
  row: PriceRow,
  spent: { usage: Usage; cacheWriteLongTokens?: number | undefined; times?: number | undefined },
): number {
  const { usage } = spent;
  const input = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
  const prices = choosePrices(row, input);
  const long = Math.min(spent.cacheWriteLongTokens ?? 0, usage.cache_write_tokens);
  // Reasoning tokens are part of the output.
  return toMicrousd(
    [
      [usage.input_tokens, prices.input],
      [usage.output_tokens, prices.output],
      [usage.cache_read_tokens, prices.cache_read],
      [usage.cache_write_tokens - long, prices.cache_write],
      [long, prices.cache_write_long ?? prices.cache_write],
    ],
    spent.times ?? 1,
  );
}

/** Returns the maximum cost: all input at its highest price, and the maximum output. */
export function boundMicrousd(
  row: PriceRow,
  bound: { inputTokens: number; outputTokens: number; times?: number | undefined },
): number {
  const computeBound = (prices: Prices): number => {
    const { input, cache_read, cache_write, cache_write_long } = prices;
    const inputPrice = Math.max(input, cache_read, cache_write, cache_write_long ?? 0);
    return toMicrousd(
      [
        [bound.inputTokens, inputPrice],
        [bound.outputTokens, prices.output],
      ],
      bound.times ?? 1,
    );
  };
  // The actual input may stay below the threshold, so neither row alone is the bound.
  const crosses = row.long !== undefined && bound.inputTokens > row.long.above_input_tokens;
  return crosses ? Math.max(computeBound(row), computeBound(row.long!)) : computeBound(row);
}

/** Returns the price multiplier of a client's options, such as faster service. */
export function readSurcharge(dialect: DialectName, body: JsonObject): number {
  let times = 1;
  const table: Record<string, Record<string, number>> = SURCHARGES[dialect];
  for (const [member, values] of Object.entries(table)) {
    const value = asText(body[member]);
    if (value !== undefined) times *= values[value] ?? values['*'] ?? 1;
  }
  return times;
}
