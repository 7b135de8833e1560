// Reads acknowledged lines by seq, over all segments.
import fs from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { storageFault } from '../../../platform/disk-fault.ts';
import { damageFault } from './damage.ts';
import { findOffset, LineCursor } from './segments.ts';

/** A segment as readers see it: only its first `sizeBytes` are part of the log. */
export type LogPart = { name: string; path: string; firstSeq: number; sizeBytes: number };

const BATCH_LINES = 1_000;
const BATCH_BYTES_MAX = 16 << 20;

export type LogView = { parts: readonly LogPart[]; size: number };

/** Returns the index of the last part that begins at or before this seq. */
export function findPart(parts: readonly LogPart[], seq: number): number {
  let low = 0;
  let high = parts.length;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (parts[middle]!.firstSeq <= seq) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

export function withFile<T>(file: string, read: (fd: number) => T): T {
  let fd: number;
  try {
    fd = fs.openSync(file, 'r');
  } catch (cause) {
    throw storageFault(`opening ${file}`, cause);
  }
  try {
    return read(fd);
  } finally {
    fs.closeSync(fd);
  }
}

/** Returns up to `limit` lines from `fromSeq` on, without newlines; fewer if they are long. */
export function readRange(view: LogView, fromSeq: number, limit: number): string[] {
  const lines: string[] = [];
  const toSeq = Math.min(view.size, fromSeq + limit);
  let bytes = 0;
  let at = findPart(view.parts, fromSeq);
  while (at >= 0 && at < view.parts.length && fromSeq + lines.length < toSeq) {
    const part = view.parts[at]!;
    withFile(part.path, (fd) => {
      const from = findOffset(fd, part.sizeBytes, fromSeq + lines.length);
      if (from < 0) {
        const seq = fromSeq + lines.length;
        throw damageFault('changed', `event ${seq} is not in ${part.name}, where it should be`, {
          seq,
        });
      }
      const cursor = new LineCursor(fd, { from, to: part.sizeBytes, chunkBytes: 1 << 16 });
      while (fromSeq + lines.length < toSeq && bytes < BATCH_BYTES_MAX && cursor.next()) {
        lines.push(cursor.line());
        bytes += cursor.end - cursor.start;
      }
    });
    if (bytes >= BATCH_BYTES_MAX) break;
    at += 1;
  }
  return lines;
}

/** Yields all lines from `fromSeq` to the present end in batches, and yields to the event loop. */
export async function* scanLines(view: () => LogView, fromSeq = 0): AsyncGenerator<string[]> {
  const { size } = view();
  for (let seq = fromSeq; seq < size; ) {
    const lines = readRange(view(), seq, Math.min(BATCH_LINES, size - seq));
    if (lines.length === 0) return;
    yield lines;
    seq += lines.length;
    await setImmediate();
  }
}
