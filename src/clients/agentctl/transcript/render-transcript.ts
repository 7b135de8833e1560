// Renders a transcript for people: who spoke, then what they said below it.
import type { Paint, Style } from '../out.ts';
import { pluralize } from '../show/amounts.ts';
import { replaceControls, toOneLine } from '../show/plain.ts';
import { wrap } from '../show/width.ts';
import type { Entry } from './build-transcript.ts';

export type TranscriptStyle = { paint: Paint; columns: number; full: boolean };

/** Without --full, a longer text is cut after this many lines. */
export const LINES_SHOWN_MAX = 12;
const LINE_CHARS_MAX = 400;
const TEXT_COLUMNS_MIN = 30;

const HEADS: Record<Entry['kind'], (entry: Entry) => string> = {
  goal: ({ from }) => `${from} asks`,
  text: ({ from }) => from,
  thinking: ({ from }) => `${from} thinks`,
  call: ({ from, tool }) => `${from} calls ${tool}`,
  result: ({ tool }) => (tool === undefined ? 'result' : `${tool} answers`),
  message: ({ from }) => `${from} writes`,
  answer: ({ from }) => `${from} answers`,
  end: ({ from }) => `${from} completed`,
  failed: ({ from, tool }) => (tool === undefined ? from : `${tool} of ${from}`),
};

const STYLES: Partial<Record<Entry['kind'], Style>> = {
  goal: 'bold',
  thinking: 'dim',
  call: 'cyan',
  result: 'dim',
  failed: 'red',
  end: 'green',
};

export function renderTranscript(entries: readonly Entry[], style: TranscriptStyle): string[] {
  return entries.flatMap((entry, i) => [
    ...(i === 0 ? [] : [renderIndent(entry.depth).trimEnd()]),
    ...renderEntry(entry, style),
  ]);
}

const renderIndent = (depth: number): string => '│  '.repeat(depth);

function renderEntry(entry: Entry, { paint, columns, full }: TranscriptStyle): string[] {
  const indent = renderIndent(entry.depth);
  const kindStyle = STYLES[entry.kind];
  const head = toOneLine(HEADS[entry.kind](entry));
  const width = Math.max(TEXT_COLUMNS_MIN, columns - indent.length - 2);
  const lines = cutLines(entry.kind === 'call' ? formatArguments(entry) : entry.text, full);
  return [
    `${indent}${kindStyle === undefined ? paint('bold', head) : paint(kindStyle, head)}`,
    ...lines.flatMap((line) => wrap(line, width)).map((line) => `${indent}  ${line}`.trimEnd()),
  ];
}

/** One argument a line; a text of several lines stands below its name. */
function formatArguments({ arguments: args, text }: Entry): string {
  if (typeof args !== 'object' || args === null || Array.isArray(args)) return text;
  return Object.entries(args)
    .map(([name, value]) => {
      const shown = typeof value === 'string' ? value : JSON.stringify(value);
      return shown.includes('\n') ? `${name}:\n${shown}` : `${name}: ${shown}`;
    })
    .join('\n');
}

function cutLines(text: string, full: boolean): string[] {
  const lines = replaceControls(text).replace(/\n+$/, '').split('\n');
  if (full) return lines;
  const shown = lines
    .slice(0, LINES_SHOWN_MAX)
    .map((line) => (line.length > LINE_CHARS_MAX ? `${line.slice(0, LINE_CHARS_MAX)}…` : line));
  const left = lines.length - shown.length;
  return left === 0 ? shown : [...shown, `… ${pluralize(left, 'more line')} (--full)`];
}
