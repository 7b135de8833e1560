// Reads the paragraphs and list items of a Markdown file as texts, each with the headings above it,
// and writes memories as Markdown lists.
import type { MemoryView } from '../../wire/memoryd/records.ts';

export type MarkdownItem = { text: string; line: number };

const HEADING = /^(#{1,6})\s+(.*?)\s*#*$/;
const ITEM = /^(\s*)(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?(.*)$/;
const FENCE = /^\s*(```|~~~)/;

export function readMarkdown(text: string): MarkdownItem[] {
  const items: MarkdownItem[] = [];
  const headings: string[] = [];
  let open: { lines: string[]; line: number } | undefined;
  let isFenced = false;
  const close = (): void => {
    if (open === undefined) return;
    const body = open.lines.join('\n').trim();
    const above = headings.filter((heading) => heading !== undefined && heading !== '');
    if (body !== '') items.push({ text: [...above, body].join(': '), line: open.line });
    open = undefined;
  };
  for (const [i, line] of text.split(/\r?\n/).entries()) {
    if (FENCE.test(line)) isFenced = !isFenced;
    const [, marks, title] = isFenced ? [] : (HEADING.exec(line) ?? []);
    const [, indent, item] = isFenced ? [] : (ITEM.exec(line) ?? []);
    if (marks !== undefined) {
      close();
      headings.length = marks.length - 1;
      headings[marks.length - 1] = title!;
    } else if (item !== undefined && indent!.length < 2) {
      close();
      open = { lines: [item], line: i + 1 };
    } else if (line.trim() === '' && !isFenced) close();
    else {
      open ??= { lines: [], line: i + 1 };
      open.lines.push(line);
    }
  }
  close();
  return items;
}

/** One list per scope and class; the lines of a text stay in its item. */
export function writeMarkdown(memories: readonly MemoryView[]): string {
  const groups = new Map<string, MemoryView[]>();
  for (const memory of memories) {
    const key = `${memory.scope}\n${memory.class}`;
    groups.set(key, [...(groups.get(key) ?? []), memory]);
  }
  const parts: string[] = [];
  let scope = '';
  for (const key of [...groups.keys()].sort()) {
    const [ofScope, kind] = key.split('\n') as [string, string];
    if (ofScope !== scope) parts.push(`# ${ofScope}`);
    scope = ofScope;
    parts.push(`## ${kind}`, groups.get(key)!.map(writeItem).join('\n'));
  }
  return parts.length === 0 ? '' : `${parts.join('\n\n')}\n`;
}

const writeItem = ({ text }: MemoryView): string => `- ${(text ?? '').replaceAll('\n', '\n  ')}`;
