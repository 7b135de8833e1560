// Writes what happened in a thread in a few lines, by rule: who, what, and how it ended. Pure.

export type DigestLine = { who: string; text: string | null; outcome?: string };

const LINES_MAX = 8;
const TEXT_CHARS_MAX = 200;

/** Text of null is not shown, because it would mark who reads it. */
export function writeDigest(title: string, lines: readonly DigestLine[]): string {
  const shown = lines.slice(-LINES_MAX);
  const left = lines.length - shown.length;
  return [
    `${title}${left === 0 ? '' : ` (the last ${shown.length} of ${lines.length})`}:`,
    ...shown.map(({ who, text, outcome }) => {
      const end = outcome === undefined ? '' : ` → ${outcome}`;
      return `- ${who}: ${text === null ? '(not shown)' : shorten(text)}${end}`;
    }),
  ].join('\n');
}

/** The first paragraph, in one line. */
export function shorten(text: string): string {
  const [first = ''] = text.trim().split(/\n\s*\n/, 1);
  const line = first.replace(/[\s\p{Cc}]+/gu, ' ').trim();
  return line.length > TEXT_CHARS_MAX ? `${line.slice(0, TEXT_CHARS_MAX)}…` : line;
}
