// Text of others shown so that it hides nothing and imitates nothing: whatever would not show as
// itself is written out, and every line stands behind a bar, also where the terminal would wrap it.
import type { Paint, Style } from '../out.ts';
import { measureWidth, wrap } from './width.ts';

/**
 * Controls, format and direction marks, private and unassigned characters, lone surrogates, marks
 * that draw nothing, and every space or blank but the plain one. Lines and tabs are dealt with
 * apart.
 */
const HIDDEN = /[\p{C}\p{Zl}\p{Zp}]|\p{Default_Ignorable_Code_Point}|(?! )\p{Zs}|\u2800/gu;

const escapeChar = (char: string): string =>
  `\\u{${char.codePointAt(0)!.toString(16).padStart(4, '0')}}`;

/** One line of it: newlines are written out too. */
export const escapeHidden = (text: string): string => text.replace(HIDDEN, escapeChar);

/** Its lines, each in full. */
export const escapeLines = (text: string): string[] =>
  text.split('\n').map((line) => line.replaceAll('\t', '    ').replace(HIDDEN, escapeChar));

const BAR = '  │ ';
const MORE = '  ┆ ';

/** Behind a bar; a line that is too long goes on behind a broken one. */
export function fence(
  lines: readonly string[],
  { columns, paint }: { columns: number; paint: Paint },
  styleOf: (line: string) => Style | undefined = () => undefined,
): string[] {
  return lines.flatMap((line) => {
    const style = styleOf(line);
    return breakLine(line, columns - BAR.length).map((part, i) => {
      const text = style === undefined ? part : paint(style, part);
      return `${paint('dim', i === 0 ? BAR : MORE)}${text}`.trimEnd();
    });
  });
}

/** At spaces where there are any, and else anywhere: the terminal has nothing left to wrap. */
export const fold = (line: string, columns: number): string[] =>
  wrap(line, columns).flatMap((part) => breakLine(part, columns));

function breakLine(line: string, columns: number): string[] {
  if (measureWidth(line) <= columns) return [line];
  const parts: string[] = [];
  let part = '';
  let width = 0;
  for (const char of line) {
    const next = measureWidth(char);
    if (width + next > Math.max(columns, 8)) {
      parts.push(part);
      [part, width] = ['', 0];
    }
    part += char;
    width += next;
  }
  return [...parts, part];
}

/** Letters that look like others are not hidden, but worth a word. */
export function countNonAscii(text: string): number {
  return [...text].filter((char) => char > '\u007e' || (char < ' ' && !'\n\t'.includes(char)))
    .length;
}
