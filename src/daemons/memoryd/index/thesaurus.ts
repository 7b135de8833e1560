// Finds terms that mean nearly the same as one of a question, or are examples of it. The words are
// read when first needed.
import { stem } from '../../../platform/text/stem.ts';
import { GROUPS } from './thesaurus-groups.ts';
import { KINDS } from './thesaurus-kinds.ts';

let known: Map<string, Set<string>> | undefined;

export function relatedTerms(term: string): ReadonlySet<string> {
  known ??= readWords();
  return known.get(term) ?? NONE;
}

const NONE: ReadonlySet<string> = new Set();

function readWords(): Map<string, Set<string>> {
  const words = new Map<string, Set<string>>();
  const relate = (from: string, to: string): void => {
    if (from === to) return;
    const terms = words.get(from);
    if (terms === undefined) words.set(from, new Set([to]));
    else terms.add(to);
  };
  for (const line of linesOf(GROUPS)) {
    const group = termsIn(line);
    for (const from of group) for (const to of group) relate(from, to);
  }
  for (const line of linesOf(KINDS)) {
    const [kinds = '', examples = ''] = line.split(': ');
    for (const from of termsIn(kinds)) for (const to of termsIn(examples)) relate(from, to);
  }
  return words;
}

const linesOf = (text: string): string[] => text.trim().split('\n');
const termsIn = (words: string): string[] => words.split(' ').map(stem);
