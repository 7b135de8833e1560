// Measures how close together a record has the words that follow each other in the question.
import type { WeighedTerm } from './candidates.ts';
import type { Question } from './question.ts';

const NEAR = 3;

/** The share of the question's pairs of words that are near each other, weighed by rarity. */
export function proximityOf(
  said: readonly string[],
  question: Question,
  terms: readonly WeighedTerm[],
): number {
  const idfs = new Map(terms.map(({ term, idf }) => [term, idf]));
  const asked = [...question.terms.keys()];
  let near = 0;
  let all = 0;
  for (const [i, first] of asked.entries()) {
    const second = asked[i + 1];
    if (second === undefined) break;
    const idf = Math.min(idfs.get(first) ?? 0, idfs.get(second) ?? 0);
    all += idf;
    if (idf > 0 && areNear(said, first, second)) near += idf;
  }
  return all === 0 ? 0 : near / all;
}

function areNear(said: readonly string[], first: string, second: string): boolean {
  for (let at = said.indexOf(first); at >= 0; at = said.indexOf(first, at + 1)) {
    const found = said.indexOf(second, Math.max(at - NEAR, 0));
    if (found >= 0 && found <= at + NEAR) return true;
  }
  return false;
}
