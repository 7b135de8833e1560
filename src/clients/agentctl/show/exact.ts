// Renders untrusted text exactly: invisible characters are escaped, and every line starts with a
// bar, also where it is wrapped, so that it cannot imitate output of agentctl.
import type { Paint, Style } from '../out.ts';
import { measureWidth, wrap } from './width.ts';

/**
 * Control, format and direction characters, private and unassigned ones, lone surrogates, invisible
 * ones, and every space but U+0020. Newlines and tabs are handled separately.
 */
const HIDDEN = /[\p{C}\p{Zl}\p{Zp}]|\p{Default_Ignorable_Code_Point}|(?! )\p{Zs}|\u2800/gu;

const escapeChar = (char: string): string =>
  `\\u{${char.codePointAt(0)!.toString(16).padStart(4, '0')}}`;

/** Escapes newlines too. */
export const escapeHidden = (text: string): string => text.replace(HIDDEN, escapeChar);

export const escapeLines = (text: string): string[] =>
  text.split('\n').map((line) => line.replaceAll('\t', '    ').replace(HIDDEN, escapeChar));

const BAR = '  │ ';
const MORE = '  ┆ ';

/** Starts each line with a bar, and each continuation with a broken one. */
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

/** Wraps at spaces where possible, else anywhere, so that the terminal never wraps. */
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

/** Counts characters outside printable ASCII, which may be lookalikes. */
export function countNonAscii(text: string): number {
  return [...text].filter((char) => char > '\u007e' || (char < ' ' && !'\n\t'.includes(char)))
    .length;
}
