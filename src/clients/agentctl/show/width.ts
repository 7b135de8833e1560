// Measures, pads, truncates and wraps text by terminal columns. Wide characters and emoji take two,
// combining marks none.

const ASCII = /^[\x20-\x7e]*$/;
const MARKS = /^[\p{M}\p{Cf}]$/u;
const EMOJI = /\p{Emoji_Presentation}|\ufe0f/u;
// biome-ignore lint/suspicious/noControlCharactersInRegex: SGR sequences begin with one
const SGR_CODES = /\u001b\[[0-9;]*m/g;

/** East Asian wide and full-width ranges. */
const WIDE: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x2e80, 0x303e],
  [0x3041, 0x33ff],
  [0x3400, 0x4dbf],
  [0x4e00, 0x9fff],
  [0xa000, 0xa4cf],
  [0xa960, 0xa97c],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x1f300, 0x1f64f],
  [0x1f900, 0x1f9ff],
  [0x20000, 0x3fffd],
];

let segmenter: Intl.Segmenter | undefined;

function splitGraphemes(text: string): string[] {
  segmenter ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' });
  return Array.from(segmenter.segment(text), ({ segment }) => segment);
}

function measureGrapheme(grapheme: string): number {
  if (EMOJI.test(grapheme)) return 2;
  const code = grapheme.codePointAt(0)!;
  if (MARKS.test(String.fromCodePoint(code))) return 0;
  return WIDE.some(([from, to]) => code >= from && code <= to) ? 2 : 1;
}

/** Takes text without control characters; SGR sequences count as zero. */
export function measureWidth(text: string): number {
  const bare = text.includes('\u001b') ? text.replace(SGR_CODES, '') : text;
  if (ASCII.test(bare)) return bare.length;
  return splitGraphemes(bare).reduce((sum, grapheme) => sum + measureGrapheme(grapheme), 0);
}

/** Shortens text to `columns`, ending in …. Takes text without SGR sequences. */
export function truncate(text: string, columns: number): string {
  if (columns <= 0) return '';
  if (measureWidth(text) <= columns) return text;
  let kept = '';
  let width = 0;
  for (const grapheme of splitGraphemes(text)) {
    const next = width + measureGrapheme(grapheme);
    if (next > columns - 1) break;
    kept += grapheme;
    width = next;
  }
  return `${kept.trimEnd()}…`;
}

export function pad(text: string, columns: number, side: 'left' | 'right' = 'right'): string {
  const space = ' '.repeat(Math.max(0, columns - measureWidth(text)));
  return side === 'right' ? text + space : space + text;
}

/** Breaks text at spaces into lines of up to `columns`; longer words stay whole. */
export function wrap(text: string, columns: number): string[] {
  return text.split('\n').flatMap((line) => wrapLine(line, columns));
}

function wrapLine(line: string, columns: number): string[] {
  if (measureWidth(line) <= columns) return [line];
  const lines: string[] = [];
  let current = '';
  for (const word of line.split(' ')) {
    const longer = current === '' ? word : `${current} ${word}`;
    if (current === '' || measureWidth(longer) <= columns) {
      current = longer;
    } else {
      lines.push(current);
      current = word;
    }
  }
  return [...lines, current];
}
