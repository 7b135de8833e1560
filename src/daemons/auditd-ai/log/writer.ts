// SegmentWriter writes the current segment: an append is durable as a whole or has no effect, and a
// full segment is sealed and followed by a new one.
import fs from 'node:fs';
import path from 'node:path';
import { storageFault } from '../../../platform/disk-fault.ts';
import { fault } from '../../../wire/errors.ts';
import { type LogDisk, syncDir, writeAll } from './disk.ts';
import { CURRENT_SEGMENT, formatSealedName, NEXT_SEGMENT } from './segments.ts';

export class SegmentWriter {
  sizeBytes: number;
  firstSeq: number;
  /** When its first event was written. */
  startedMs: number;
  readonly #dir: string;
  readonly #disk: LogDisk;
  #fd: number;
  /** A failed write may have left bytes that were never acknowledged. */
  #hasStrayBytes = false;
  /** The file's name is not durable yet; until it is, neither is its content. */
  #hasNewName = true;

  constructor(
    dir: string,
    state: { disk: LogDisk; firstSeq: number; sizeBytes: number; startedMs: number },
  ) {
    this.#dir = dir;
    this.#disk = state.disk;
    this.firstSeq = state.firstSeq;
    this.sizeBytes = state.sizeBytes;
    this.startedMs = state.startedMs;
    this.#fd = fs.openSync(this.path, 'a', 0o640);
  }

  get path(): string {
    return path.join(this.#dir, CURRENT_SEGMENT);
  }

  append(bytes: Buffer): void {
    this.#checkEnd();
    try {
      writeAll(this.#disk, this.#fd, bytes, null);
      this.#disk.datasync(this.#fd);
    } catch (cause) {
      // After a failed sync the kernel may mark lost pages clean, so this write is discarded.
      this.#hasStrayBytes = true;
      this.#tryCut();
      throw storageFault(`writing ${this.path}`, cause);
    }
    this.sizeBytes += bytes.length;
  }

  #tryCut(): void {
    try {
      this.#cut();
    } catch {
      // The next append truncates before it writes, and reports the error if that fails again.
    }
  }

  #cut(): void {
    this.#disk.truncate(this.#fd, this.sizeBytes);
    this.#hasStrayBytes = false;
  }

  #checkEnd(): void {
    if (this.#hasStrayBytes) {
      try {
        this.#cut();
      } catch (cause) {
        throw storageFault(`cutting a failed write off ${this.path}`, cause);
      }
    }
    if (this.#hasNewName) {
      try {
        syncDir(this.#dir);
      } catch (cause) {
        throw storageFault(`making the name of ${this.path} durable`, cause);
      }
      this.#hasNewName = false;
    }
    const { size, nlink } = fs.fstatSync(this.#fd);
    if (nlink === 0)
      throw fault('storage_broken', `${this.path} was removed while the log was open`);
    if (size !== this.sizeBytes) {
      const message = `${this.path} has ${size} bytes and should have ${this.sizeBytes}`;
      throw fault('log_damaged', `${message}: another process wrote to it or truncated it`);
    }
  }

  /** Seals the current segment and begins the next at `nextSeq`. Returns the sealed path. */
  seal(nextSeq: number): string {
    const sealed = path.join(this.#dir, formatSealedName(this.firstSeq));
    const old = this.#fd;
    try {
      this.#fd = this.#swapNames(sealed);
    } catch (cause) {
      throw storageFault(`beginning a new segment after ${this.path}`, cause);
    }
    this.firstSeq = nextSeq;
    this.sizeBytes = 0;
    this.#hasNewName = true;
    fs.fchmodSync(old, 0o440);
    fs.closeSync(old);
    return sealed;
  }

  #swapNames(sealed: string): number {
    const next = path.join(this.#dir, NEXT_SEGMENT);
    fs.rmSync(next, { force: true });
    const fd = fs.openSync(next, 'ax', 0o640);
    let isOldMoved = false;
    try {
      fs.renameSync(this.path, sealed);
      isOldMoved = true;
      fs.renameSync(next, this.path);
    } catch (cause) {
      fs.closeSync(fd);
      if (isOldMoved) fs.renameSync(sealed, this.path);
      throw cause;
    }
    return fd;
  }

  close(): void {
    fs.closeSync(this.#fd);
  }
}
