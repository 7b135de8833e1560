// Ranks a few short texts by how well they answer a question: BM25 over stemmed terms, in memory.
// An index is built once and asked often; larger sets are memoryd's.
import { termsOf } from './tokens.ts';

export type RankedText = {
  id: string;
  score: number;
  /** The terms of the question that it has and at most half of the texts have. */
  telling: readonly string[];
};
export type TextRanking = {
  /** Best first; those without a common term are left out. */
  rank(question: string): RankedText[];
};

const SATURATION = 1.2;
const LENGTH_WEIGHT = 0.75;
/** The question may be a whole document; its beginning says what it is about. */
const QUESTION_CHARS_MAX = 20_000;

export function makeTextRanking(texts: readonly { id: string; text: string }[]): TextRanking {
  const entries = texts.map(({ id, text }) => {
    const counts = new Map<string, number>();
    const terms = termsOf(text);
    for (const term of terms) counts.set(term, (counts.get(term) ?? 0) + 1);
    return { id, counts, length: terms.length };
  });
  const holders = new Map<string, number>();
  for (const { counts } of entries)
    for (const term of counts.keys()) holders.set(term, (holders.get(term) ?? 0) + 1);
  const average = entries.reduce((sum, { length }) => sum + length, 0) / (entries.length || 1);
  const isTelling = (term: string): boolean =>
    (holders.get(term) ?? 0) <= Math.max(1, entries.length / 2);
  return {
    rank(question) {
      const asked = [...new Set(termsOf(question.slice(0, QUESTION_CHARS_MAX)))].filter((term) =>
        holders.has(term),
      );
      return entries
        .map(({ id, counts, length }) => {
          const found = asked.filter((term) => counts.has(term));
          const norm = 1 - LENGTH_WEIGHT + (LENGTH_WEIGHT * length) / (average || 1);
          const score = found.reduce((sum, term) => {
            const held = holders.get(term)!;
            const rarity = Math.log(1 + (entries.length - held + 0.5) / (held + 0.5));
            const count = counts.get(term)!;
            return sum + (rarity * count * (SATURATION + 1)) / (count + SATURATION * norm);
          }, 0);
          return { id, score, telling: found.filter(isTelling) };
        })
        .filter(({ score }) => score > 0)
        .sort((a, b) => b.score - a.score || (a.id < b.id ? -1 : 1));
    },
  };
}
