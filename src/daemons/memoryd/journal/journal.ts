// The journal of all operations on memories: append-only files of JSON lines, one per day. It is
// the truth: an operation is done as soon as its line is synced, and everything else follows from
// it.
import {
  closeSync,
  constants,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { storageFault } from '../../../platform/disk-fault.ts';
import type { Log } from '../../../platform/log.ts';
import {
  endProcess,
  failedSyncFault,
  type OnFailedSync,
} from '../../../platform/sql/failed-sync.ts';
import { encodeEntry, type JournalEntry } from './entry.ts';
import { fileOfDay, type JournalLine, listDays, readLines } from './files.ts';

/** Returns undefined for an entry that stays as it is. */
export type ChangeLine = (entry: JournalEntry) => JournalEntry | 'drop' | undefined;

export type Journal = {
  /** Appends entries and syncs them. Throws if they are not in the file: then none is. */
  append(entries: readonly JournalEntry[]): void;
  /** Takes the last append back, whose entries could not be applied. */
  takeBack(): void;
  /** Reads all lines from this day on. */
  read(fromDay?: string): AsyncGenerator<JournalLine>;
  /** Removes a torn line at the end of the journal. */
  cut(line: JournalLine): void;
  /**
   * Replaces or drops entries of a day, durably and at once; nothing may append to it meanwhile. A
   * file without lines is removed.
   */
  rewrite(day: string, change: ChangeLine): Promise<void>;
  /** The day of the newest file; undefined before the first entry. */
  lastDay(): string | undefined;
  close(): void;
};

export type JournalOptions = {
  dir: string;
  log: Log;
  onFailedSync?: OnFailedSync;
  /** Replaced by tests that make writing fail. */
  write?: (fd: number, bytes: Uint8Array, at: number) => number;
};

const TAIL_BYTES = 1 << 16;
const NEWLINE = 10;
const { O_RDWR, O_CREAT } = constants;

type OpenFile = { day: string; fd: number; sizeBytes: number; sizeBefore: number };

/** Opens the journal of this directory, which only one process may use. */
export function openJournal(options: JournalOptions): Journal {
  const { dir, log, onFailedSync = endProcess } = options;
  const write = options.write ?? ((fd, bytes, at) => writeSync(fd, bytes, 0, bytes.length, at));
  let current: OpenFile | undefined;

  const sync = (fd: number, file: string): void => {
    try {
      fdatasyncSync(fd);
    } catch (error) {
      const problem = failedSyncFault(file, error);
      onFailedSync(problem);
      throw problem;
    }
  };

  const openDay = (day: string): OpenFile => {
    if (current?.day === day) return current;
    const file = fileOfDay(dir, day);
    const fd = openSync(file, O_RDWR | O_CREAT, 0o600);
    const sizeBytes = fstatSync(fd).size;
    if (sizeBytes === 0) syncDir(dir);
    if (current !== undefined) closeSync(current.fd);
    current = { day, fd, sizeBytes, sizeBefore: sizeBytes };
    return current;
  };

  /** A torn line is left by a crash during an append: its operation was never acknowledged. */
  const cutTornEnd = (day: string): void => {
    const file = openDay(day);
    const end = findEnd(file);
    if (end === file.sizeBytes) return;
    log.warn('the last line of the journal was torn by a crash; it is cut off', {
      day,
      bytes: file.sizeBytes - end,
    });
    truncate(file, end);
  };

  const truncate = (file: OpenFile, sizeBytes: number): void => {
    ftruncateSync(file.fd, sizeBytes);
    sync(file.fd, fileOfDay(dir, file.day));
    file.sizeBytes = sizeBytes;
    file.sizeBefore = sizeBytes;
  };

  const last = listDays(dir).at(-1);
  if (last !== undefined) cutTornEnd(last);

  /** Writes at the known end, so that what an earlier failed append left is overwritten. */
  const writeAll = (file: OpenFile, bytes: Uint8Array): void => {
    if (fstatSync(file.fd).size > file.sizeBytes) ftruncateSync(file.fd, file.sizeBytes);
    for (let done = 0; done < bytes.length; )
      done += write(file.fd, bytes.subarray(done), file.sizeBytes + done);
  };

  return {
    append(entries) {
      const today = entries[0]!.at.slice(0, 10);
      // The clock may have been set back while the runtime was down.
      const day = [today, current?.day ?? today].sort()[1]!;
      try {
        const file = openDay(day);
        const bytes = Buffer.from(entries.map(encodeEntry).join(''));
        try {
          writeAll(file, bytes);
        } catch (error) {
          ftruncateSync(file.fd, file.sizeBytes);
          throw error;
        }
        sync(file.fd, fileOfDay(dir, day));
        file.sizeBefore = file.sizeBytes;
        file.sizeBytes += bytes.length;
      } catch (error) {
        throw storageFault(`writing the journal of ${day}`, error);
      }
    },
    takeBack() {
      if (current !== undefined) truncate(current, current.sizeBefore);
    },
    async *read(fromDay = '') {
      for (const day of listDays(dir)) if (day >= fromDay) yield* readLines(dir, day);
    },
    cut({ day, from }) {
      truncate(openDay(day), from);
    },
    async rewrite(day, change) {
      await rewriteFile(dir, day, change);
      if (current?.day !== day) return;
      closeSync(current.fd);
      current = undefined;
      openDay(day);
    },
    lastDay: () => current?.day,
    close() {
      if (current !== undefined) closeSync(current.fd);
      current = undefined;
    },
  };
}

/** Finds the end of the last line that has one. */
function findEnd({ fd, sizeBytes }: OpenFile): number {
  const bytes = Buffer.alloc(TAIL_BYTES);
  for (let to = sizeBytes; to > 0; ) {
    const from = Math.max(0, to - TAIL_BYTES);
    const count = readSync(fd, bytes, 0, to - from, from);
    const at = bytes.subarray(0, count).lastIndexOf(NEWLINE);
    if (at >= 0) return from + at + 1;
    to = from;
  }
  return 0;
}

/** Copies every line, damaged ones unchanged, and replaces the file by the copy. */
async function rewriteFile(dir: string, day: string, change: ChangeLine): Promise<void> {
  const file = fileOfDay(dir, day);
  const copy = `${file}.tmp`;
  const [target, source] = [await open(copy, 'w', 0o600), await open(file, 'r')];
  try {
    let written = 0;
    for await (const { entry, from, to } of readLines(dir, day)) {
      const changed = entry && change(entry);
      if (changed === 'drop') continue;
      written++;
      if (changed !== undefined) await target.write(encodeEntry(changed));
      else {
        const bytes = Buffer.alloc(to - from);
        await source.read(bytes, 0, bytes.length, from);
        await target.write(bytes);
      }
    }
    await target.sync();
    renameSync(copy, file);
    if (written === 0) rmSync(file);
    syncDir(dir);
  } catch (error) {
    rmSync(copy, { force: true });
    throw storageFault(`rewriting the journal of ${day}`, error);
  } finally {
    await Promise.all([target.close(), source.close()]);
  }
}

function syncDir(dir: string): void {
  const fd = openSync(dir, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
