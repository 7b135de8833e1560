// Finds comments that open with a question word or with "Of". A comment starts with the thing and
// what it does: subject, verb, object.
import type { Finding } from '../source.ts';

/** Files with such a comment in the SQL of a migration, which must never change. */
const MIGRATIONS = new Set(['src/daemons/approvald/store/rows.ts']);

const opening = /^\s*(?:\/\/|\/\*\*?|#)\s*(What|Whether|Of)\b/;
const blockLine = /^\s*\*\s*(What|Whether|Of)\b/;
const blockStart = /^\s*\/\*\*?\s*$/;
const lineComment = /^\s*(?:\/\/|#)/;

export function checkCommentOpenings(path: string, lines: readonly string[]): Finding[] {
  if (MIGRATIONS.has(path)) return [];
  return lines.flatMap((line, i) => {
    const before = lines[i - 1] ?? '';
    const isFirst = !lineComment.test(before) || before.startsWith('#!');
    const match =
      (isFirst ? opening.exec(line) : null) ??
      (blockStart.test(before) ? blockLine.exec(line) : null);
    if (match === null) return [];
    const text = `a comment opens with "${match[1]}": begin with the thing and what it does`;
    return [{ path, line: i + 1, text }];
  });
}
