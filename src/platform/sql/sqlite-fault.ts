// Turns errors of SQLite into faults: a full disk, a broken disk, a damaged or closed file.
import { rmSync, writeFileSync } from 'node:fs';
import { fault } from '../../wire/errors.ts';
import { isDiskFull } from '../disk-fault.ts';
import { failedSyncFault } from './failed-sync.ts';

/** Result codes of SQLite. The codes of a failed sync are extended codes of IOERR. */
const IOERR = 10;
const CORRUPT = 11;
const FULL = 13;
const NOTADB = 26;
const FAILED_SYNC = [1_034, 1_290];

const PROBE_BYTES = 1 << 16;

/** Returns other errors unchanged. */
export function sqliteFault(error: unknown, file: string): unknown {
  const { code, errcode = 0, message } = error as SqliteError;
  if (code === 'ERR_INVALID_STATE') return fault('stopping', `${file} is closed`, { cause: error });
  if (code !== 'ERR_SQLITE_ERROR') return error;
  const primary = errcode & 255;
  const extra = { cause: error };
  if (isFailedSync(error)) return failedSyncFault(file, error);
  if (primary === FULL || (primary === IOERR && isOutOfSpace(file)))
    return fault('storage_full', `the disk of ${file} is full`, extra);
  if (primary === IOERR)
    return fault('storage_broken', `${file} could not be read or written: ${message}`, extra);
  if (primary === CORRUPT || primary === NOTADB)
    return fault('storage_broken', `${file} is damaged: ${message}`, extra);
  return error;
}

type SqliteError = { code?: string; errcode?: number; message?: string };

export function isFailedSync(error: unknown): boolean {
  return FAILED_SYNC.includes((error as SqliteError).errcode ?? 0);
}

/**
 * SQLite reports an exceeded quota, or no space for its shared memory, as an I/O error without the
 * errno, so a write to the file system is tried.
 */
function isOutOfSpace(file: string): boolean {
  const probe = `${file}-probe`;
  try {
    try {
      writeFileSync(probe, Buffer.alloc(PROBE_BYTES));
    } finally {
      rmSync(probe, { force: true });
    }
    return false;
  } catch (error) {
    return isDiskFull(error);
  }
}
