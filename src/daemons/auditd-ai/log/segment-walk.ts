// SegmentWalk reads every line of a log directory, however damaged, in file order. It opens all
// files at the start, so that a log can be verified while it grows.
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { isMissing } from './disk.ts';
import { CURRENT_SEGMENT, LineCursor, listSealed } from './segments.ts';

const LIST_TRIES = 5;

type OpenFile = { name: string; fd: number };

export class SegmentWalk {
  segment = '';
  /** Line number in the file, from 1. */
  line = 0;
  cursor: LineCursor;
  readonly #files: OpenFile[];
  #at = -1;

  constructor(dir: string) {
    this.#files = openAll(dir);
    this.cursor = new LineCursor(-1, { to: 0, chunkBytes: 1 });
  }

  get fileCount(): number {
    return this.#files.length;
  }

  /** True in the file that can still grow. */
  get isInLast(): boolean {
    return this.#at === this.#files.length - 1;
  }

  next(): boolean {
    while (!this.cursor.next()) {
      this.#at += 1;
      const file = this.#files[this.#at];
      if (file === undefined) return false;
      this.segment = file.name;
      this.line = 0;
      this.cursor = new LineCursor(file.fd);
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
    this.#at = -1;
    this.cursor = new LineCursor(-1, { to: 0, chunkBytes: 1 });
  }

  close(): void {
    for (const { fd } of this.#files) fs.closeSync(fd);
  }
}

/** Retries if a segment was sealed between listing and opening, since it would be missed. */
function openAll(dir: string): OpenFile[] {
  for (let tries = 1; ; tries += 1) {
    const names = listNames(dir);
    const files = names.flatMap((name) => {
      try {
        return [{ name, fd: fs.openSync(path.join(dir, name), 'r') }];
      } catch (cause) {
        if (isMissing(cause)) return [];
        throw cause;
      }
    });
    const isSame = listNames(dir).join() === names.join() && files.length === names.length;
    if (isSame || tries === LIST_TRIES) return files;
    for (const { fd } of files) fs.closeSync(fd);
  }
}

function listNames(dir: string): string[] {
  const names = listSealed(dir).map(({ name }) => name);
  return fs.existsSync(path.join(dir, CURRENT_SEGMENT)) ? [...names, CURRENT_SEGMENT] : names;
}
