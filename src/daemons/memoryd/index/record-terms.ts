// Takes from a record all that the index keeps: its terms, how often each occurs, and facts.

import { fold, termsOf, wordsOf } from '../../../platform/text/tokens.ts';
import { tellsTime } from './dates.ts';
import { weightOf } from './postings.ts';

export type IndexedRecord = {
  /** The journal's number, from 1. */
  number: number;
  scope: string;
  text: string;
  caption?: string | undefined;
  speaker?: string | undefined;
  /** Records of one conversation, in the order of `seq`; without it, in the order of indexing. */
  thread?: string | undefined;
  seq?: number | undefined;
  occurredAtMs?: number | undefined;
  recordedAtMs: number;
  /** 0 to 1. */
  importance?: number | undefined;
};

export type RecordTerms = {
  /** The terms of text and caption, in order, and the names of the speaker, marked. */
  terms: string[];
  weights: Map<string, number>;
  length: number;
  isQuestion: boolean;
  tellsTime: boolean;
};

const QUESTION_MARK = /[?？؟]/;
const END_LENGTH = 60;

/** Words never contain this. */
const SPEAKER_MARK = '@';
export const speakerTerm = (name: string): string => SPEAKER_MARK + name;
export const isSpeakerTerm = (term: string): boolean => term.startsWith(SPEAKER_MARK);

export function recordTerms(record: IndexedRecord): RecordTerms {
  const text = termsOf(record.text);
  const caption = record.caption === undefined ? [] : termsOf(record.caption);
  const names = record.speaker === undefined ? [] : wordsOf(record.speaker).map(speakerTerm);
  const length = text.length + caption.length;
  const inText = countEach(text);
  const inCaption = countEach(caption);
  const weights = new Map<string, number>();
  for (const term of [...inText.keys(), ...inCaption.keys()])
    weights.set(term, weightOf(inText.get(term) ?? 0, inCaption.get(term) ?? 0, length));
  for (const name of names) weights.set(name, weightOf(1, 0, 1));
  return {
    terms: [...text, ...caption, ...names],
    weights,
    length,
    isQuestion: QUESTION_MARK.test(record.text.slice(-END_LENGTH)),
    tellsTime: tellsTime(fold(record.text)),
  };
}

function countEach(terms: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const term of terms) counts.set(term, (counts.get(term) ?? 0) + 1);
  return counts;
}
