// What a call costs, in whole micro-USD, rounded up. Prices are rows; the first that fits wins.
import type { Usage } from '../../../wire/modeld.ts';
import type { DialectName } from './dialect.ts';
import { FALLBACK_PRICES, PRICE_ROWS, SURCHARGES } from './price-table.ts';
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

export type PriceBook = {
  find(provider: string, model: string): PriceRow & { isKnown: boolean };
};

/**
 * `claude-haiku-4-5-20251001`, `gpt-5-2025-08-07` and `openai/gpt-5` all have the price of their
 * family.
 */
function familyOf(model: string): string {
  const own = model.slice(model.lastIndexOf('/') + 1);
  return own.replace(/-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$/, '');
}

export function makePriceBook(
  options: { rows?: readonly PriceRow[]; fallback?: Prices } = {},
): PriceBook {
  const rows = [...(options.rows ?? []), ...PRICE_ROWS];
  const fallback = { model: '*', ...(options.fallback ?? FALLBACK_PRICES), isKnown: false };
  const known = new Map<string, PriceRow & { isKnown: boolean }>();
  const searchIn = (own: readonly PriceRow[], model: string): PriceRow | undefined => {
    const family = familyOf(model);
    return (
      own.find((row) => row.model === model) ??
      own.find((row) => row.model === family) ??
      own.find((row) => row.model === '*')
    );
  };
  // What is said of one provider, even of all its models, beats what is said of a model anywhere.
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
      const name = `${provider} ${model}`;
      const cached = known.get(name);
      if (cached !== undefined) return cached;
      const row = search(provider, model);
      const found = row === undefined ? fallback : { ...row, isKnown: true };
      if (known.size < 1_000) known.set(name, found);
      return found;
    },
  };
}

const micro = (usd: number): number => Math.round(usd * 1_000_000);

/** Price lists say dollars; the book counts millionths of them. */
export function rowOf(
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
    input: micro(price.input),
    output: micro(price.output),
    cache_read: micro(price.cache_read ?? price.input),
    cache_write: micro(price.cache_write ?? price.input),
  };
}

function pricesAt(row: PriceRow, inputTokens: number): Prices {
  return row.long !== undefined && inputTokens > row.long.above_input_tokens ? row.long : row;
}

const UNIT = 1_000_000_000;

/**
 * Sums of tokens times prices may pass what a number holds exactly; those are added up as big
 * integers.
 */
function toMicrousd(terms: readonly [tokens: number, price: number][], times: number): number {
  let sum = 0;
  for (const [tokens, price] of terms) sum += tokens * price;
  const scaled = sum * Math.ceil(times * 1_000);
  if (!(scaled <= Number.MAX_SAFE_INTEGER)) return toMicrousdLarge(terms, times);
  const whole = Math.floor(scaled / UNIT);
  // Exact, unlike the quotient: both are whole numbers that a number holds.
  const rest = scaled - whole * UNIT;
  return rest > 0 ? whole + 1 : whole;
}

function toMicrousdLarge(terms: readonly [tokens: number, price: number][], times: number): number {
  let sum = 0n;
  for (const [tokens, price] of terms) sum += BigInt(tokens) * BigInt(price);
  const scaled = sum * BigInt(Math.ceil(times * 1_000));
  const unit = BigInt(UNIT);
  return Number((scaled + unit - 1n) / unit);
}

export function costMicrousd(
  row: PriceRow,
  spent: { usage: Usage; cacheWriteLongTokens?: number | undefined; times?: number | undefined },
): number {
  const { usage } = spent;
  const input = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
  const prices = pricesAt(row, input);
  const long = Math.min(spent.cacheWriteLongTokens ?? 0, usage.cache_write_tokens);
  // Reasoning is part of the output and already in it.
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

/** The most a call can cost: all input at its dearest, all output that is allowed. */
export function boundMicrousd(
  row: PriceRow,
  bound: { inputTokens: number; outputTokens: number; times?: number | undefined },
): number {
  const most = (prices: Prices): number => {
    const { input, cache_read, cache_write, cache_write_long } = prices;
    const dearest = Math.max(input, cache_read, cache_write, cache_write_long ?? 0);
    return toMicrousd(
      [
        [bound.inputTokens, dearest],
        [bound.outputTokens, prices.output],
      ],
      bound.times ?? 1,
    );
  };
  // The real input may stay below the border, so neither row alone is the bound.
  const crosses = row.long !== undefined && bound.inputTokens > row.long.above_input_tokens;
  return crosses ? Math.max(most(row), most(row.long!)) : most(row);
}

/** How often the price a client's own wishes cost: faster service, a chosen region. */
export function surchargeOf(dialect: DialectName, body: JsonObject): number {
  let times = 1;
  const table: Record<string, Record<string, number>> = SURCHARGES[dialect];
  for (const [member, values] of Object.entries(table)) {
    const value = asText(body[member]);
    if (value !== undefined) times *= values[value] ?? values['*'] ?? 1;
  }
  return times;
}
