// Renders a unified diff of two texts, for approvers and for models that check their work. Bounded:
// very different texts are shown as one replaced by the other. Pure.
import { compareLines, findHunks } from '../../../platform/line-diff.ts';
import { fault } from '../../../wire/errors.ts';

function splitLines(text: string): string[] {
  return text === '' ? [] : text.replace(/\n$/, '').split('\n');
}

export type DiffNames = { from: string; to: string };

/** Returns an empty text when at most the final newline differs. */
export function unifiedDiff(before: string, after: string, names: DiffNames): string {
  const hunks = findHunks(compareLines(splitLines(before), splitLines(after)));
  if (hunks.length === 0) return '';
  const out = hunks.flatMap(({ oldStart, oldCount, newStart, newCount, lines }) => [
    `@@ -${oldStart},${oldCount} +${newStart},${newCount} @@`,
    ...lines.map(({ kind, text }) => kind + text),
  ]);
  return [`--- ${names.from}`, `+++ ${names.to}`, ...out, ''].join('\n');
}

const SHOWN_CHARS_MAX = 1_000_000;

/** Throws when the diff is too long for a person to review as a whole. */
export function assertShowable(diff: string): string {
  if (diff.length <= SHOWN_CHARS_MAX) return diff;
  throw fault('too_large', `the change is ${diff.length} characters long when shown to a person`, {
    hint: 'Make it in smaller parts, so that a person can review each.',
  });
}
