// Merges two texts that come from the same base, line by line. Pure.
import { compareLines } from './line-diff.ts';

/** Lines `from` to `to` of the base have become these. */
type Edit = { from: number; to: number; lines: string[] };

/** With their line ends, so that a last line without one differs from one that has it. */
const splitLines = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+$/gu) ?? [];

function findEdits(base: readonly string[], text: readonly string[]): Edit[] {
  const edits: Edit[] = [];
  let at = 0;
  let open: Edit | undefined;
  for (const { kind, text: line } of compareLines(base, text)) {
    if (kind === ' ') open = undefined;
    else if (open === undefined) {
      open = { from: at, to: at, lines: [] };
      edits.push(open);
    }
    if (kind === '+') open!.lines.push(line);
    else at++;
    if (kind === '-') open!.to = at;
  }
  return edits;
}

type Group = { from: number; to: number; ours: Edit[]; theirs: Edit[] };

/** Edits that overlap or touch belong together: there is no common line between them. */
function groupEdits(ours: readonly Edit[], theirs: readonly Edit[]): Group[] {
  const all = [
    ...ours.map((edit) => ({ edit, side: 'ours' as const })),
    ...theirs.map((edit) => ({ edit, side: 'theirs' as const })),
  ].sort((a, b) => a.edit.from - b.edit.from || a.edit.to - b.edit.to);
  const groups: Group[] = [];
  for (const { edit, side } of all) {
    const last = groups.at(-1);
    if (last === undefined || edit.from > last.to) {
      const group: Group = { from: edit.from, to: edit.to, ours: [], theirs: [] };
      group[side].push(edit);
      groups.push(group);
    } else {
      last.to = Math.max(last.to, edit.to);
      last[side].push(edit);
    }
  }
  return groups;
}

/** The part of the base from `from` to `to`, as one side has it. */
function applyEdits(base: readonly string[], { from, to }: Group, edits: readonly Edit[]) {
  const lines: string[] = [];
  let at = from;
  for (const edit of edits) {
    lines.push(...base.slice(at, edit.from), ...edit.lines);
    at = edit.to;
  }
  return [...lines, ...base.slice(at, to)];
}

const areEqual = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((line, at) => line === b[at]);

/** Returns null if both sides have changed the same lines, or lines next to each other. */
export function mergeLines(base: string, ours: string, theirs: string): string | null {
  if (ours === base || ours === theirs) return theirs;
  if (theirs === base) return ours;
  const lines = splitLines(base);
  const [a, b] = [ours, theirs].map((text) => findEdits(lines, splitLines(text)));
  const merged: string[] = [];
  let at = 0;
  for (const group of groupEdits(a!, b!)) {
    const [x, y] = [applyEdits(lines, group, group.ours), applyEdits(lines, group, group.theirs)];
    if (group.ours.length > 0 && group.theirs.length > 0 && !areEqual(x, y)) return null;
    merged.push(...lines.slice(at, group.from), ...(group.ours.length > 0 ? x : y));
    at = group.to;
  }
  return [...merged, ...lines.slice(at)].join('');
}
