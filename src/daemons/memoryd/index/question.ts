// Reads a question: the terms to look for, whom it names, and the time it is about.

import { fold, termsOfWords, wordsOf } from '../../../platform/text/tokens.ts';
import { asksWhen, type Dates, datesIn } from './dates.ts';
import { speakerTerm } from './record-terms.ts';

export type Question = {
  /** Distinct, each with the word that the caller used. */
  terms: ReadonlyMap<string, string>;
  /** Terms of the speakers that it names. */
  speakers: string[];
  dates: Dates;
  asksWhen: boolean;
};

/** A whole text may be given as a question; its first words count. */
const WORDS_MAX = 300;

/**
 * `isSpeaker` answers for marked names of the scope. A speaker's name is not looked for in the
 * texts: people rarely say their own.
 */
export async function readQuestion(
  text: string,
  nowMs: number,
  isSpeaker: (term: string) => Promise<boolean>,
): Promise<Question> {
  const folded = fold(text);
  const dates = datesIn(folded, nowMs);
  const speakers = new Set<string>();
  const words: string[] = [];
  for (const word of wordsOf(dates.rest).slice(0, WORDS_MAX)) {
    const name = speakerTerm(word.replace(/'s$/, ''));
    if (speakers.has(name)) continue;
    if (await isSpeaker(name)) speakers.add(name);
    else words.push(word);
  }
  const terms = new Map<string, string>();
  const telling = termsOfWords(words);
  telling.forEach((term, i) => {
    if (!terms.has(term)) terms.set(term, words[i] ?? term);
  });
  return { terms, speakers: [...speakers], dates, asksWhen: asksWhen(folded) };
}
