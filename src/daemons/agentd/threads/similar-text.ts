// Decides whether two messages say the same. Pure, and without a model: a loop is to be found by a
// rule that a person can repeat by hand.

/** Beyond this, texts are compared by their beginning. */
export const COMPARED_CHARS = 8_000;
/** Shorter texts are the same only if their words are. */
const WORDS_MIN = 8;
const SHARE_MIN = 0.9;

const listWords = (text: string): string[] =>
  text
    .slice(0, COMPARED_CHARS)
    .normalize('NFKC')
    .toLowerCase()
    .match(/[\p{L}\p{N}]+/gu) ?? [];

const isNumber = (word: string): boolean => /^\p{N}+$/u.test(word);

/** Case, spaces and punctuation do not count. Numbers do: a figure that moves is progress. */
export function isSameText(a: string, b: string): boolean {
  const [first, second] = [listWords(a), listWords(b)];
  if (first.length === 0 || second.length === 0) return a.trim() === b.trim();
  if (first.join(' ') === second.join(' ')) return true;
  const [left, right] = [new Set(first), new Set(second)];
  if (Math.min(left.size, right.size) < WORDS_MIN) return false;
  const differing = [...left.symmetricDifference(right)];
  if (differing.some(isNumber)) return false;
  return left.intersection(right).size / left.union(right).size >= SHARE_MIN;
}
