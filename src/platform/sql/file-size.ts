// Reads the size of a SQLite file from its header, without opening the database.
import { closeSync, openSync, readSync, statSync } from 'node:fs';

/** `usedBytes` are in pages that hold something; `bytes` is what the files take on the disk. */
export type DatabaseSize = { bytes: number; usedBytes: number };

const HEADER_BYTES = 100;
const MAGIC = 'SQLite format 3\0';

/** Up to date as of the last checkpoint of the WAL, which is counted as a whole. */
export function readDatabaseSize(file: string): DatabaseSize {
  const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  const walBytes = sizeOf(`${file}-wal`);
  const bytes = sizeOf(file) + walBytes;
  const header = readHeader(file);
  if (header === undefined) return { bytes, usedBytes: bytes };
  // 1 stands for 65,536, which two bytes cannot hold.
  const pageBytes = header.readUInt16BE(16) === 1 ? 65_536 : header.readUInt16BE(16);
  const [pages, freePages] = [header.readUInt32BE(28), header.readUInt32BE(36)];
  return { bytes, usedBytes: (pages - freePages) * pageBytes + walBytes };
}

function readHeader(file: string): Buffer | undefined {
  let fd: number;
  try {
    fd = openSync(file, 'r');
  } catch {
    return undefined;
  }
  try {
    const header = Buffer.alloc(HEADER_BYTES);
    const isWhole = readSync(fd, header, 0, HEADER_BYTES, 0) === HEADER_BYTES;
    return isWhole && header.toString('latin1', 0, 16) === MAGIC ? header : undefined;
  } finally {
    closeSync(fd);
  }
}
