// Estimates tokens, at four characters per token, and simulates a prompt cache. The cache depends
// on the conversation alone, so that a repeated request gets the same numbers.

export type TokenUsage = {
  /** Input tokens that were neither read from nor written to a cache. */
  readonly input_tokens: number;
  /** All output tokens, including reasoning. */
  readonly output_tokens: number;
  readonly cache_read_tokens: number;
  readonly cache_write_tokens: number;
  readonly reasoning_tokens: number;
};

export function estimateTokens(chars: number): number {
  return Math.ceil(chars / 4);
}

/** Neither vendor caches a shorter prompt. */
const CACHE_TOKENS_MIN = 1024;

/** An image of any size counts as this many characters. */
export const IMAGE_CHARS = 4000;

export type PromptSize = {
  readonly chars: number;
  /**
   * Characters before the newest assistant message: the prompt of the previous request.
   */
  readonly previousChars: number;
  /** Characters up to the last cache breakpoint; 0 without one. */
  readonly breakpointChars: number;
};

type CacheMode = 'automatic' | 'explicit';

/**
 * Splits the input tokens into uncached, read from cache and written to cache. OpenAI caches
 * automatically, in steps of 128 tokens; Anthropic caches up to explicit breakpoints, and counts
 * cache writes.
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
