// Owns the checkpoint files: `checkpoint` is the newest signed note, checkpoints.log has
// the older ones, each followed by an empty line.
import fs from 'node:fs';
import path from 'node:path';
import { isMissing, type LogDisk, readFileIfExists, replaceFile, writeAll } from './disk.ts';
import { type FileStamp, stampOf } from './file-stamp.ts';
import { LineCursor } from './segments.ts';

/** One checkpoint signed by the timer is added to the history per this interval. */
export const HISTORY_INTERVAL_MS = 60_000;

const CURRENT = 'checkpoint';
const HISTORY = 'checkpoints.log';
const TAIL_BYTES = 1 << 16;
const SIGNATURE_HEAD = '— ';

export const readCurrentNote = (logDir: string): string | undefined =>
  readFileIfExists(path.join(logDir, CURRENT));

/**
 * Reads the current note together with the extent of the history that precedes it. A note that is
 * added to it meanwhile would be after that extent and older than the current one.
 */
export function readNotes(logDir: string): {
  current: string | undefined;
  history: FileStamp | null;
} {
  for (;;) {
    const before = measureHistory(logDir);
    const current = readCurrentNote(logDir);
    const history = stampHistory(logDir);
    if ((history?.size_bytes ?? 0) === before) return { current, history };
  }
}

function stampHistory(logDir: string): FileStamp | null {
  try {
    return stampOf(HISTORY, path.join(logDir, HISTORY));
  } catch (cause) {
    if (isMissing(cause)) return null;
    throw cause;
  }
}

export type HistoryNote = { note: string; line: number; isWhole: boolean; endOffset: number };

function measureHistory(logDir: string): number {
  return fs.statSync(path.join(logDir, HISTORY), { throwIfNoEntry: false })?.size ?? 0;
}

/** Yields the older notes in writing order; `isWhole` is false for a torn last one. */
export function* readHistory(
  logDir: string,
  { from = 0, to = measureHistory(logDir) } = {},
): Generator<HistoryNote> {
  if (to === 0) return;
  const fd = fs.openSync(path.join(logDir, HISTORY), 'r');
  try {
    const cursor = new LineCursor(fd, { from, to, chunkBytes: TAIL_BYTES });
    let lines: string[] = [];
    let number = 0;
    let endOffset = from;
    while (cursor.next()) {
      number += 1;
      endOffset = cursor.offset + (cursor.end - cursor.start) + 1;
      const line = cursor.line();
      const isEnd = line === '' && lines.at(-1)?.startsWith(SIGNATURE_HEAD) === true;
      if (isEnd && cursor.isTerminated) {
        const first = number - lines.length;
        yield { note: `${lines.join('\n')}\n`, line: first, isWhole: true, endOffset };
        lines = [];
      } else {
        lines.push(line);
      }
    }
    if (lines.length > 0) {
      const first = number - lines.length + 1;
      yield { note: lines.join('\n'), line: first, isWhole: false, endOffset };
    }
  } finally {
    fs.closeSync(fd);
  }
}

/** Returns the newest whole note and the length of the file up to its end. */
export function readHistoryEnd(logDir: string): { note: string | undefined; wholeBytes: number } {
  const from = Math.max(0, measureHistory(logDir) - TAIL_BYTES);
  let note: string | undefined;
  let wholeBytes = 0;
  for (const older of readHistory(logDir, { from })) {
    if (older.isWhole) [note, wholeBytes] = [older.note, older.endOffset];
  }
  return { note, wholeBytes };
}

export class CheckpointFiles {
  readonly #dir: string;
  readonly #disk: LogDisk;
  readonly #historyFd: number;
  #historyBytes: number;

  constructor(logDir: string, disk: LogDisk) {
    this.#dir = logDir;
    this.#disk = disk;
    this.#historyBytes = readHistoryEnd(logDir).wholeBytes;
    this.#historyFd = fs.openSync(path.join(logDir, HISTORY), 'a', 0o640);
    // A crash may have left half a note; the next one must not be appended to it.
    fs.ftruncateSync(this.#historyFd, this.#historyBytes);
  }

  /** Makes `note` the current one. `replaced` enters the history first: no crash loses it. */
  write(note: string, replaced: string | undefined): void {
    if (replaced !== undefined) this.#append(Buffer.from(`${replaced}\n`));
    replaceFile(this.#disk, { path: path.join(this.#dir, CURRENT), contents: note, mode: 0o640 });
  }

  #append(bytes: Buffer): void {
    try {
      writeAll(this.#disk, this.#historyFd, bytes, null);
      this.#disk.datasync(this.#historyFd);
      this.#historyBytes += bytes.length;
    } catch (cause) {
      fs.ftruncateSync(this.#historyFd, this.#historyBytes);
      throw cause;
    }
  }

  close(): void {
    fs.closeSync(this.#historyFd);
  }
}
