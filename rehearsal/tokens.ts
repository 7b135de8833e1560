// The one token estimate of the rehearsal: a token is four characters. Also what a prompt cache
// would have done, worked out from the conversation alone so that a repeated request gives the same
// numbers.

export type TokenUsage = {
  /** Input tokens that were neither read from nor written to a cache. */
  readonly input_tokens: number;
  /** All output tokens, reasoning included. */
  readonly output_tokens: number;
  readonly cache_read_tokens: number;
  readonly cache_write_tokens: number;
  readonly reasoning_tokens: number;
};

export function estimateTokens(chars: number): number {
  return Math.ceil(chars / 4);
}

/** Both vendors cache no prompt shorter than this. */
const CACHE_TOKENS_MIN = 1024;

/** An image costs what 4000 characters cost, whatever its size. */
export const IMAGE_CHARS = 4000;

export type PromptSize = {
  readonly chars: number;
  /**
   * Characters up to the newest assistant message: what an earlier request of this loop has sent.
   */
  readonly previousChars: number;
  /** Characters up to the last cache mark; 0 when nothing is marked. */
  readonly breakpointChars: number;
};

type CacheMode = 'automatic' | 'explicit';

/**
 * How much of a prompt a cache would have held. OpenAI caches by itself, in steps of 128 tokens;
 * Anthropic caches what the caller has marked, and counts what it writes.
 */
export function splitInputTokens(
  size: PromptSize,
  mode: CacheMode,
): Pick<TokenUsage, 'input_tokens' | 'cache_read_tokens' | 'cache_write_tokens'> {
  const total = Math.max(1, estimateTokens(size.chars));
  const previous = estimateTokens(size.previousChars);
  if (mode === 'automatic') {
    const read = previous < CACHE_TOKENS_MIN ? 0 : Math.floor(previous / 128) * 128;
    return { input_tokens: total - read, cache_read_tokens: read, cache_write_tokens: 0 };
  }
  const cacheable = estimateTokens(size.breakpointChars);
  if (cacheable < CACHE_TOKENS_MIN) {
    return { input_tokens: total, cache_read_tokens: 0, cache_write_tokens: 0 };
  }
  const read = previous < CACHE_TOKENS_MIN ? 0 : Math.min(previous, cacheable);
  return {
    input_tokens: total - cacheable,
    cache_read_tokens: read,
    cache_write_tokens: cacheable - read,
  };
}
