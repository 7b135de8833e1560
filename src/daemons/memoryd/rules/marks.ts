// The labels of memories: sets that the platform stamps. What is made of other memories carries the
// marks of all of them; only a person can vouch for a text. Pure.
import { type Label, MARKS } from '../../../wire/primitives.ts';

export const filterMarks = (labels: readonly Label[]): Label[] =>
  MARKS.filter((mark) => labels.includes(mark));

/** The author, and every mark of the author, of the request and of what went in. */
export function stampLabels(author: Label, ...sources: readonly (readonly Label[])[]): Label[] {
  return [author, ...filterMarks(sources.flat())];
}

/** The union: of authors too. */
export const uniteLabels = (...sets: readonly (readonly Label[])[]): Label[] => [
  ...new Set(sets.flat()),
];
