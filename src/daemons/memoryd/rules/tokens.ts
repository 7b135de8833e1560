// Estimates tokens and cuts recalled memories to a number of them. Pure.

const ASCII_CHARS_PER_TOKEN = 4;

/** Counts four ASCII characters as a token, and every other character as one. */
export function estimateTokens(text: string): number {
  let ascii = 0;
  let others = 0;
  for (const character of text) {
    if (character < '\u0080') ascii++;
    else others++;
  }
  return Math.ceil(ascii / ASCII_CHARS_PER_TOKEN) + others;
}

/** Keeps the first ones that fit together; one that is too long does not end it. */
export function cutToTokens<T extends { text: string }>(
  found: readonly T[],
  tokensMax: number | undefined,
): T[] {
  if (tokensMax === undefined) return [...found];
  let left = tokensMax;
  return found.filter(({ text }) => {
    const tokens = estimateTokens(text);
    if (tokens > left) return false;
    left -= tokens;
    return true;
  });
}
