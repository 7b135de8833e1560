// Makes up memories for measuring speed: invented words, as frequent as words are in a language,
// in threads of some turns.
import type { IndexedRecord } from '../../src/daemons/memoryd/index/index.ts';

const VOCABULARY = 30_000;
/** The higher, the less frequent are the most frequent words. */
const EVENNESS = 8;
const CONSONANTS = 'bcdfghklmnprstvw';
const VOWELS = 'aeiou';
const TURNS_PER_THREAD = 25;
const WORDS = { min: 8, max: 38 };
const QUESTION_WORDS = { min: 4, max: 8 };
const SPEAKERS = ['Ann', 'Bo', 'Cy'];
const FIRST_MS = Date.UTC(2024, 0);
const MINUTE_MS = 60_000;

export type Memories = {
  /** The next records of a scope. */
  take(scope: string, count: number): IndexedRecord[];
  /** Questions with words as frequent as in the texts. */
  question(): string;
};

export function makeMemories(): Memories {
  let seed = 7;
  const random = (): number => {
    seed = (seed * 1_664_525 + 1_013_904_223) >>> 0;
    return seed / 2 ** 32;
  };
  const between = ({ min, max }: { min: number; max: number }) =>
    min + Math.floor(random() * (max - min + 1));
  const sums = new Float64Array(VOCABULARY);
  for (let i = 0, sum = 0; i < VOCABULARY; i++) {
    sum += 1 / (i + EVENNESS);
    sums[i] = sum;
  }
  const pick = (): string => {
    const wanted = random() * sums.at(-1)!;
    let low = 0;
    let high = VOCABULARY - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sums[middle]! < wanted) low = middle + 1;
      else high = middle;
    }
    return wordOf(low);
  };
  const words = (count: number): string => Array.from({ length: count }, pick).join(' ');
  const taken = new Map<string, number>();
  let number = 0;
  return {
    take(scope, count) {
      const from = taken.get(scope) ?? 0;
      taken.set(scope, from + count);
      return Array.from({ length: count }, (_, i): IndexedRecord => {
        const nth = from + i;
        const atMs = FIRST_MS + nth * MINUTE_MS;
        return {
          number: ++number,
          scope,
          text: `${words(between(WORDS))}${nth % 5 === 0 ? '?' : '.'}`,
          speaker: SPEAKERS[nth % SPEAKERS.length]!,
          thread: `t${Math.floor(nth / TURNS_PER_THREAD)}`,
          seq: nth % TURNS_PER_THREAD,
          occurredAtMs: atMs,
          recordedAtMs: atMs,
        };
      });
    },
    question: () => `What did ${SPEAKERS[0]} say about ${words(between(QUESTION_WORDS))}?`,
  };
}

function wordOf(rank: number): string {
  let word = '';
  for (let left = rank + 50; left > 0; left = Math.floor(left / (16 * 5)))
    word += CONSONANTS[left % 16]! + VOWELS[Math.floor(left / 16) % 5]!;
  return word;
}
