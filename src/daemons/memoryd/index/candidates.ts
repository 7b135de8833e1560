// Finds the records of a scope that match best word by word: BM25 over the postings, rarest terms
// first, within a budget, so that the cost does not grow with the scope.
import type { Sql } from '../../../platform/sql/database.ts';
import type { ScopeRow } from './add.ts';
import { type PostingsPart, partsOf, recordsWith } from './parts.ts';
import { eachPosting, frequencyOf, lengthOf } from './postings.ts';
import type { Question } from './question.ts';
import { relatedTerms } from './thesaurus.ts';

/** Terms and postings that are read for a question in a scope; the most common do without. */
const MOST = { termsMax: 32, postingsMax: 60_000 };
const MOST_RELATED = { termsMax: 128, postingsMax: 30_000 };
/** Looked at when a question has no words to look for. */
const NEWEST = 2_000;
const EQUAL = 0.01;
const K1 = 1.2;
const LENGTH_SHARE = 0.4;

export type WeighedTerm = { term: string; idf: number; parts: PostingsPart[] };

/** The terms that occur in the scope, rarest first, each with its newest postings. */
export async function readTerms(
  sql: Sql,
  scope: ScopeRow,
  terms: Iterable<string>,
  { termsMax, postingsMax } = MOST,
): Promise<WeighedTerm[]> {
  const counted: { term: string; records: number }[] = [];
  for (const term of terms) {
    const records = await recordsWith(sql, scope.id, term);
    if (records > 0) counted.push({ term, records });
  }
  counted.sort((a, b) => a.records - b.records);
  const read: WeighedTerm[] = [];
  let budget = postingsMax;
  for (const { term, records } of counted.slice(0, termsMax)) {
    if (budget <= 0) break;
    const parts: PostingsPart[] = [];
    for (const part of await partsOf(sql, scope.id, term)) {
      if (budget <= 0) break;
      parts.push(part);
      budget -= part.records;
    }
    read.push({ term, idf: idfOf(records, scope.records), parts });
  }
  return read;
}

export function idfOf(records: number, all: number): number {
  return Math.log(1 + (all - records + 0.5) / (records + 0.5));
}

/** Terms that mean the same as those of the question, each no rarer than the one it stands for. */
export async function readRelated(
  sql: Sql,
  scope: ScopeRow,
  { terms }: Question,
  found: readonly WeighedTerm[],
): Promise<WeighedTerm[]> {
  const idfs = new Map(found.map(({ term, idf }) => [term, idf]));
  const caps = new Map<string, number>();
  for (const term of [...terms.keys()].slice(0, MOST.termsMax))
    for (const related of relatedTerms(term)) {
      const cap = Math.max(idfs.get(term) ?? Infinity, caps.get(related) ?? 0);
      if (!terms.has(related)) caps.set(related, cap);
    }
  const read = await readTerms(sql, scope, caps.keys(), MOST_RELATED);
  return read.map((one) => ({ ...one, idf: Math.min(one.idf, caps.get(one.term)!) }));
}

/** The worth of each possible weight of a posting, before the rarity of its term. */
function worths(scope: ScopeRow): Float32Array {
  const average = Math.max(scope.terms / scope.records, 1);
  return Float32Array.from({ length: 256 }, (_, weight) => {
    const size = 1 - LENGTH_SHARE + (LENGTH_SHARE * lengthOf(weight)) / average;
    return saturate(frequencyOf(weight) / size);
  });
}

export const saturate = (frequency: number): number => (frequency * (K1 + 1)) / (frequency + K1);

/** The sum over the terms, by ordinal. */
export function matchEach(scope: ScopeRow, terms: readonly WeighedTerm[]): Float32Array {
  const scores = new Float32Array(scope.next);
  const worthOf = worths(scope);
  for (const { idf, parts } of terms)
    for (const { postings, part } of parts)
      eachPosting(postings, part, (ordinal, weight) => {
        scores[ordinal]! += idf * worthOf[weight]!;
      });
  return scores;
}

/** For questions of which only names and dates are known: equal scores for the newest records. */
export function matchNewest(
  scope: ScopeRow,
  { dates }: Question,
  speakers: readonly WeighedTerm[],
): Float32Array {
  const scores = new Float32Array(scope.next);
  if (speakers.length === 0 && dates.spans.length + dates.months.length === 0) return scores;
  const first = Math.max(scope.next - NEWEST, 1);
  if (speakers.length === 0) return scores.fill(EQUAL, first);
  for (const { parts } of speakers)
    for (const { postings, part } of parts)
      eachPosting(postings, part, (ordinal) => {
        scores[ordinal] = EQUAL;
      });
  return scores;
}
