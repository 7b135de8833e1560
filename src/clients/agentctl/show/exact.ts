// Renders untrusted text exactly: invisible characters are escaped, and every line starts with a
// bar, also where it is wrapped, so that it cannot imitate output of agentctl.
import type { Paint, Style } from '../out.ts';
import { measureWidth, wrap } from './width.ts';

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
