// SegmentWalk reads every line of a log directory, however damaged, in file order, from the start
// or from a position. It opens all files it reads at the start, so that a log can be verified while
// it grows.
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { isMissing } from './disk.ts';
import { type FileStamp, stampOf } from './file-stamp.ts';
import { CURRENT_SEGMENT, formatSealedName, LineCursor, listSealed } from './segments.ts';

const LIST_TRIES = 5;

/** A place between two lines, in the segment whose first event is `first`. */
export type WalkPosition = { first: number; offset: number };

type SegmentFile = { name: string; stamp: FileStamp; fd: number | undefined };

export class SegmentWalk {
  segment = '';
  /** Line number in the file, from 1; after a position in the file, from there. */
  line = 0;
  cursor: LineCursor;
  readonly #files: SegmentFile[];
  readonly #start: number;
  readonly #startOffset: number;
  #at: number;

  constructor(dir: string, from?: WalkPosition) {
    this.#files = openAll(dir, from?.first);
    this.#start = this.#files.findIndex(({ fd }) => fd !== undefined);
    this.#startOffset = from?.offset ?? 0;
    this.cursor = new LineCursor(-1, { to: 0, chunkBytes: 1 });
    this.#at = this.#start - 1;
  }

  /** Every segment file as it was before a line was read, in order. */
  get stamps(): FileStamp[] {
    return this.#files.map(({ stamp }) => stamp);
  }

  /** The index in `stamps` of the file that is being read. */
  get fileIndex(): number {
    return this.#at;
  }

  /** The index in `stamps` of the first file that is read; -1 if there is none. */
  get startIndex(): number {
    return this.#start;
  }

  /** True in the file that can still grow. */
  get isInLast(): boolean {
    return this.#at === this.#files.length - 1;
  }

  next(): boolean {
    while (!this.cursor.next()) {
      const file = this.#start < 0 ? undefined : this.#files[this.#at + 1];
      if (file === undefined) return false;
      this.#at += 1;
      this.segment = file.name;
      this.line = 0;
      this.cursor = new LineCursor(file.fd!, {
        from: this.#at === this.#start ? this.#startOffset : 0,
      });
    }
    this.line += 1;
    return true;
  }

  /** Waits briefly for the rest of a half line that the writer may be writing. */
  async awaitRest(): Promise<void> {
    for (let tries = 0; tries < 3 && !this.cursor.isTerminated; tries += 1) {
      await setTimeout(20);
      this.cursor.unread();
      this.cursor.next();
    }
  }

  rewind(): void {
    this.#at = this.#start - 1;
    this.cursor = new LineCursor(-1, { to: 0, chunkBytes: 1 });
  }

  close(): void {
    closeAll(this.#files);
  }
}

/** Retries if a segment was sealed between listing and opening, since it would be missed. */
function openAll(dir: string, first: number | undefined): SegmentFile[] {
  for (let tries = 1; ; tries += 1) {
    const names = listNames(dir);
    const start = first === undefined ? 0 : findName(names, first);
    const files = names.flatMap((name, index) => openOne(dir, name, index >= start));
    const isSame = listNames(dir).join() === names.join() && files.length === names.length;
    if (isSame || tries === LIST_TRIES) return files;
    closeAll(files);
  }
}

function openOne(dir: string, name: string, isRead: boolean): SegmentFile[] {
  const file = path.join(dir, name);
  try {
    if (!isRead) return [{ name, fd: undefined, stamp: stampOf(name, file) }];
    const fd = fs.openSync(file, 'r');
    return [{ name, fd, stamp: stampOf(name, fd) }];
  } catch (cause) {
    if (isMissing(cause)) return [];
    throw cause;
  }
}

function closeAll(files: readonly SegmentFile[]): void {
  for (const { fd } of files) if (fd !== undefined) fs.closeSync(fd);
}

function listNames(dir: string): string[] {
  const names = listSealed(dir).map(({ name }) => name);
  return fs.existsSync(path.join(dir, CURRENT_SEGMENT)) ? [...names, CURRENT_SEGMENT] : names;
}

/** Returns the index of the segment that begins with event `first`, sealed or still current. */
function findName(names: readonly string[], first: number): number {
  const sealed = names.indexOf(formatSealedName(first));
  return sealed >= 0 ? sealed : names.indexOf(CURRENT_SEGMENT);
}
