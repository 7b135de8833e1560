// Renders tables that fit the terminal: columns are as wide as their content; flexible ones shrink,
// widest first, and where that is not enough the other texts, as far as they still differ.
import { type Paint, paintNothing, type Style } from '../out.ts';
import { toOneLine } from './plain.ts';
import { measureWidth, pad, truncate, wrap } from './width.ts';

export type TableColumn = {
  title: string;
  align?: 'right';
  /**
   * The column may shrink to this width; `distinct`: as far as its values still differ. Absent: it
   * keeps its width while others can shrink.
   */
  minWidth?: number | 'distinct';
};
export type Cell = string | { text: string; style: Style };

const GAP = '  ';
/** Enough of an id to be unique, for a while. */
const DISTINCT_WIDTH_MIN = 20;
/** The least width of a column that is shrunk last. */
const LAST_WIDTH_MIN = 8;
/** On a narrower terminal, the terminal wraps. */
const VALUE_COLUMNS_MIN = 30;

export type TableOptions = { columns?: number; paint?: Paint; indent?: string };

export function renderTable(
  headers: readonly TableColumn[],
  rows: readonly (readonly Cell[])[],
  { columns = Number.POSITIVE_INFINITY, paint = paintNothing, indent = '' }: TableOptions = {},
): string[] {
  const texts = rows.map((row) => row.map((cell) => toOneLine(readText(cell))));
  const natural = headers.map((head, i) =>
    Math.max(measureWidth(head.title), ...texts.map((row) => measureWidth(row[i] ?? ''))),
  );
  const gaps = indent.length + GAP.length * (headers.length - 1);
  const distinct = headers.map((_, i) => measureDistinct(texts.map((row) => row[i] ?? '')));
  const floors = headers.map(({ title, align, minWidth }, i) => ({
    first:
      minWidth === 'distinct'
        ? Math.max(distinct[i]!, DISTINCT_WIDTH_MIN)
        : (minWidth ?? natural[i]!),
    // A number that is cut is another number.
    last:
      align === 'right' || minWidth !== undefined
        ? natural[i]!
        : Math.max(distinct[i]!, measureWidth(title), LAST_WIDTH_MIN),
  }));
  const widthMax = columns - gaps;
  const firstWidths = shrink(
    natural,
    floors.map(({ first }) => first),
    widthMax,
  );
  const widths = shrink(
    firstWidths,
    floors.map(({ last }) => last),
    widthMax,
  );
  const renderRow = (row: readonly string[], style: (i: number) => Style | undefined): string => {
    const cells = headers.map((head, i) => {
      const text = truncate(row[i] ?? '', widths[i]!);
      const side = head.align === 'right' ? 'left' : 'right';
      const isLast = i === headers.length - 1 && side === 'right';
      const padded = isLast ? text : pad(text, widths[i]!, side);
      const painted = style(i);
      return painted === undefined ? padded : paint(painted, padded);
    });
    return (indent + cells.join(GAP)).trimEnd();
  };
  return [
    renderRow(
      headers.map(({ title }) => title),
      () => 'dim',
    ),
    ...texts.map((row, r) => renderRow(row, (i) => readStyle(rows[r]![i]!))),
  ];
}

const readText = (cell: Cell): string => (typeof cell === 'string' ? cell : cell.text);
const readStyle = (cell: Cell | undefined): Style | undefined =>
  cell === undefined || typeof cell === 'string' ? undefined : cell.style;

/** The width that tells every two different values apart, with the … of the cut. */
function measureDistinct(texts: readonly string[]): number {
  const sorted = [...new Set(texts)].sort();
  const common = sorted.slice(1).map((text, i) => {
    const before = sorted[i]!;
    const at = [...text].findIndex((char, n) => char !== before[n]);
    return at < 0 ? text.length : at;
  });
  return Math.max(0, ...common) + 2;
}

function shrink(natural: readonly number[], floors: readonly number[], widthMax: number): number[] {
  const widths = [...natural];
  const minWidth = (i: number) => Math.max(floors[i]!, 1);
  for (;;) {
    const over = widths.reduce((sum, width) => sum + width, 0) - widthMax;
    if (over <= 0) return widths;
    const open = widths.map((_, i) => i).filter((i) => widths[i]! > minWidth(i));
    const widest = open.toSorted((a, b) => widths[b]! - widths[a]!)[0];
    if (widest === undefined) return widths;
    const second = Math.max(0, ...open.filter((i) => i !== widest).map((i) => widths[i]!));
    const step = Math.min(over, Math.max(1, widths[widest]! - second));
    widths[widest] = Math.max(minWidth(widest), widths[widest]! - step);
  }
}

/** Renders `name  value` lines; a value may have several lines. */
export function renderFields(
  fields: readonly (readonly [name: string, value: string | undefined])[],
  paint: Paint,
  columns = Number.POSITIVE_INFINITY,
): string[] {
  const shown = fields.filter(([, value]) => value !== undefined && value !== '');
  const width = Math.max(0, ...shown.map(([name]) => measureWidth(name)));
  return shown.flatMap(([name, value]) =>
    wrap(value!, Math.max(columns - width - GAP.length, VALUE_COLUMNS_MIN)).map((line, i) => {
      const head = pad(i === 0 ? name : '', width);
      return `${paint('dim', head)}  ${line}`.trimEnd();
    }),
  );
}
