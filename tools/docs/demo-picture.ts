// Draws the demo's output as a picture of a terminal: an SVG that shows all lines first and then
// replays them one by one. Without animation it stays at the first frame. Checks such a picture.
import { clipRow, type Row, type Span, textOf } from './terminal.ts';

export const COLUMNS = 94;
const BYTES_MAX = 150_000;

/** For each step of the demo, the lines that the picture shows of it. */
export type Excerpts<Step extends string> = Readonly<Record<Step, readonly RegExp[]>>;

/** The rest of a table cell that did not fit into the line above. */
const CONTINUATION = /^ {10,}\S/;

/** Returns the excerpt of each step. Throws where a pattern matches no line of its step. */
export function selectRows<Step extends string>(
  rows: readonly Row[],
  steps: Readonly<Record<Step, string>>,
  excerpts: Excerpts<Step>,
): Row[][] {
  const names = Object.keys(steps) as Step[];
  const starts = names.map((name) => {
    const start = rows.findIndex((row) => textOf(row).trim() === steps[name]);
    if (start < 0) throw new Error(`the demo did not print "${steps[name]}"`);
    return start;
  });
  return names.map((name, i) => {
    const body = rows.slice(starts[i]! + 1, starts[i + 1]);
    for (const pattern of excerpts[name])
      if (!body.some((row) => pattern.test(textOf(row))))
        throw new Error(`no line of "${steps[name]}" matches ${pattern}`);
    const isShown = (row: Row): boolean => excerpts[name].some((p) => p.test(textOf(row)));
    const shown = body.flatMap((row, j) => {
      if (!isShown(row)) return [];
      const next = body[j + 1];
      const isCutShort = next !== undefined && CONTINUATION.test(textOf(next)) && !isShown(next);
      return [isCutShort ? [...row, { text: ' …', styles: ['dim'] }] : row];
    });
    return [rows[starts[i]!]!, ...shown];
  });
}

const FONT_PX = 13;
const CHAR_PX = 7.8;
const LINE_PX = 16.8;
const STEP_GAP_PX = 7.5;
const MARGIN_PX = 16;
const BAR_PX = 32;
/** The time for which all lines are shown first, for still images of the picture. */
const POSTER_S = 2;
/** The pace of the replay; the demo itself runs faster than anyone could read. */
const STEP_S = 0.9;
const ROW_S = 0.22;

const STYLE = `
.a{animation:hidden 0s ${POSTER_S}s}
@keyframes hidden{from,to{opacity:0}}
@media(prefers-reduced-motion:reduce){.a{animation:none}}
text{font:${FONT_PX}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
text{white-space:pre;fill:#d0d7de}
.bold{font-weight:700;fill:#fff}.dim{fill:#8b949e}.red{fill:#ff7b72}.green{fill:#7ee787}
.yellow{fill:#e3b341}.blue{fill:#79c0ff}.magenta{fill:#d2a8ff}.cyan{fill:#76e3ea}
`;

export function drawDemo(steps: readonly string[], sections: readonly (readonly Row[])[]): string {
  const width = Math.round(2 * MARGIN_PX + COLUMNS * CHAR_PX);
  let y = BAR_PX + MARGIN_PX;
  let atS = 0.5;
  const drawRow = (row: Row): string => {
    const drawn = drawSpans(clipRow(row, COLUMNS), y);
    const group = `<g class="a" style="animation-duration:${atS.toFixed(2)}s">${drawn}</g>`;
    y += LINE_PX;
    atS += ROW_S;
    return group;
  };
  const body = [
    drawRow([
      { text: '$ ', styles: ['green'] },
      { text: 'make demo', styles: [] },
    ]),
  ];
  for (const rows of sections) {
    y += STEP_GAP_PX;
    atS += STEP_S;
    body.push(...rows.map(drawRow));
  }
  const height = Math.round(y - LINE_PX + MARGIN_PX);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    '<title>A run of make demo</title>',
    `<desc>${escapeXml(steps.join('\n'))}</desc>`,
    `<style>${STYLE}</style>`,
    `<rect x=".5" y=".5" width="${width - 1}" height="${height - 1}" rx="9" fill="#0d1117" stroke="#444c56"/>`,
    ...['#ff5f57', '#febc2e', '#28c840'].map(
      (fill, i) => `<circle cx="${20 + i * 18}" cy="18" r="5.5" fill="${fill}"/>`,
    ),
    ...body,
    '</svg>\n',
  ].join('\n');
}

function drawSpans(row: Row, y: number): string {
  let column = 0;
  return row
    .map(({ text, styles }: Span) => {
      const length = [...text].length;
      const leading = length - [...text.trimStart()].length;
      const visible = text.trim();
      const x = MARGIN_PX + (column + leading) * CHAR_PX;
      column += length;
      if (visible === '') return '';
      // The length keeps columns aligned in whatever font the reader has.
      const textLength = [...visible].length * CHAR_PX;
      const classes = styles.length === 0 ? '' : ` class="${styles.join(' ')}"`;
      return `<text x="${fixed(x)}" y="${fixed(y)}" textLength="${fixed(textLength)}"${classes}>${escapeXml(visible)}</text>`;
    })
    .join('');
}

const fixed = (pixels: number): string => String(Math.round(pixels * 10) / 10);

const escapeXml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/** Returns what is wrong with a picture, or undefined. A new run may differ; the steps may not. */
export function findPictureProblem(svg: string, steps: readonly string[]): string | undefined {
  if (Buffer.byteLength(svg) > BYTES_MAX) return `is larger than ${BYTES_MAX / 1000} kB`;
  if (/<script|href|url\(|@import/i.test(svg)) return 'contains a script or refers to another file';
  const unbalanced = findUnbalancedTag(svg);
  if (unbalanced !== undefined) return `is not well-formed at ${unbalanced}`;
  const [, described] = /<desc>([^<]*)<\/desc>/.exec(svg) ?? [];
  if (described !== escapeXml(steps.join('\n'))) return 'shows other steps than the demo has';
  return undefined;
}

function findUnbalancedTag(svg: string): string | undefined {
  const open: string[] = [];
  const tag = /<(\/?)([a-z]+)((?: [\w-]+="[^"<]*")*)(\/?)>|<|&(?!(?:amp|lt|gt);)/gi;
  for (const match of svg.matchAll(tag)) {
    const [text, close, name, , selfClosing] = match;
    if (name === undefined) return svg.slice(match.index, match.index + 40);
    if (close === '/') {
      if (open.pop() !== name) return text;
    } else if (selfClosing !== '/') open.push(name);
  }
  if (!svg.startsWith('<svg ') || open.length > 0) return open.at(-1) ?? 'its start';
  return undefined;
}
