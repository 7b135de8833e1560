// Owns the checkpoint files: `checkpoint` is the newest signed note, checkpoints.log has
// the older ones, each followed by an empty line.
import fs from 'node:fs';
import path from 'node:path';
import { isMissing, type LogDisk, readFileIfExists, replaceFile, writeAll } from './disk.ts';
import { type FileStamp, stampOf } from './file-stamp.ts';
import { LineCursor } from './segments.ts';

/** One checkpoint signed by the timer is archived per this interval. */
export const ARCHIVE_INTERVAL_MS = 60_000;

const CURRENT = 'checkpoint';
const ARCHIVE = 'checkpoints.log';
const TAIL_BYTES = 1 << 16;
const SIGNATURE_HEAD = '— ';

export const readCurrentNote = (logDir: string): string | undefined =>
  readFileIfExists(path.join(logDir, CURRENT));

/**
 * Reads the current note together with the extent of the archive that precedes it. A note that is
 * archived meanwhile would be after that extent and older than the current one.
 */
export function readNotes(logDir: string): {
  current: string | undefined;
  archive: FileStamp | null;
} {
  for (;;) {
    const before = measureArchive(logDir);
    const current = readCurrentNote(logDir);
    const archive = stampArchive(logDir);
    if ((archive?.size_bytes ?? 0) === before) return { current, archive };
  }
}

function stampArchive(logDir: string): FileStamp | null {
  try {
    return stampOf(ARCHIVE, path.join(logDir, ARCHIVE));
  } catch (cause) {
    if (isMissing(cause)) return null;
    throw cause;
  }
}

export type ArchivedNote = { note: string; line: number; isWhole: boolean; endOffset: number };

function measureArchive(logDir: string): number {
  return fs.statSync(path.join(logDir, ARCHIVE), { throwIfNoEntry: false })?.size ?? 0;
}

/** Yields archived notes in writing order; `isWhole` is false for a torn last one. */
export function* readArchive(
  logDir: string,
  { from = 0, to = measureArchive(logDir) } = {},
): Generator<ArchivedNote> {
  if (to === 0) return;
  const fd = fs.openSync(path.join(logDir, ARCHIVE), 'r');
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

/** Returns the newest whole archived note and the length of the file up to its end. */
export function readArchiveEnd(logDir: string): { note: string | undefined; wholeBytes: number } {
  const from = Math.max(0, measureArchive(logDir) - TAIL_BYTES);
  let note: string | undefined;
  let wholeBytes = 0;
  for (const archived of readArchive(logDir, { from })) {
    if (archived.isWhole) [note, wholeBytes] = [archived.note, archived.endOffset];
  }
  return { note, wholeBytes };
}

export class CheckpointFiles {
  readonly #dir: string;
  readonly #disk: LogDisk;
  readonly #archiveFd: number;
  #archiveBytes: number;

  constructor(logDir: string, disk: LogDisk) {
    this.#dir = logDir;
    this.#disk = disk;
    this.#archiveBytes = readArchiveEnd(logDir).wholeBytes;
    this.#archiveFd = fs.openSync(path.join(logDir, ARCHIVE), 'a', 0o640);
    // A crash may have left half a note; the next one must not be appended to it.
    fs.ftruncateSync(this.#archiveFd, this.#archiveBytes);
  }

  /** Makes `note` the current one. `replaced` is archived first, so that no crash loses it. */
  write(note: string, replaced: string | undefined): void {
    if (replaced !== undefined) this.#archive(Buffer.from(`${replaced}\n`));
    replaceFile(this.#disk, { path: path.join(this.#dir, CURRENT), contents: note, mode: 0o640 });
  }

  #archive(bytes: Buffer): void {
    try {
      writeAll(this.#disk, this.#archiveFd, bytes, null);
      this.#disk.datasync(this.#archiveFd);
      this.#archiveBytes += bytes.length;
    } catch (cause) {
      fs.ftruncateSync(this.#archiveFd, this.#archiveBytes);
      throw cause;
    }
  }

  close(): void {
    fs.closeSync(this.#archiveFd);
  }
}
