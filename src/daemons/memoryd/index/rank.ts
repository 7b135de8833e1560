// Ranks candidates: the words that a record shares with the question, those of its neighbours and
// of the conversation around it, and factors for who, when and how important.
import { saturate, type WeighedTerm } from './candidates.ts';
import { fitOf } from './dates.ts';
import type { IndexEntry } from './entries.ts';
import { eachPosting, frequencyOf } from './postings.ts';
import type { Question } from './question.ts';
import { type Place, REACH, type Surroundings } from './surroundings.ts';

export type Ranked = {
  number: number;
  score: number;
  /** The words of the question that the record has. */
  words: string[];
  reasons: Reasons;
};

/** A score is the sum of the first ones, those without a factor, times each of the others. */
type Reasons = Record<string, number>;

/** Found on five conversations, each left out in turn; all are far from where they would harm. */
export const WEIGHTS = {
  related: 0.4,
  before: 0.2,
  questionBefore: 1,
  after: 0.4,
  secondBefore: 0.4,
  secondAfter: 0.4,
  conversation: 0.7,
  speaker: 1,
  tells_time: 0.4,
  date: 1.4,
  question: -0.2,
  importance: 0.3,
  recency: 0.1,
  proximity: 0.2,
};
export type Weights = Record<keyof typeof WEIGHTS, number>;
/**
 * Meaning is worth as much as all words of the question, where there are vectors. This was not
 * measured like the others, because it depends on the model.
 */
export const MEANING_WEIGHT = 1;
const DAY_MS = 86_400_000;
const RECENT_DAYS = 30;
const OLD_DAYS = 365;

export type RankInput = {
  question: Question;
  nowMs: number;
  /** By ordinal. */
  own: Float32Array;
  related: Float32Array;
  /** Weighed; undefined without a vector of the question. */
  meaning: Float32Array | undefined;
  terms: readonly WeighedTerm[];
  speakers: readonly WeighedTerm[];
  surroundings: Surroundings;
  weights: Weights;
};

/** The scores by which candidates are chosen. */
export function addScores(
  { own, related, meaning }: Pick<RankInput, 'own' | 'related' | 'meaning'>,
  weights: Weights,
): Float32Array {
  const scores = own.slice();
  for (let i = 0; i < scores.length; i++) scores[i]! += weights.related * related[i]!;
  if (meaning !== undefined) for (let i = 0; i < scores.length; i++) scores[i]! += meaning[i]!;
  return scores;
}

/** The best first. */
export function rank(input: RankInput): Ranked[] {
  const { surroundings, terms, speakers } = input;
  const frequencies = terms.map((term) => frequenciesIn(surroundings, term));
  const said = speakers.map((term) => frequenciesIn(surroundings, term));
  const ranked: Ranked[] = [];
  for (const chain of surroundings.chains()) {
    const conversation = new Conversation(chain, terms, frequencies);
    for (const [i, place] of chain.entries()) {
      conversation.advance(i);
      if (!surroundings.candidates.has(place)) continue;
      const sums = {
        own: input.own[place.ordinal]!,
        related: input.weights.related * input.related[place.ordinal]!,
        neighbours: neighboursOf(input, chain, i),
        conversation: input.weights.conversation * conversation.score(),
      };
      const meaning = input.meaning?.[place.ordinal] ?? 0;
      const isNamed = said.some((one) => one[place.slot]! > 0);
      const factors = factorsOf(input, place.entry, isNamed);
      const score = multiply(
        sums.own + sums.related + sums.neighbours + sums.conversation + meaning,
        factors,
      );
      const words = wordsIn(input, place, frequencies);
      const reasons = { ...sums, ...(meaning > 0 ? { meaning } : {}), ...factors };
      ranked.push({ number: place.entry.number, score, words, reasons });
    }
  }
  return ranked.sort((a, b) => b.score - a.score || b.number - a.number);
}

/** How often a term occurs in each place, by slot. */
function frequenciesIn({ places, slots }: Surroundings, { parts }: WeighedTerm): Float32Array {
  const frequencies = new Float32Array(places.size);
  for (const { postings, part } of parts)
    eachPosting(postings, part, (ordinal, weight) => {
      const slot = slots[ordinal]!;
      if (slot > 0) frequencies[slot - 1] = frequencyOf(weight);
    });
  return frequencies;
}

function wordsIn({ question, terms }: RankInput, { slot }: Place, frequencies: Float32Array[]) {
  return terms
    .filter((_, i) => frequencies[i]![slot]! > 0)
    .map(({ term }) => question.terms.get(term)!);
}

function neighboursOf({ own, weights }: RankInput, chain: readonly Place[], at: number): number {
  const of = (place: Place | undefined) => (place === undefined ? 0 : own[place.ordinal]!);
  const before = chain[at - 1];
  const first = before?.entry.isQuestion === true ? weights.questionBefore : weights.before;
  return (
    first * of(before) +
    weights.after * of(chain[at + 1]) +
    weights.secondBefore * of(chain[at - 2]) +
    weights.secondAfter * of(chain[at + 2])
  );
}

/** The places around one, scored as if they were one record. */
class Conversation {
  private readonly sums: Float64Array;
  private first = 0;
  private end = 0;
  private readonly chain: readonly Place[];
  private readonly terms: readonly WeighedTerm[];
  private readonly frequencies: readonly Float32Array[];

  constructor(chain: readonly Place[], terms: readonly WeighedTerm[], frequencies: Float32Array[]) {
    this.chain = chain;
    this.terms = terms;
    this.frequencies = frequencies;
    this.sums = new Float64Array(terms.length);
  }

  /** Moves to a place behind the one before. */
  advance(at: number): void {
    while (this.end < Math.min(at + REACH + 1, this.chain.length)) this.count(this.end++, 1);
    while (this.first < at - REACH) this.count(this.first++, -1);
  }

  score(): number {
    const size = 0.25 + (0.75 * (this.end - this.first)) / (2 * REACH + 1);
    let score = 0;
    for (let i = 0; i < this.terms.length; i++)
      score += this.terms[i]!.idf * saturate(this.sums[i]! / size);
    return score;
  }

  private count(at: number, sign: number): void {
    const { slot } = this.chain[at]!;
    for (let i = 0; i < this.sums.length; i++) this.sums[i]! += sign * this.frequencies[i]![slot]!;
  }
}

function factorsOf(
  { question, nowMs, weights }: RankInput,
  entry: IndexEntry,
  isNamed: boolean,
): Reasons {
  const factors: Reasons = {};
  const date = fitOf(question.dates, entry.atMs);
  const days = Math.max(nowMs - entry.atMs, 0) / DAY_MS;
  const recency = days > OLD_DAYS ? 0 : 2 ** (-days / RECENT_DAYS);
  if (isNamed) factors.speaker = 1 + weights.speaker;
  if (question.asksWhen && entry.tellsTime) factors.tells_time = 1 + weights.tells_time;
  if (date > 0) factors.date = 1 + weights.date * date;
  if (entry.isQuestion) factors.question = 1 + weights.question;
  if (entry.importance !== 0.5)
    factors.importance = 1 + weights.importance * (entry.importance - 0.5);
  if (recency > 0) factors.recency = 1 + weights.recency * recency;
  return factors;
}

function multiply(sum: number, factors: Reasons): number {
  let product = sum;
  for (const name in factors) product *= factors[name]!;
  return product;
}
