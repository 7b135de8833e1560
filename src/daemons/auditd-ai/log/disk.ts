// Writes and replaces files durably. Calls that can fail are injected, so that tests can fail them.
import fs from 'node:fs';
import path from 'node:path';
import { storageFault } from '../../../platform/disk-fault.ts';

export type LogDisk = {
  /** Writes at `position`, or at the end if null. Returns the bytes written, perhaps not all. */
  write(fd: number, bytes: Buffer, position: number | null): number;
  datasync(fd: number): void;
  truncate(fd: number, sizeBytes: number): void;
};

// Blocking calls: on a local disk one write and fdatasync take half as long as through the thread
// pool, and making the queued events durable is this process's main work.
export const systemDisk: LogDisk = {
  write: (fd, bytes, position) => fs.writeSync(fd, bytes, 0, bytes.length, position),
  datasync: (fd) => fs.fdatasyncSync(fd),
  truncate: (fd, sizeBytes) => fs.ftruncateSync(fd, sizeBytes),
};

export const isMissing = (cause: unknown): boolean =>
  (cause as NodeJS.ErrnoException).code === 'ENOENT';

export function writeAll(disk: LogDisk, fd: number, bytes: Buffer, position: number | null): void {
  for (let done = 0; done < bytes.length; ) {
    const at = position === null ? null : position + done;
    done += disk.write(fd, bytes.subarray(done), at);
  }
}

/** Makes renames, creations and removals in the directory durable. */
export function syncDir(dir: string): void {
  const fd = fs.openSync(dir, 'r');
  try {
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

/** Replaces a file atomically: after a crash it is the complete old or new one. */
export function replaceFile(
  disk: LogDisk,
  file: { path: string; contents: string | Buffer; mode: number },
): void {
  const temporary = `${file.path}.tmp`;
  const fd = fs.openSync(temporary, 'w', file.mode);
  try {
    writeAll(disk, fd, Buffer.from(file.contents), 0);
    disk.datasync(fd);
  } finally {
    fs.closeSync(fd);
  }
  fs.renameSync(temporary, file.path);
  syncDir(path.dirname(file.path));
}

export function readFileIfExists(file: string): string | undefined {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (cause) {
    if (isMissing(cause)) return undefined;
    throw storageFault(`reading ${file}`, cause);
  }
}
