// Splits texts into terms: words in the sense of Unicode, folded and stemmed. Han, kana and Hangul
// are also indexed as pairs of characters, because words are searched for inside longer ones.
import { stem } from './stem.ts';
import { STOP_WORDS } from './stopwords.ts';

const TERM_LENGTH_MAX = 64;
/** The beginning and the end are read of longer texts. */
const READ_MAX = 2 ** 19;
const IS_PLAIN = /^[\t\n\r -~]*$/;
/** Parts of ASCII texts are split by an expression, several times as fast as by the segmenter. */
const PART = /[!-~]+|[^!-~\s](?:[^!-~]*[^!-~\s])?/g;
const IS_ASCII = /^[!-~]/;
const ASCII_WORD = /[a-z0-9]+(?:(?:[._]|'(?=[a-z]))[a-z0-9]+)*/g;
const PAIRED = '[\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Hangul}ー]';
const PAIRED_RUN = new RegExp(`${PAIRED}+`, 'gu');
const STARTS_PAIRED = new RegExp(`^${PAIRED}`, 'u');
const HAN = /\p{Script=Han}/u;
const PICTURE = /\p{Extended_Pictographic}|\p{Regional_Indicator}/u;
/** Accents and vowel points, which people leave out. Elsewhere marks are letters. */
const ACCENTED = ['Latin', 'Greek', 'Cyrillic', 'Arabic', 'Hebrew'];
const ACCENTS = new RegExp(
  `(?<=[${ACCENTED.map((script) => `\\p{Script=${script}}`).join('')}])\\p{Mn}+`,
  'gu',
);
/** Invisible characters, variants and skin tones; not the joiner within a picture. */
const INVISIBLE = /(?!\u200d)\p{Cf}|[\ufe00-\ufe0f\u0640]|[\u{1f3fb}-\u{1f3ff}]/gu;

const words = new Intl.Segmenter('en', { granularity: 'word' });

/** Makes texts equal that differ only in case, accents, width, quotes or invisible characters. */
export function fold(text: string): string {
  const lower = text.toLowerCase();
  if (IS_PLAIN.test(lower)) return lower;
  return lower
    .toWellFormed()
    .normalize('NFKD')
    .replace(ACCENTS, '')
    .replace(INVISIBLE, '')
    .normalize('NFC')
    .replace(/[‘’ʼ]/g, "'")
    .replace(/[“”«»]/g, '"')
    .replace(/[–—…]/g, ' ')
    .replaceAll('ß', 'ss')
    .replaceAll('ς', 'σ');
}

/** The words of a text in order, folded but not stemmed, with the extra ones described above. */
export function wordsOf(text: string): string[] {
  const found: string[] = [];
  const folded = fold(withoutMiddle(text));
  if (IS_PLAIN.test(folded)) addAsciiWords(folded, found);
  else
    for (const part of folded.match(PART) ?? []) {
      if (IS_ASCII.test(part)) addAsciiWords(part, found);
      else addOtherWords(part, found);
    }
  return found;
}

/** Splitting a text of 10 MB would stop everything else for seconds. */
function withoutMiddle(text: string): string {
  if (text.length <= READ_MAX) return text;
  return `${text.slice(0, READ_MAX / 2)} ${text.slice(-READ_MAX / 2)}`;
}

/** The terms of a text in order. */
export function termsOf(text: string): string[] {
  return termsOfWords(wordsOf(text));
}

export function termsOfWords(found: readonly string[]): string[] {
  const telling = found.filter((word) => !STOP_WORDS.has(word));
  return (telling.length > 0 ? telling : found).map(stem);
}

function addAsciiWords(part: string, found: string[]): void {
  for (const word of part.match(ASCII_WORD) ?? []) {
    found.push(cut(word));
    if (/[._]/.test(word)) for (const piece of word.split(/[._]/)) found.push(cut(piece));
  }
}

const cut = (word: string): string =>
  word.length > TERM_LENGTH_MAX ? word.slice(0, TERM_LENGTH_MAX) : word;

function addOtherWords(part: string, found: string[]): void {
  for (const { segment, isWordLike } of words.segment(part)) {
    if (STARTS_PAIRED.test(segment)) {
      if (segment.length > 2) found.push(cut(segment));
    } else if (isWordLike === true || PICTURE.test(segment)) {
      found.push(cut(segment));
    }
  }
  for (const [run] of part.matchAll(PAIRED_RUN)) addPairs([...run], found);
}

function addPairs(run: readonly string[], found: string[]): void {
  run.forEach((character, i) => {
    if (i > 0) found.push(run[i - 1]! + character);
    if (run.length === 1 || HAN.test(character)) found.push(character);
  });
}
