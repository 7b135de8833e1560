// Says which events of a log were changed, removed, moved, doubled or put in, once it is known that
// something is wrong. The leaf hashes in tree/L00 tell it exactly, as far as a signed root covers
// them; past that, the seq that each line says it has.
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
  /** The last one, where the problem is of several events in a row. */
  to_seq?: number;
  segment: string | null;
  line: number | null;
  message: string;
};

/** `index` counts the lines of all files. */
type LinePosition = { segment: string; line: number; index: number };
/** Lines that stand next to each other with seqs that follow each other. */
type SeqRange = LinePosition & { first: number; last: number };
type Foreign = LinePosition & { claimed: number; slot: number };

const RUNS_MAX = 4_000;
const FOREIGN_MAX = 20_000;
const RENUMBER_REACH = 16;
const RENUMBER_FAILURES_MAX = 2_000;

type DiagnoseInput = {
  walk: SegmentWalk;
  leaves: LeafFile;
  signed: readonly TreeHead[];
  lastGoodSize: number;
  firstBadSize: number | undefined;
  lineCount: number;
};

export function diagnose(input: DiagnoseInput): EventProblem[] {
  return new Diagnosis(input).run();
}

class Diagnosis {
  readonly #input: DiagnoseInput;
  readonly #signedSize: number;
  /** How many of the leaf hashes a signed root covers, and how many are used. */
  readonly #trusted: number;
  readonly #witnessed: number;
  readonly #bound: number;
  readonly #seen: Uint8Array;
  readonly #runs: SeqRange[] = [];
  readonly #foreign: Foreign[] = [];
  readonly #doubles = new Map<number, LinePosition>();
  readonly #problems: EventProblem[] = [];
  #isDisordered = false;
  #last = -1;
  #foreignSinceLast = 0;
  #top = 0;
  #shift = 0;
  #renumberFailures = 0;
  /** The first place or event with a problem: a wrong root after it is explained. */
  #firstFound = Number.POSITIVE_INFINITY;
  #renumbered: (LinePosition & { seq: number; count: number }) | undefined;

  constructor(input: DiagnoseInput) {
    this.#input = input;
    this.#signedSize = input.signed.reduce((most, { size }) => Math.max(most, size), 0);
    this.#trusted = input.leaves.countSigned(input.signed);
    // Where all that is signed agrees with the file, what follows is worth something too.
    const isGood = this.#trusted === this.#signedSize;
    this.#witnessed = isGood ? input.leaves.count : this.#trusted;
    this.#bound = Math.max(input.lineCount, this.#signedSize) + RENUMBER_REACH;
    this.#seen = new Uint8Array(Math.ceil((this.#bound + 1) / 8));
  }

  run(): EventProblem[] {
    const { walk } = this.#input;
    walk.rewind();
    for (let index = 0; walk.next(); index += 1) {
      this.#take({ segment: walk.segment, line: walk.line, index }, walk.cursor);
    }
    this.#reportOrder();
    this.#reportForeign();
    this.#reportMissing();
    if (this.#renumbered !== undefined) {
      const { seq, count, segment, line } = this.#renumbered;
      const message = `${count} lines from here on say another seq than they were written with`;
      this.#problems.push({ kind: 'renumbered', seq, segment, line, message });
    }
    this.#reportRange();
    return this.#problems.sort((a, b) => a.seq - b.seq);
  }

  #take(place: LinePosition, cursor: LineCursor): void {
    if (!cursor.isTerminated && !isObject(cursor.line())) return;
    const seq = this.#identify(place, cursor);
    if (seq === undefined) {
      this.#foreignSinceLast += 1;
      const slot = this.#last + this.#foreignSinceLast;
      const claimed = readSeq(cursor.buf, cursor.start, cursor.end);
      if (this.#foreign.length < FOREIGN_MAX) this.#foreign.push({ ...place, claimed, slot });
      return;
    }
    if (this.#has(seq)) {
      this.#doubles.set(seq, place);
      return;
    }
    this.#mark(seq);
    this.#top = Math.max(this.#top, seq + 1);
    const run = this.#runs.at(-1);
    if (run !== undefined && seq === this.#last + 1) run.last = seq;
    else if (this.#runs.length < RUNS_MAX) this.#runs.push({ ...place, first: seq, last: seq });
    else this.#isDisordered = true;
    this.#last = seq;
    this.#foreignSinceLast = 0;
  }

  /** Which event this line is, or undefined when it is none that was ever written. */
  #identify(place: LinePosition, cursor: LineCursor): number | undefined {
    const { leaves } = this.#input;
    const claimed = readSeq(cursor.buf, cursor.start, cursor.end);
    if (claimed < 0 || claimed >= this.#bound) return undefined;
    const text = cursor.line();
    const leaf = hashLeafAt(cursor.buf, cursor.start, cursor.end);
    if (claimed < this.#witnessed && leaf === leaves.read(claimed)) return claimed;
    const written = this.#findRenumbered(place, text, claimed);
    if (written !== undefined) return written;
    if (claimed < this.#trusted) return undefined;
    if (claimed < this.#witnessed && contradicts(leaves, claimed, leaf)) return undefined;
    return isObject(text) ? claimed : undefined;
  }

  /** Whoever takes a line out may number the rest anew: try what it was before. */
  #findRenumbered(place: LinePosition, text: string, claimed: number): number | undefined {
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
      this.#renumbered ??= { ...place, seq, count: 0 };
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
    const inOrder = longestOrder(this.#runs);
    for (const run of this.#runs) {
      if (inOrder.has(run)) continue;
      const { first, last } = run;
      let isDouble = true;
      for (let seq = first; seq <= last; seq += 1) isDouble &&= this.#doubles.has(seq);
      // The copy stands before the original: it is the copy that is out of place.
      if (isDouble) for (let seq = first; seq <= last; seq += 1) this.#doubles.set(seq, run);
      else this.#push('reordered', { first, last, place: run, text: 'not where it was written' });
    }
    for (const [seq, place] of this.#doubles) {
      this.#push('duplicated', { first: seq, last: seq, place, text: 'there twice' });
    }
    if (!this.#isDisordered) return;
    const message = `the lines are in no order: more than ${RUNS_MAX} pieces are out of place`;
    this.#problems.push({ kind: 'reordered', seq: 0, segment: null, line: null, message });
  }

  /** A foreign line stands for an event that is missing in its place, or was put in. */
  #reportForeign(): void {
    for (const place of this.#foreign) {
      const { claimed, slot } = place;
      const seq = [claimed, slot].find((n) => n >= 0 && n < this.#bound && !this.#has(n));
      const end = Math.max(this.#signedSize, this.#top, this.#input.leaves.count);
      if (seq !== undefined && seq < end) {
        this.#mark(seq);
        this.#top = Math.max(this.#top, seq + 1);
        const text = seq < this.#signedSize ? 'not as it was signed' : 'not as it was written';
        this.#push('changed', { first: seq, last: seq, place, text });
      } else {
        this.#push('inserted', { first: slot, last: slot, place, text: 'never written' });
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
      const place = this.#placeAfter(seq);
      const text = isEnd ? 'cut off the end: a checkpoint covers it' : 'missing';
      this.#push(isEnd ? 'truncated' : 'removed', { first, last: seq, place, text });
    }
  }

  /** Where a missing event would stand: the line that now has its place. */
  #placeAfter(seq: number): LinePosition | undefined {
    let next: SeqRange | undefined;
    for (const run of this.#runs) {
      if (run.first > seq && run.first < (next?.first ?? Number.POSITIVE_INFINITY)) next = run;
    }
    return next;
  }

  /** The root is wrong and no line gives itself away: say between which checkpoints. */
  #reportRange(): void {
    const { firstBadSize, lastGoodSize } = this.#input;
    if (firstBadSize === undefined || this.#firstFound < firstBadSize) return;
    const first = Math.min(Math.max(lastGoodSize, this.#trusted), firstBadSize - 1);
    const text = `changed: the checkpoint of ${firstBadSize} events is the first that does not fit`;
    this.#push('changed', { first, last: firstBadSize - 1, place: undefined, text });
  }

  #push(
    kind: EventProblem['kind'],
    at: { first: number; last: number; place: LinePosition | undefined; text: string },
  ): void {
    const { first, last, place, text } = at;
    const { segment, line, index } = place ?? { segment: null, line: null, index: first };
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

/** The runs that hold the most lines in rising order: the rest was moved. */
function longestOrder(runs: readonly SeqRange[]): Set<SeqRange> {
  const best = runs.map((run) => run.last - run.first + 1);
  const before = runs.map(() => -1);
  let end = -1;
  for (let i = 0; i < runs.length; i += 1) {
    const own = best[i]!;
    for (let j = 0; j < i; j += 1) {
      if (runs[j]!.last < runs[i]!.first && best[j]! + own > best[i]!) {
        best[i] = best[j]! + own;
        before[i] = j;
      }
    }
    if (end < 0 || best[i]! > best[end]!) end = i;
  }
  const order = new Set<SeqRange>();
  for (let at = end; at >= 0; at = before[at]!) order.add(runs[at]!);
  return order;
}
