// Compares two lists of lines by the shortest edit script, within a limit: very different lists are
// one replaced by the other. Pure.

export type DiffLine = { kind: ' ' | '-' | '+'; text: string };

const EDITS_MAX = 1_000;

/** Myers' shortest edit script; undefined when more than EDITS_MAX edits are needed. */
function editScript(a: readonly string[], b: readonly string[]): DiffLine[] | undefined {
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
  const lines: DiffLine[] = [];
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

export function compareLines(a: readonly string[], b: readonly string[]): DiffLine[] {
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  const tailMax = Math.min(a.length, b.length) - head;
  while (tail < tailMax && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const [oldPart, newPart] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  const middle = editScript(oldPart, newPart) ?? [
    ...oldPart.map((text): DiffLine => ({ kind: '-', text })),
    ...newPart.map((text): DiffLine => ({ kind: '+', text })),
  ];
  const same = (text: string): DiffLine => ({ kind: ' ', text });
  return [...a.slice(0, head).map(same), ...middle, ...a.slice(a.length - tail).map(same)];
}

export type DiffHunk = {
  oldStart: number;
  oldCount: number;
  newStart: number;
  newCount: number;
  lines: readonly DiffLine[];
};

/** Returns every change with its context. A side without lines starts at the line before. */
export function findHunks(lines: readonly DiffLine[], contextLines = 3): DiffHunk[] {
  const ranges: [number, number][] = [];
  lines.forEach(({ kind }, at) => {
    if (kind === ' ') return;
    const [from, to] = [Math.max(0, at - contextLines), at + contextLines + 1];
    const last = ranges.at(-1);
    if (last !== undefined && from <= last[1]) last[1] = Math.min(lines.length, to);
    else ranges.push([from, Math.min(lines.length, to)]);
  });
  let [oldAt, newAt, done] = [1, 1, 0];
  const pass = (to: number): void => {
    for (; done < to; done++) {
      if (lines[done]!.kind !== '+') oldAt++;
      if (lines[done]!.kind !== '-') newAt++;
    }
  };
  return ranges.map(([from, to]) => {
    pass(from);
    const [oldFrom, newFrom] = [oldAt, newAt];
    pass(to);
    const [oldCount, newCount] = [oldAt - oldFrom, newAt - newFrom];
    return {
      oldStart: oldCount === 0 ? oldFrom - 1 : oldFrom,
      oldCount,
      newStart: newCount === 0 ? newFrom - 1 : newFrom,
      newCount,
      lines: lines.slice(from, to),
    };
  });
}
