// Renders a unified diff of two texts, for approvers and for models that check their work. Bounded:
// very different texts are shown as one replaced by the other. Pure.
import { fault } from '../../../wire/errors.ts';

const CONTEXT_LINES = 3;
const EDITS_MAX = 1_000;

type Line = { kind: ' ' | '-' | '+'; text: string };

/** Myers' shortest edit script; undefined when more than EDITS_MAX edits are needed. */
function editScript(a: readonly string[], b: readonly string[]): Line[] | undefined {
  const reach = new Map<number, number>([[1, 0]]);
  const trail: Map<number, number>[] = [];
  for (let edits = 0; edits <= Math.min(EDITS_MAX, a.length + b.length); edits++) {
    trail.push(new Map(reach));
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && reach.get(k - 1)! < reach.get(k + 1)!);
      let x = down ? reach.get(k + 1)! : reach.get(k - 1)! + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      reach.set(k, x);
      if (x >= a.length && x - k >= b.length) return walkBack(a, b, trail);
    }
  }
  return undefined;
}

function walkBack(a: readonly string[], b: readonly string[], trail: Map<number, number>[]) {
  const lines: Line[] = [];
  let [x, y] = [a.length, b.length];
  for (let edits = trail.length - 1; edits >= 0; edits--) {
    const reach = trail[edits]!;
    const k = x - y;
    const down = k === -edits || (k !== edits && reach.get(k - 1)! < reach.get(k + 1)!);
    const before = down ? k + 1 : k - 1;
    const fromX = edits === 0 ? 0 : reach.get(before)!;
    const fromY = edits === 0 ? 0 : fromX - before;
    for (; x > fromX && y > fromY; x--, y--) lines.push({ kind: ' ', text: a[x - 1]! });
    if (edits === 0) break;
    if (down) lines.push({ kind: '+', text: b[--y]! });
    else lines.push({ kind: '-', text: a[--x]! });
  }
  return lines.reverse();
}

function splitLines(text: string): string[] {
  return text === '' ? [] : text.replace(/\n$/, '').split('\n');
}

function compare(a: readonly string[], b: readonly string[]): Line[] {
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  const tailMax = Math.min(a.length, b.length) - head;
  while (tail < tailMax && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const [oldPart, newPart] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  const middle = editScript(oldPart, newPart) ?? [
    ...oldPart.map((text): Line => ({ kind: '-', text })),
    ...newPart.map((text): Line => ({ kind: '+', text })),
  ];
  const same = (text: string): Line => ({ kind: ' ', text });
  return [...a.slice(0, head).map(same), ...middle, ...a.slice(a.length - tail).map(same)];
}

/** Returns line ranges: every change with its context. */
function findHunks(lines: readonly Line[]): [number, number][] {
  const hunks: [number, number][] = [];
  lines.forEach(({ kind }, at) => {
    if (kind === ' ') return;
    const [from, to] = [Math.max(0, at - CONTEXT_LINES), at + CONTEXT_LINES + 1];
    const last = hunks.at(-1);
    if (last !== undefined && from <= last[1]) last[1] = Math.min(lines.length, to);
    else hunks.push([from, Math.min(lines.length, to)]);
  });
  return hunks;
}

export type DiffNames = { from: string; to: string };

/** Returns an empty text when at most the final newline differs. */
export function unifiedDiff(before: string, after: string, names: DiffNames): string {
  const lines = compare(splitLines(before), splitLines(after));
  const out: string[] = [];
  let [oldAt, newAt, done] = [1, 1, 0];
  const pass = (to: number): void => {
    for (; done < to; done++) {
      if (lines[done]!.kind !== '+') oldAt++;
      if (lines[done]!.kind !== '-') newAt++;
    }
  };
  for (const [from, to] of findHunks(lines)) {
    pass(from);
    const [oldFrom, newFrom] = [oldAt, newAt];
    pass(to);
    const [oldCount, newCount] = [oldAt - oldFrom, newAt - newFrom];
    const start = (at: number, count: number) => `${count === 0 ? at - 1 : at},${count}`;
    out.push(`@@ -${start(oldFrom, oldCount)} +${start(newFrom, newCount)} @@`);
    for (const { kind, text } of lines.slice(from, to)) out.push(kind + text);
  }
  if (out.length === 0) return '';
  return [`--- ${names.from}`, `+++ ${names.to}`, ...out, ''].join('\n');
}

const SHOWN_CHARS_MAX = 1_000_000;

/** Throws when the diff is too long for a person to review as a whole. */
export function assertShowable(diff: string): string {
  if (diff.length <= SHOWN_CHARS_MAX) return diff;
  throw fault('too_large', `the change is ${diff.length} characters long when shown to a person`, {
    hint: 'Make it in smaller parts, so that a person can review each.',
  });
}
