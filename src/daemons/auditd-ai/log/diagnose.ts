// Finds events of a damaged log that were changed, removed, moved, duplicated or inserted. The leaf
// hashes in tree/L00 identify them exactly as far as a signed root covers them; beyond that, the
// seq in each line has to do.
import { contradicts, type LeafFile } from './leaf-file.ts';
import { hashLeaf, hashLeafAt, type TreeHead, toRaw } from './merkle.ts';
import type { SegmentWalk } from './segment-walk.ts';
import type { LineCursor } from './segments.ts';
import { readSeq } from './segments.ts';

export type EventProblem = {
  kind:
    | 'changed'
    | 'removed'
    | 'reordered'
    | 'duplicated'
    | 'inserted'
    | 'renumbered'
    | 'truncated';
  seq: number;
  /** The last event, if the problem covers a range. */
  to_seq?: number;
  segment: string | null;
  line: number | null;
  message: string;
};

/** `index` is the number of events before it, the archived ones included. */
type LinePosition = { segment: string; line: number; index: number };
/** Adjacent lines with consecutive seqs. */
type SeqRange = LinePosition & { first: number; last: number };
type ForeignLine = LinePosition & { claimed: number; slot: number };

const RANGES_MAX = 4_000;
const FOREIGN_MAX = 20_000;
const RENUMBER_REACH = 16;
const RENUMBER_FAILURES_MAX = 2_000;

type DiagnoseInput = {
  walk: SegmentWalk;
  leaves: LeafFile;
  signed: readonly TreeHead[];
  lastGoodSize: number;
  firstBadSize: number | undefined;
  /** Number of events before the first line; they are archived. */
  base: number;
  /** Number of events, with the archived ones. */
  eventCount: number;
};

export function diagnose(input: DiagnoseInput): EventProblem[] {
  return new Diagnosis(input).run();
}

class Diagnosis {
  readonly #input: DiagnoseInput;
  readonly #signedSize: number;
  /** How many leaf hashes a signed root covers, and how many are used. */
  readonly #trusted: number;
  readonly #witnessed: number;
  readonly #bound: number;
  readonly #seen: Uint8Array;
  readonly #ranges: SeqRange[] = [];
  readonly #foreign: ForeignLine[] = [];
  readonly #duplicates = new Map<number, LinePosition>();
  readonly #problems: EventProblem[] = [];
  #isDisordered = false;
  #last = -1;
  #foreignSinceLast = 0;
  #top = 0;
  #shift = 0;
  #renumberFailures = 0;
  /** The first line or event with a problem; it explains a wrong root after it. */
  #firstFound = Number.POSITIVE_INFINITY;
  #renumbered: (LinePosition & { seq: number; count: number }) | undefined;

  constructor(input: DiagnoseInput) {
    this.#input = input;
    this.#signedSize = input.signed.reduce((max, { size }) => Math.max(max, size), 0);
    this.#trusted = input.leaves.countSigned(input.signed);
    // If the file agrees with everything signed, its unsigned rest is credible too.
    const isGood = this.#trusted === this.#signedSize;
    this.#witnessed = isGood ? input.leaves.count : this.#trusted;
    this.#bound = Math.max(input.eventCount, this.#signedSize) + RENUMBER_REACH;
    this.#seen = new Uint8Array(Math.ceil((this.#bound + 1) / 8));
    for (let seq = 0; seq < input.base; seq += 1) this.#mark(seq);
    this.#last = input.base - 1;
    this.#top = input.base;
  }

  run(): EventProblem[] {
    const { walk, base } = this.#input;
    walk.rewind();
    for (let index = base; walk.next(); index += 1) {
      this.#addLine({ segment: walk.segment, line: walk.line, index }, walk.cursor);
    }
    this.#reportOrder();
    this.#reportForeign();
    this.#reportMissing();
    if (this.#renumbered !== undefined) {
      const { seq, count, segment, line } = this.#renumbered;
      const message = `${count} lines from here on have another seq than originally written`;
      this.#problems.push({ kind: 'renumbered', seq, segment, line, message });
    }
    this.#reportRange();
    return this.#problems.sort((a, b) => a.seq - b.seq);
  }

  #addLine(position: LinePosition, cursor: LineCursor): void {
    if (!cursor.isTerminated && !isObject(cursor.line())) return;
    const seq = this.#identify(position, cursor);
    if (seq === undefined) {
      this.#foreignSinceLast += 1;
      const slot = this.#last + this.#foreignSinceLast;
      const claimed = readSeq(cursor.buf, cursor.start, cursor.end);
      if (this.#foreign.length < FOREIGN_MAX) this.#foreign.push({ ...position, claimed, slot });
      return;
    }
    if (this.#has(seq)) {
      this.#duplicates.set(seq, position);
      return;
    }
    this.#mark(seq);
    this.#top = Math.max(this.#top, seq + 1);
    const range = this.#ranges.at(-1);
    if (range !== undefined && seq === this.#last + 1) range.last = seq;
    else if (this.#ranges.length < RANGES_MAX)
      this.#ranges.push({ ...position, first: seq, last: seq });
    else this.#isDisordered = true;
    this.#last = seq;
    this.#foreignSinceLast = 0;
  }

  /** Returns the original seq of this line, or undefined if it was never written. */
  #identify(position: LinePosition, cursor: LineCursor): number | undefined {
    const { leaves } = this.#input;
    const claimed = readSeq(cursor.buf, cursor.start, cursor.end);
    if (claimed < 0 || claimed >= this.#bound) return undefined;
    const text = cursor.line();
    const leaf = hashLeafAt(cursor.buf, cursor.start, cursor.end);
    if (claimed < this.#witnessed && leaf === leaves.read(claimed)) return claimed;
    const written = this.#findRenumbered(position, text, claimed);
    if (written !== undefined) return written;
    if (claimed < this.#trusted) return undefined;
    if (claimed < this.#witnessed && contradicts(leaves, claimed, leaf)) return undefined;
    return isObject(text) ? claimed : undefined;
  }

  /** After removing a line an attacker may renumber the rest: tries nearby original seqs. */
  #findRenumbered(position: LinePosition, text: string, claimed: number): number | undefined {
    const isNear = claimed < this.#witnessed + RENUMBER_REACH;
    if (!isNear || this.#renumberFailures > RENUMBER_FAILURES_MAX) return undefined;
    const rest = text.slice(text.indexOf(','));
    const shifts = [this.#shift];
    for (let n = 1; n <= RENUMBER_REACH; n += 1) shifts.push(n, -n);
    for (const shift of shifts) {
      const seq = claimed + shift;
      if (shift === 0 || seq < 0 || seq >= this.#witnessed) continue;
      const leaf = toRaw(hashLeaf(Buffer.from(`{"seq":${seq}${rest}`)));
      if (leaf !== this.#input.leaves.read(seq)) continue;
      this.#shift = shift;
      this.#renumbered ??= { ...position, seq, count: 0 };
      this.#renumbered.count += 1;
      return seq;
    }
    this.#renumberFailures += 1;
    return undefined;
  }

  #has(seq: number): boolean {
    return (this.#seen[seq >> 3]! & (1 << (seq & 7))) !== 0;
  }

  #mark(seq: number): void {
    this.#seen[seq >> 3]! |= 1 << (seq & 7);
  }

  #reportOrder(): void {
    const inOrder = findLongestOrder(this.#ranges);
    for (const range of this.#ranges) {
      if (inOrder.has(range)) continue;
      const { first, last } = range;
      let isDuplicate = true;
      for (let seq = first; seq <= last; seq += 1) isDuplicate &&= this.#duplicates.has(seq);
      // The copy precedes the original: report the copy.
      if (isDuplicate)
        for (let seq = first; seq <= last; seq += 1) this.#duplicates.set(seq, range);
      else
        this.#push('reordered', { first, last, position: range, text: 'not where it was written' });
    }
    for (const [seq, position] of this.#duplicates) {
      this.#push('duplicated', { first: seq, last: seq, position, text: 'there twice' });
    }
    if (!this.#isDisordered) return;
    const message = `the lines are unordered: more than ${RANGES_MAX} pieces are out of position`;
    this.#problems.push({ kind: 'reordered', seq: 0, segment: null, line: null, message });
  }

  /** A foreign line replaces a missing event or was inserted. */
  #reportForeign(): void {
    for (const position of this.#foreign) {
      const { claimed, slot } = position;
      const seq = [claimed, slot].find((n) => n >= 0 && n < this.#bound && !this.#has(n));
      const end = Math.max(this.#signedSize, this.#top, this.#input.leaves.count);
      if (seq !== undefined && seq < end) {
        this.#mark(seq);
        this.#top = Math.max(this.#top, seq + 1);
        const text = seq < this.#signedSize ? 'not as it was signed' : 'not as it was written';
        this.#push('changed', { first: seq, last: seq, position, text });
      } else {
        this.#push('inserted', { first: slot, last: slot, position, text: 'never written' });
      }
    }
  }

  #reportMissing(): void {
    const end = Math.max(this.#signedSize, this.#top);
    for (let seq = 0; seq < end; seq += 1) {
      if (this.#seen[seq >> 3] === 0xff) {
        seq |= 7;
        continue;
      }
      if (this.#has(seq)) continue;
      const first = seq;
      while (seq + 1 < end && !this.#has(seq + 1)) seq += 1;
      const isEnd = seq === end - 1;
      const position = this.#findPositionAfter(seq);
      const text = isEnd ? 'cut off the end: a checkpoint covers it' : 'missing';
      this.#push(isEnd ? 'truncated' : 'removed', { first, last: seq, position, text });
    }
  }

  /** Returns the position of the line that now follows the missing event. */
  #findPositionAfter(seq: number): LinePosition | undefined {
    let next: SeqRange | undefined;
    for (const range of this.#ranges) {
      if (range.first > seq && range.first < (next?.first ?? Number.POSITIVE_INFINITY))
        next = range;
    }
    return next;
  }

  /** If the root is wrong and no line is identified, reports the range between checkpoints. */
  #reportRange(): void {
    const { firstBadSize, lastGoodSize } = this.#input;
    if (firstBadSize === undefined || this.#firstFound < firstBadSize) return;
    const first = Math.min(Math.max(lastGoodSize, this.#trusted), firstBadSize - 1);
    const text = `changed: the checkpoint of ${firstBadSize} events is the first that does not fit`;
    this.#push('changed', { first, last: firstBadSize - 1, position: undefined, text });
  }

  #push(
    kind: EventProblem['kind'],
    at: { first: number; last: number; position: LinePosition | undefined; text: string },
  ): void {
    const { first, last, position, text } = at;
    const { segment, line, index } = position ?? { segment: null, line: null, index: first };
    const subject = first === last ? `event ${first} is` : `events ${first} to ${last} are`;
    const where = segment === null ? '' : ` (${segment} line ${line})`;
    const several = first === last ? {} : { to_seq: last };
    const message = `${subject} ${text}${where}`;
    this.#problems.push({ kind, seq: first, ...several, segment, line, message });
    this.#firstFound = Math.min(this.#firstFound, first, index);
  }
}

function isObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null;
  } catch {
    return false;
  }
}

/** Returns the ascending ranges with the most lines in total; the others were moved. */
function findLongestOrder(ranges: readonly SeqRange[]): Set<SeqRange> {
  const best = ranges.map((range) => range.last - range.first + 1);
  const before = ranges.map(() => -1);
  let end = -1;
  for (let i = 0; i < ranges.length; i += 1) {
    const own = best[i]!;
    for (let j = 0; j < i; j += 1) {
      if (ranges[j]!.last < ranges[i]!.first && best[j]! + own > best[i]!) {
        best[i] = best[j]! + own;
        before[i] = j;
      }
    }
    if (end < 0 || best[i]! > best[end]!) end = i;
  }
  const order = new Set<SeqRange>();
  for (let at = end; at >= 0; at = before[at]!) order.add(ranges[at]!);
  return order;
}
