// Names segment files, reads their lines and finds a line by its seq. Every line begins with its
// seq, so a segment is sorted and a binary search finds any line without an index.
import fs from 'node:fs';
import path from 'node:path';
import { fault } from '../../../wire/errors.ts';

export const CURRENT_SEGMENT = 'audit.jsonl';
export const NEXT_SEGMENT = 'audit.jsonl.next';

const SEALED = /^audit-([0-9]{12,16})\.jsonl$/;
const NEWLINE = 0x0a;
const LINE_HEAD = Buffer.from('{"seq":');
const CHUNK_BYTES = 1 << 20;
const PROBE_BYTES = 1 << 16;
/** The longest line a reader buffers. */
const LINE_BYTES_MAX = 64 << 20;

type SegmentName = { name: string; path: string; firstSeq: number };

export const formatSealedName = (firstSeq: number): string =>
  `audit-${String(firstSeq).padStart(12, '0')}.jsonl`;

export function listSealed(dir: string): SegmentName[] {
  return fs
    .readdirSync(dir)
    .flatMap((name) => {
      const first = SEALED.exec(name)?.[1];
      return first === undefined ? [] : [{ name, path: path.join(dir, name), firstSeq: +first }];
    })
    .sort((a, b) => a.firstSeq - b.firstSeq);
}

/** Returns the seq a line begins with, or -1. */
export function readSeq(buf: Buffer, start: number, end: number): number {
  let at = start + LINE_HEAD.length;
  if (at >= end || buf.compare(LINE_HEAD, 0, LINE_HEAD.length, start, at) !== 0) return -1;
  const first = at;
  let seq = 0;
  for (; at < end; at += 1) {
    const digit = buf[at]! - 0x30;
    if (digit < 0 || digit > 9) break;
    seq = seq * 10 + digit;
  }
  const isNumber = at > first && (buf[first] !== 0x30 || at === first + 1);
  const next = buf[at];
  const isEnded = at < end && (next === 0x2c || next === 0x7d);
  return isNumber && isEnded && seq <= Number.MAX_SAFE_INTEGER ? seq : -1;
}

/**
 * Walks the lines of an open file or a buffer. The line is `buf[start, end)`; the byte before it
 * may be overwritten.
 */
export class LineCursor {
  buf: Buffer;
  start = 1;
  end = 1;
  /** Where the line begins in the file. */
  offset = 0;
  /** False for text after the last newline. */
  isTerminated = false;
  readonly #source: number | Buffer;
  readonly #to: number;
  #filled = 1;
  #next = 1;
  /** The file offset of `buf[1]`. */
  #base: number;

  constructor(
    source: number | Buffer,
    { from = 0, to = Number.POSITIVE_INFINITY, chunkBytes = CHUNK_BYTES } = {},
  ) {
    this.#source = source;
    this.#base = from;
    this.#to = to;
    this.buf = Buffer.allocUnsafe(1 + chunkBytes);
  }

  next(): boolean {
    let newline = this.#findNewline(this.#next);
    while (newline < 0) {
      const searched = this.#filled - this.#next;
      if (!this.#fill()) break;
      newline = this.#findNewline(this.#next + searched);
    }
    if (newline < 0 && this.#next === this.#filled) return false;
    this.isTerminated = newline >= 0;
    this.start = this.#next;
    this.end = newline < 0 ? this.#filled : newline;
    this.offset = this.#base + this.start - 1;
    this.#next = newline < 0 ? this.#filled : newline + 1;
    return true;
  }

  /** Makes `next` return this line again, longer if the file grew. */
  unread(): void {
    this.#next = this.start;
  }

  /** Where the next line begins in the file. */
  get endOffset(): number {
    return this.#base + this.#next - 1;
  }

  line(): string {
    return this.buf.toString('utf8', this.start, this.end);
  }

  #findNewline(from: number): number {
    const at = this.buf.indexOf(NEWLINE, from);
    return at < this.#filled ? at : -1;
  }

  #fill(): boolean {
    const used = this.#next - 1;
    if (used > 0) {
      this.buf.copyWithin(1, this.#next, this.#filled);
      this.#base += used;
      this.#filled -= used;
      this.#next = 1;
    }
    if (this.#filled === this.buf.length) this.#grow();
    const position = this.#base + this.#filled - 1;
    const capacity = Math.min(this.buf.length - this.#filled, this.#to - position);
    if (capacity <= 0) return false;
    const bytesRead = this.#read(capacity, position);
    this.#filled += bytesRead;
    return bytesRead > 0;
  }

  #read(capacity: number, position: number): number {
    if (typeof this.#source === 'number')
      return fs.readSync(this.#source, this.buf, this.#filled, capacity, position);
    return this.#source.copy(this.buf, this.#filled, position, position + capacity);
  }

  #grow(): void {
    if (this.buf.length > LINE_BYTES_MAX) {
      throw fault('log_damaged', `a line of more than ${LINE_BYTES_MAX} bytes at ${this.#base}`);
    }
    const larger = Buffer.allocUnsafe(1 + 2 * (this.buf.length - 1));
    this.buf.copy(larger, 0, 0, this.#filled);
    this.buf = larger;
  }
}

/** Returns where the line with this seq begins in the file's first `sizeBytes`, or -1. */
export function findOffset(fd: number, sizeBytes: number, seq: number): number {
  let low = 0;
  let high = sizeBytes;
  // `low` starts a line at or before the wanted one; lines that start at `high` or later are after.
  while (high - low > PROBE_BYTES) {
    const middle = Math.floor((low + high) / 2);
    const probe = new LineCursor(fd, { from: middle, to: sizeBytes, chunkBytes: 4096 });
    const hasLine = probe.next() && probe.next() && probe.isTerminated && probe.offset < high;
    const found = hasLine ? readSeq(probe.buf, probe.start, probe.end) : -1;
    if (hasLine && found < 0) return scanFor(fd, 0, sizeBytes, seq);
    if (hasLine && found <= seq) low = probe.offset;
    else high = middle;
  }
  return scanFor(fd, low, sizeBytes, seq);
}

function scanFor(fd: number, from: number, to: number, seq: number): number {
  const cursor = new LineCursor(fd, { from, to, chunkBytes: PROBE_BYTES });
  while (cursor.next() && cursor.isTerminated) {
    const found = readSeq(cursor.buf, cursor.start, cursor.end);
    if (found === seq) return cursor.offset;
    if (found > seq) return -1;
  }
  return -1;
}

/** Returns the last whole line of a file, or undefined. */
export function readLastLine(fd: number, sizeBytes: number) {
  for (let span = PROBE_BYTES; ; span *= 4) {
    const from = Math.max(0, sizeBytes - span);
    const cursor = new LineCursor(fd, { from, to: sizeBytes, chunkBytes: span });
    let last: { seq: number; endOffset: number } | undefined;
    // A span that does not start at offset 0 starts inside a line.
    if (from > 0) cursor.next();
    while (cursor.next() && cursor.isTerminated) {
      const { endOffset } = cursor;
      last = { seq: readSeq(cursor.buf, cursor.start, cursor.end), endOffset };
    }
    if (last !== undefined || from === 0) return last;
  }
}
