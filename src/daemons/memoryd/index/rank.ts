// Ranks candidates: the words that a record shares with the question, those of its neighbours and
// of the conversation around it, and factors for who, when and how important.
import { saturate, type WeighedTerm } from './candidates.ts';
import { fitOf } from './dates.ts';
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

/** A score is the sum of the first four, times each of the others. */
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
const DAY_MS = 86_400_000;
const RECENT_DAYS = 30;

export type RankInput = {
  question: Question;
  nowMs: number;
  /** By ordinal. */
  own: Float32Array;
  related: Float32Array;
  terms: readonly WeighedTerm[];
  speakers: readonly WeighedTerm[];
  surroundings: Surroundings;
  weights: Weights;
};

/** The scores by which candidates are chosen. */
export function addScores(
  own: Float32Array,
  related: Float32Array,
  weights: Weights,
): Float32Array {
  return own.map((score, i) => score + weights.related * related[i]!);
}

/** The best first. */
export function rank(input: RankInput): Ranked[] {
  const { surroundings, terms, speakers, weights } = input;
  const frequencies = terms.map((term) => frequenciesIn(surroundings, term));
  const said = speakers.map((term) => frequenciesIn(surroundings, term));
  const ranked = [...surroundings.candidates].map((place) => {
    const own = input.own[place.ordinal]!;
    const related = weights.related * input.related[place.ordinal]!;
    const neighbours = neighboursOf(input, place);
    const conversation = weights.conversation * conversationOf(input, place, frequencies);
    const factors = factorsOf(input, place, said);
    const sum = own + related + neighbours + conversation;
    const score = Object.values(factors).reduce((product, factor) => product * factor, sum);
    const words = wordsIn(input, place, frequencies);
    const reasons = { own, related, neighbours, conversation, ...factors };
    return { number: place.entry.number, score, words, reasons };
  });
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

function neighboursOf({ own, surroundings, weights }: RankInput, place: Place): number {
  const [before, secondBefore] = surroundings.beside(place, 'before', 2);
  const [after, secondAfter] = surroundings.beside(place, 'after', 2);
  const of = (one: Place | undefined) => (one === undefined ? 0 : own[one.ordinal]!);
  const first = before?.entry.isQuestion === true ? weights.questionBefore : weights.before;
  return (
    first * of(before) +
    weights.after * of(after) +
    weights.secondBefore * of(secondBefore) +
    weights.secondAfter * of(secondAfter)
  );
}

/** The score of the conversation around a place, as if it were one record. */
function conversationOf(
  { surroundings, terms }: RankInput,
  place: Place,
  frequencies: Float32Array[],
): number {
  const around = [
    place,
    ...surroundings.beside(place, 'before', REACH),
    ...surroundings.beside(place, 'after', REACH),
  ];
  const size = 0.25 + (0.75 * around.length) / (2 * REACH + 1);
  return terms.reduce((sum, { idf }, i) => {
    const frequency = around.reduce((all, { slot }) => all + frequencies[i]![slot]!, 0);
    return sum + idf * saturate(frequency / size);
  }, 0);
}

function factorsOf(
  { question, nowMs, weights }: RankInput,
  { entry, slot }: Place,
  said: Float32Array[],
): Reasons {
  const factors: Reasons = {};
  const set = (name: keyof Weights, share: number) => {
    if (share !== 0) factors[name] = 1 + weights[name] * share;
  };
  const days = Math.max(nowMs - entry.atMs, 0) / DAY_MS;
  set('speaker', said.some((one) => one[slot]! > 0) ? 1 : 0);
  set('tells_time', question.asksWhen && entry.tellsTime ? 1 : 0);
  set('date', fitOf(question.dates, entry.atMs));
  set('question', entry.isQuestion ? 1 : 0);
  set('importance', entry.importance - 0.5);
  set('recency', Number((2 ** (-days / RECENT_DAYS)).toFixed(3)));
  return factors;
}
