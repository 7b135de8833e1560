// The databases and the log of a stopped runtime, read from its files while its locks are held.
// Databases are copied first and opened as copies: SQLite would write to the originals.
import {
  closeSync,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { type Lock, tryLock } from '../../../platform/lock.ts';
import { DAEMONS } from '../../../wire/daemons.ts';
import { fault } from '../../../wire/errors.ts';
import { spool } from './backup-dir.ts';
import { openSealed, readArchived, readKeys } from './freeze.ts';
import type { DatabaseSource, LogSource, StateSource } from './state-source.ts';
import { openBelow, readChunks } from './state-tree.ts';

const MAIN_LOCK = 'runtime.lock';
const CURRENT_SEGMENT = 'audit.jsonl';
const SEALED_SEGMENT = /^audit-\d+\.jsonl$/;

/**
 * Holds every lock that processes of a runtime take, the main one first. Root must not be led
 * elsewhere by a link in a directory of the daemons, so only plain files are locked, and none is
 * created.
 */
export function lockState(stateDir: string, stateFd: number): Lock {
  const names = readdirSync(`/proc/self/fd/${stateFd}`).filter((name) => name.endsWith('.lock'));
  if (!names.includes(MAIN_LOCK))
    throw fault('not_found', `no runtime has used ${stateDir} yet`, {
      hint: 'Name the state directory with --state, or start the runtime: agentctl up.',
    });
  const locks: Lock[] = [];
  const release = (): void => {
    for (const lock of locks) lock.release();
  };
  try {
    for (const name of [MAIN_LOCK, ...names.filter((other) => other !== MAIN_LOCK)]) {
      const fd = openBelow(stateFd, name);
      if (fd === undefined)
        throw fault('bad_config', `${join(stateDir, name)} is not a plain file`);
      closeSync(fd);
      const url = pathToFileURL(join(stateDir, name));
      url.search = '?mode=rw';
      const lock = tryLock(url);
      if (lock === undefined)
        throw fault('state_in_use', `${stateDir} is in use by a runtime that does not respond`, {
          hint: 'Wait until it has started or stopped, or run agentctl doctor.',
        });
      locks.push(lock);
    }
    return { release };
  } catch (error) {
    release();
    throw error;
  }
}

export function readStoppedState(options: {
  stateFd: number;
  auditDir: number;
  /** For copies of databases. */
  scratchDir: string;
}): StateSource {
  const { stateFd, auditDir, scratchDir } = options;
  const { log, note } = readLog(auditDir);
  return {
    takenAtMs: Date.now(),
    isRunning: false,
    checkpoint: parseNote(note),
    readDatabases: () => readDatabases(stateFd, scratchDir),
    log,
    sealed: readdirSync(`/proc/self/fd/${auditDir}`)
      .filter((name) => SEALED_SEGMENT.test(name))
      .map((name) => openSealed(auditDir, name)),
    close: async () => {},
  };
}

function readLog(auditDir: number): { log: LogSource[]; note: string } {
  const segment = openBelow(auditDir, CURRENT_SEGMENT);
  const note = openBelow(auditDir, 'checkpoint');
  const archive = openBelow(auditDir, 'checkpoints.log');
  if (segment === undefined || note === undefined)
    throw fault('log_damaged', 'the audit log has no current segment, or no checkpoint', {
      hint: 'Start the runtime once, so that it repairs or reports it: agentctl up.',
    });
  const content = readFileSync(note);
  closeSync(note);
  const whole = (fd: number) => ({ fd, sizeBytes: fstatSync(fd).size });
  return {
    note: content.toString('utf8'),
    log: [
      { name: CURRENT_SEGMENT, mode: 0o640, fd: segment, sizeBytes: measureWholeLines(segment) },
      { name: 'checkpoint', mode: 0o640, content },
      ...(archive === undefined
        ? []
        : [{ name: 'checkpoints.log', mode: 0o640, ...whole(archive) }]),
      ...readKeys(auditDir),
      ...readArchived(auditDir),
    ],
  };
}

/** A killed runtime may have left half a line, which was never acknowledged. */
function measureWholeLines(fd: number): number {
  const bytes = Buffer.alloc(1 << 16);
  for (let end = fstatSync(fd).size; end > 0; ) {
    const start = Math.max(0, end - bytes.length);
    const got = readSync(fd, bytes, 0, end - start, start);
    const newline = bytes.subarray(0, got).lastIndexOf(10);
    if (newline >= 0) return start + newline + 1;
    end = start;
  }
  return 0;
}

/** A note's lines are its origin, the number of events, and the root. */
function parseNote(note: string): StateSource['checkpoint'] {
  const [, size, root] = note.split('\n');
  if (!/^\d+$/.test(size ?? '') || root === undefined)
    throw fault('log_damaged', 'the checkpoint of the audit log cannot be read');
  return { size: Number(size), root, note };
}

async function* readDatabases(stateFd: number, scratchDir: string): AsyncGenerator<DatabaseSource> {
  for (const daemon of DAEMONS) {
    const name = `${daemon}.sqlite`;
    const copy = join(scratchDir, name);
    if (!(await copyBelow(stateFd, name, copy))) continue;
    try {
      await copyBelow(stateFd, `${name}-wal`, `${copy}-wal`);
      mergeLog(copy);
      yield { name, chunks: readChunks(openSync(copy, 'r')) };
    } finally {
      for (const suffix of ['', '-wal', '-shm']) rmSync(`${copy}${suffix}`, { force: true });
    }
  }
}

async function copyBelow(dirFd: number, name: string, to: string): Promise<boolean> {
  const fd = openBelow(dirFd, name);
  if (fd === undefined) return false;
  await spool(to, readChunks(fd));
  return true;
}

/** Makes one file of a database and its write-ahead log. */
function mergeLog(file: string): void {
  const db = new DatabaseSync(file);
  try {
    db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  } catch (cause) {
    throw fault('storage_broken', `${file} is damaged: ${(cause as Error).message}`, { cause });
  } finally {
    db.close();
  }
}
