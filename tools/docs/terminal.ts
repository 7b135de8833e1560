// Turns the bytes that programs write to a terminal into the rows that a person sees: text, styles,
// and the few cursor movements that agentctl and readline use. Lines are never wrapped.

/** A stretch of equal style. `styles` are SGR names such as `bold` and `red`. */
export type Span = { text: string; styles: readonly string[] };
export type Row = readonly Span[];

type Cell = { char: string; styles: readonly string[] };

const SGR: Readonly<Record<number, string>> = {
  1: 'bold',
  2: 'dim',
  31: 'red',
  32: 'green',
  33: 'yellow',
  34: 'blue',
  35: 'magenta',
  36: 'cyan',
};

const ESCAPE = String.fromCharCode(27);
/** A control sequence (its parameters and its last letter), or one character. */
const TOKEN = new RegExp(`${ESCAPE}\\[([\\d;?]*)([A-Za-z])|${ESCAPE}.|[^]`, 'gu');

export function readTerminal(output: string): Row[] {
  const screen: Cell[][] = [[]];
  let styles: readonly string[] = [];
  let [row, column] = [0, 0];

  const control = (parameters: string, letter: string): void => {
    const count = Number(parameters || '1');
    if (letter === 'm') styles = applyStyle(styles, parameters);
    else if (letter === 'A') row = Math.max(0, row - count);
    else if (letter === 'G') column = count - 1;
    else if (letter === 'K' || letter === 'J') screen[row]!.length = column;
    if (letter === 'J') screen.length = row + 1;
  };

  for (const [token, parameters = '', letter] of output.matchAll(TOKEN)) {
    if (letter !== undefined) control(parameters, letter);
    else if (token === '\r') column = 0;
    else if (token === '\n') screen[++row] ??= [];
    else if (token === '\b') column = Math.max(0, column - 1);
    else if (token >= ' ' && !token.startsWith(ESCAPE)) {
      const cells = screen[row]!;
      while (cells.length < column) cells.push({ char: ' ', styles: [] });
      cells[column++] = { char: token, styles };
    }
  }
  return screen.map(toSpans);
}

function applyStyle(styles: readonly string[], parameters: string): readonly string[] {
  const code = Number(parameters || '0');
  const name = SGR[code];
  if (name !== undefined) return [...new Set([...styles, name])];
  // 0 resets all; agentctl also ends one style at a time (22, 39), and never nests two of a kind.
  if (code === 22) return styles.filter((style) => style !== 'bold' && style !== 'dim');
  if (code === 39) return styles.filter((style) => style === 'bold' || style === 'dim');
  return [];
}

function toSpans(cells: readonly Cell[]): Row {
  const spans: { text: string; styles: readonly string[] }[] = [];
  for (const { char, styles } of cells) {
    const last = spans.at(-1);
    if (last !== undefined && last.styles.join() === styles.join()) last.text += char;
    else spans.push({ text: char, styles });
  }
  return spans;
}

export const textOf = (row: Row): string => row.map(({ text }) => text).join('');

/** Shortens a row to `columns`, with an ellipsis where something was left out. */
export function clipRow(row: Row, columns: number): Row {
  if ([...textOf(row)].length <= columns) return row;
  let left = columns - 1;
  const kept = row.map(({ text, styles }) => {
    const chars = [...text].slice(0, left);
    left -= chars.length;
    return { text: chars.join(''), styles };
  });
  return [...kept.filter(({ text }) => text !== ''), { text: '…', styles: ['dim'] }];
}
