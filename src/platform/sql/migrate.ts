// Migrates a SQLite file to the current version: copies the file first, then runs one transaction
// for each version. A file of a newer version is refused.
import {
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fsyncSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { dirname } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { fault } from '../../wire/errors.ts';
import { isDiskFull, storageFault } from '../disk-fault.ts';
import type { Log } from '../log.ts';
import type { Migrations } from './database.ts';

export type MigrateOptions = { file: string; migrations: Migrations; log?: Log | undefined };

export function migrate(db: DatabaseSync, { file, migrations, log }: MigrateOptions): void {
  const { user_version: found } = db.prepare('PRAGMA user_version').get() as {
    user_version: number;
  };
  const wanted = migrations.length;
  if (found > wanted) {
    throw fault(
      'state_newer',
      `${file} was written by a newer agentd (version ${found}, this one supports ${wanted})`,
    );
  }
  if (found === wanted) return;
  const copy = found > 0 ? backUp(db, file, found) : undefined;
  for (let version = found; version < wanted; version++) {
    db.exec('BEGIN IMMEDIATE');
    try {
      db.exec(migrations[version]!);
      db.exec(`PRAGMA user_version = ${version + 1}`);
      db.exec('COMMIT');
    } catch (error) {
      if (db.isTransaction) db.exec('ROLLBACK');
      throw copy === undefined || !isSchemaError(error)
        ? error
        : migrationFault({ file, copy, from: version, cause: error });
    }
  }
  if (copy !== undefined)
    log?.info('migrated a database', {
      file,
      from: found,
      to: wanted,
      as_it_was: copy,
    });
}

/** SQLITE_ERROR and SQLITE_CONSTRAINT: the statements do not fit the contents of the file. */
function isSchemaError(error: unknown): boolean {
  const { code, errcode = 0 } = error as { code?: string; errcode?: number };
  return code === 'ERR_SQLITE_ERROR' && [1, 19].includes(errcode & 255);
}

function migrationFault(what: { file: string; copy: string; from: number; cause: unknown }) {
  const { file, copy, from, cause } = what;
  return fault(
    'storage_broken',
    `migrating ${file} from version ${from} to ${from + 1} failed: ${(cause as Error).message}`,
    {
      hint: `Keep ${copy}, the copy from before this start; the failed step changed nothing.`,
      cause,
    },
  );
}

/** Returns the name of the copy. An earlier copy is never overwritten. */
function backUp(db: DatabaseSync, file: string, version: number): string {
  db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  const name = `${file}.before-${version}`;
  for (let n = 1; ; n++) {
    const target = n === 1 ? name : `${name}.${n}`;
    if (existsSync(target)) {
      if (isSame(file, target)) return target;
    } else {
      copyWhole(file, target);
      return target;
    }
  }
}

/** The copy is durable before the migration starts. */
function copyWhole(file: string, target: string): void {
  const unfinished = `${target}.tmp`;
  try {
    copyFileSync(file, unfinished, constants.COPYFILE_FICLONE);
    syncFile(unfinished);
    renameSync(unfinished, target);
    syncFile(dirname(target));
  } catch (cause) {
    rmSync(unfinished, { force: true });
    throw isDiskFull(cause) ? storageFault(`copying ${file} before its migration`, cause) : cause;
  }
}

function syncFile(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

const CHUNK_BYTES = 1 << 20;

/** An interrupted start leaves a copy with the same bytes. */
function isSame(a: string, b: string): boolean {
  if (statSync(a).size !== statSync(b).size) return false;
  const fds = [openSync(a, 'r'), openSync(b, 'r')] as const;
  try {
    const pieces = [Buffer.alloc(CHUNK_BYTES), Buffer.alloc(CHUNK_BYTES)] as const;
    for (;;) {
      const [n, m] = [readSync(fds[0], pieces[0]), readSync(fds[1], pieces[1])];
      if (n !== m || !pieces[0].subarray(0, n).equals(pieces[1].subarray(0, m))) return false;
      if (n === 0) return true;
    }
  } finally {
    for (const fd of fds) closeSync(fd);
  }
}
