// Stems English words: the Snowball English stemmer ("Porter 2"), after irregular forms were
// replaced by their base forms. Other words come back unchanged.
import { IRREGULAR } from './irregular.ts';

const VOWEL = /[aeiouy]/;
const DOUBLE = /(?<!^[aeo])(bb|dd|ff|gg|mm|nn|pp|rr|tt)$/;
const SHORT_SYLLABLE = /(^[aeiouy][^aeiouy]|[^aeiouy][aeiouy][^aeiouywxY])$/;
const ENGLISH = /^[a-z][a-z']*$/;

const WHOLE: Readonly<Record<string, string>> = {
  skis: 'ski',
  skies: 'sky',
  idly: 'idl',
  gently: 'gentl',
  ugly: 'ugli',
  early: 'earli',
  only: 'onli',
  singly: 'singl',
  sky: 'sky',
  news: 'news',
  howe: 'howe',
  atlas: 'atlas',
  cosmos: 'cosmos',
  bias: 'bias',
  andes: 'andes',
};
const DONE_AFTER_PLURAL = new Set(
  'inning outing canning herring earring evening proceed exceed succeed'.split(' '),
);

/** Longer endings first: only the longest that matches is tried. */
type Endings = readonly (readonly [ending: string, replacement: string, after?: RegExp])[];
const STEP_2: Endings = [
  ['ization', 'ize'],
  ['ational', 'ate'],
  ['fulness', 'ful'],
  ['ousness', 'ous'],
  ['iveness', 'ive'],
  ['tional', 'tion'],
  ['biliti', 'ble'],
  ['lessli', 'less'],
  ['entli', 'ent'],
  ['ation', 'ate'],
  ['alism', 'al'],
  ['aliti', 'al'],
  ['ousli', 'ous'],
  ['iviti', 'ive'],
  ['fulli', 'ful'],
  ['enci', 'ence'],
  ['anci', 'ance'],
  ['abli', 'able'],
  ['izer', 'ize'],
  ['ator', 'ate'],
  ['alli', 'al'],
  ['bli', 'ble'],
  ['ogist', 'og'],
  ['ogi', 'og', /l$/],
  ['li', '', /[cdeghkmnrt]$/],
];
const STEP_3: Endings = [
  ['ational', 'ate'],
  ['tional', 'tion'],
  ['alize', 'al'],
  ['icate', 'ic'],
  ['iciti', 'ic'],
  ['ical', 'ic'],
  ['ness', ''],
  ['ful', ''],
];
const STEP_4: Endings = [
  ['ement', ''],
  ['ance', ''],
  ['ence', ''],
  ['able', ''],
  ['ible', ''],
  ['ment', ''],
  ['ant', ''],
  ['ent', ''],
  ['ism', ''],
  ['ate', ''],
  ['iti', ''],
  ['ous', ''],
  ['ive', ''],
  ['ize', ''],
  ['ion', '', /[st]$/],
  ['al', ''],
  ['er', ''],
  ['ic', ''],
];

/** Stems of words seen lately: texts repeat a few words most of the time. */
const seen = new Map<string, string>();
const SEEN_MAX = 4_096;

export function stem(word: string): string {
  if (!ENGLISH.test(word)) return word;
  const known = seen.get(word);
  if (known !== undefined) return known;
  if (seen.size >= SEEN_MAX) seen.clear();
  const stemmed = stemAnew(word);
  seen.set(word, stemmed);
  return stemmed;
}

function stemAnew(word: string): string {
  const plain = word.replace(/'s?'?$/, '').replaceAll("'", '');
  const base = IRREGULAR.get(plain) ?? plain;
  if (base.length <= 2) return base;
  return WHOLE[base] ?? stemRegular(base);
}

function stemRegular(base: string): string {
  // A y that is a consonant becomes Y.
  let word = base.replace(/^y/, 'Y').replace(/([aeiouy])y/g, '$1Y');
  const r1 = startOfR1(word);
  const r2 = afterFirstSyllable(word, r1);
  word = withoutPlural(word);
  if (!DONE_AFTER_PLURAL.has(word)) {
    word = withoutPast(word, r1).replace(/(?<=.[^aeiouy])[yY]$/, 'i');
    word = replaceEnding(word, STEP_2, r1);
    word =
      word.endsWith('ative') && word.length - 5 >= r2
        ? word.slice(0, -5)
        : replaceEnding(word, STEP_3, r1);
    word = replaceEnding(word, STEP_4, r2);
    word = withoutLast(word, r1, r2);
  }
  return word.replaceAll('Y', 'y');
}

function startOfR1(word: string): number {
  const special = /^(gener|commun|arsen|past|univers|later|emerg|organ|inter)/.exec(word);
  return special === null ? afterFirstSyllable(word, 0) : special[0].length;
}

/** Where the part behind the first consonant that follows a vowel begins. */
function afterFirstSyllable(word: string, from: number): number {
  const found = /[aeiouy][^aeiouy]/.exec(word.slice(from));
  return found === null ? word.length : from + found.index + 2;
}

function withoutPlural(word: string): string {
  if (word.endsWith('sses')) return word.slice(0, -2);
  if (/ie[ds]$/.test(word)) return word.slice(0, word.length > 4 ? -2 : -1);
  if (/[us]s$/.test(word) || !word.endsWith('s')) return word;
  return VOWEL.test(word.slice(0, -2)) ? word.slice(0, -1) : word;
}

function withoutPast(word: string, r1: number): string {
  const eed = /eed(ly)?$/.exec(word);
  if (eed !== null) return eed.index >= r1 ? `${word.slice(0, eed.index)}ee` : word;
  const ending = /(ed|ing)(ly)?$/.exec(word);
  if (ending === null || !VOWEL.test(word.slice(0, ending.index))) return word;
  const rest = word.slice(0, ending.index);
  if (/(at|bl|iz)$/.test(rest)) return `${rest}e`;
  if (DOUBLE.test(rest)) return rest.slice(0, -1);
  return rest.length <= r1 && SHORT_SYLLABLE.test(rest) ? `${rest}e` : rest;
}

function replaceEnding(word: string, endings: Endings, region: number): string {
  for (const [ending, replacement, after] of endings) {
    if (!word.endsWith(ending)) continue;
    const rest = word.slice(0, -ending.length);
    const applies = rest.length >= region && (after === undefined || after.test(rest));
    return applies ? rest + replacement : word;
  }
  return word;
}

function withoutLast(word: string, r1: number, r2: number): string {
  const rest = word.slice(0, -1);
  if (word.endsWith('e')) {
    const goes = rest.length >= r2 || (rest.length >= r1 && !SHORT_SYLLABLE.test(rest));
    return goes ? rest : word;
  }
  return word.endsWith('ll') && rest.length >= r2 ? rest : word;
}
