// Turns live items into lines for people: who it is, then the text below it, each line behind a
// bar, so that what a program or a model prints never passes for output of agentctl.
import type { LiveGap, LiveItem } from '../../../wire/live.ts';
import type { Paint } from '../out.ts';
import { pluralize } from '../show/amounts.ts';
import { fence } from '../show/exact.ts';
import { replaceControls, toOneLine } from '../show/plain.ts';

/** More lines within a second are counted only: nobody reads faster. */
const LINES_PER_SECOND_MAX = 100;
const LINE_CHARS_MAX = 2_000;
/** A line without an end is printed once it is this long, at a space if there is one. */
const PARTIAL_CHARS_MAX = 160;

/** Colours and cursor movements of programs, in both of their lengths. */
const ESCAPES =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: this pattern matches them
  /\u001b\[[0-?]*[ -/]*[@-~]|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[@-Z\\-_]/g;

const HEADS: Record<LiveItem['kind'], (item: LiveItem) => string> = {
  stdout: ({ agent, source }) => `${agent} runs ${source}`,
  stderr: ({ agent, source }) => `${agent} runs ${source}, standard error`,
  text: ({ agent }) => `${agent} says`,
  thinking: ({ agent }) => `${agent} thinks`,
  tool_call: ({ agent }) => `${agent} calls`,
};

type Source = { head: string; rest: string };

export type LiveLines = {
  /** Returns the lines that are complete now. */
  add(item: LiveItem | LiveGap): string[];
  /** Returns what has no end yet. */
  flush(): string[];
};

export function makeLiveLines(
  style: { columns: number; paint: Paint },
  nowMs: () => number,
): LiveLines {
  const sources = new Map<string, Source>();
  let lastHead = '';
  let second = 0;
  let printed = 0;
  let leftOut = 0;

  const print = (head: string, texts: readonly string[]): string[] => {
    const note = startSecond();
    const shown = texts.slice(0, Math.max(0, LINES_PER_SECOND_MAX - printed));
    printed += shown.length;
    leftOut += texts.length - shown.length;
    if (shown.length === 0) return note;
    const lines = fence(shown.map(cleanLine), style, () =>
      head.endsWith('thinks') ? 'dim' : undefined,
    );
    const heads = head === lastHead ? [] : [style.paint('cyan', head)];
    lastHead = head;
    return [...note, ...heads, ...lines];
  };

  const startSecond = (): string[] => {
    const now = Math.floor(nowMs() / 1_000);
    if (now === second) return [];
    second = now;
    printed = 0;
    return noteLeftOut();
  };

  const noteLeftOut = (): string[] => {
    if (leftOut === 0) return [];
    const text = `… ${pluralize(leftOut, 'line')} left out (agentctl task transcript --full)`;
    leftOut = 0;
    return [style.paint('dim', text)];
  };

  return {
    add(item) {
      if ('left_out_chars' in item)
        return [style.paint('dim', `… ${pluralize(item.left_out_chars, 'character')} left out`)];
      const head = toOneLine(HEADS[item.kind](item));
      if (item.kind === 'tool_call') return print(head, [item.text]);
      const key = `${item.call_id} ${item.kind}`;
      const source = sources.get(key) ?? { head, rest: '' };
      const { lines, rest } = splitLines(source.rest + item.text);
      if (rest === '') sources.delete(key);
      else sources.set(key, { head, rest });
      return lines.length === 0 ? [] : print(head, lines);
    },
    flush() {
      const open = [...sources.values()];
      sources.clear();
      return [...open.flatMap(({ head, rest }) => print(head, [rest])), ...noteLeftOut()];
    },
  };
}

/** A carriage return, as of a progress bar, starts a line too. */
function splitLines(text: string): { lines: string[]; rest: string } {
  const lines = text.split(/\r\n|\n|\r(?!$)/);
  let rest = lines.pop()!;
  while (rest.length > PARTIAL_CHARS_MAX) {
    const space = rest.lastIndexOf(' ', PARTIAL_CHARS_MAX);
    const end = space > 0 ? space : PARTIAL_CHARS_MAX;
    lines.push(rest.slice(0, end));
    rest = rest.slice(space > 0 ? end + 1 : end);
  }
  return { lines, rest };
}

function cleanLine(line: string): string {
  const text = replaceControls(line.slice(0, LINE_CHARS_MAX).replace(ESCAPES, ''));
  const left = line.length - LINE_CHARS_MAX;
  return (left > 0 ? `${text}… (${left} more)` : text).replaceAll('\t', '    ');
}
