// A backup directory: contents by hash, shared by all backups in it, and one manifest per backup.
//   objects/ab/cd/<sha256>   backups/<id>.jsonl   agentd-backup.json (the format)
// A manifest gets its name last, so that an interrupted backup leaves the earlier ones as they are.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { type Lock, tryLock } from '../../../platform/lock.ts';
import { fault } from '../../../wire/errors.ts';
import { makeDirs } from '../make-state-dir.ts';
import { type BackupEnd, FORMAT, readSummary, type StoredObject, writeAll } from './manifest.ts';

export const FORMAT_FILE = 'agentd-backup.json';
export const formatObjectPath = (sha256: string): string =>
  join('objects', sha256.slice(0, 2), sha256.slice(2, 4), sha256);
export const formatManifestPath = (id: string): string => join('backups', `${id}.jsonl`);
export const FORMAT_TEXT = `${JSON.stringify({ agentd_backup: FORMAT })}\n`;

export type Chunks = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/** Where a backup is written to: a directory, or a tar file. */
export type BackupTarget = {
  /** The manifest is written here, and published by `commit`. */
  readonly manifestFile: string;
  /** True if this content is in the target already. */
  has(object: StoredObject): boolean;
  put(chunks: Chunks): Promise<StoredObject & { isNew: boolean }>;
  commit(id: string, end: BackupEnd): Promise<void>;
  /** Removes what an unfinished backup left. */
  discard(): void;
};

const UNFINISHED = /^(.+)\.unfinished$/;

/** Refuses a directory with other things in it, so that a wrong path does no harm. */
export function assertBackupDir(dir: string): void {
  let text: string;
  try {
    text = readFileSync(join(dir, FORMAT_FILE), 'utf8');
  } catch (cause) {
    if (!existsSync(dir)) throw fault('not_found', `directory ${dir} not found`, { cause });
    throw fault('bad_usage', `${dir} is not a backup directory`, {
      hint: 'Name a directory that agentctl backup made.',
      cause,
    });
  }
  const { agentd_backup: format } = JSON.parse(text) as { agentd_backup?: number };
  if (format !== FORMAT)
    throw fault('state_newer', `${dir} has backups of format ${format}, not ${FORMAT}`);
}

export function prepareBackupDir(dir: string): void {
  makeDirs(dir, 0o700);
  const { uid, mode } = statSync(dir);
  if (uid !== process.getuid?.() || (mode & 0o022) !== 0)
    throw fault('bad_config', `${dir} does not belong to this user alone`, {
      hint: 'A backup contains keys. Use a directory of your own that only you can write to.',
    });
  const names = readdirSync(dir).filter((name) => name !== 'lost+found');
  if (names.length > 0) assertBackupDir(dir);
  else writeFileSync(join(dir, FORMAT_FILE), FORMAT_TEXT, { mode: 0o600, flush: true });
  for (const name of ['objects', 'backups', 'tmp']) makeDirs(join(dir, name), 0o700);
}

export function lockBackupDir(dir: string): Lock {
  const lock = tryLock(join(dir, 'lock'));
  if (lock !== undefined) return lock;
  throw fault('conflict', `another agentctl is writing to ${dir}`, {
    hint: 'Wait until it has finished.',
  });
}

/** The caller holds the lock of the directory. */
export function openBackupTarget(dir: string, id: string): BackupTarget {
  removeUnfinished(dir);
  const manifestFile = join(dir, 'backups', `${id}.unfinished`);
  return {
    manifestFile,
    has: (object) => hasObject(dir, object),
    async put(chunks) {
      const spooled = await spool(join(dir, 'tmp', 'object'), chunks);
      const { file, ...object } = spooled;
      if (hasObject(dir, object)) {
        rmSync(file);
        return { ...object, isNew: false };
      }
      const target = join(dir, formatObjectPath(object.sha256));
      mkdirSync(join(target, '..'), { recursive: true, mode: 0o700 });
      renameSync(file, target);
      return { ...object, isNew: true };
    },
    async commit() {
      // One sync of the file system costs less than one for each of many small files.
      syncFileSystem(dir);
      renameSync(manifestFile, join(dir, formatManifestPath(id)));
      syncDir(join(dir, 'backups'));
    },
    discard: () => removeUnfinished(dir),
  };
}

function removeUnfinished(dir: string): void {
  rmSync(join(dir, 'tmp'), { recursive: true, force: true });
  mkdirSync(join(dir, 'tmp'), { mode: 0o700 });
  for (const name of readdirSync(join(dir, 'backups')))
    if (UNFINISHED.test(name)) rmSync(join(dir, 'backups', name));
}

export function hasObject(dir: string, { sha256, size_bytes }: StoredObject): boolean {
  const found = statSync(join(dir, formatObjectPath(sha256)), { throwIfNoEntry: false });
  return found?.isFile() === true && found.size === size_bytes;
}

/** Writes to a file, whose name is known to the caller only when its hash is. */
export async function spool(
  file: string,
  chunks: Chunks,
): Promise<StoredObject & { file: string }> {
  const fd = openSync(file, 'w', 0o600);
  const hash = createHash('sha256');
  let sizeBytes = 0;
  try {
    for await (const chunk of chunks) {
      hash.update(chunk);
      writeAll(fd, chunk);
      sizeBytes += chunk.length;
    }
  } catch (error) {
    rmSync(file, { force: true });
    throw error;
  } finally {
    closeSync(fd);
  }
  return { file, sha256: hash.digest('hex'), size_bytes: sizeBytes };
}

/** Node has no syncfs. */
export function syncFileSystem(path: string): void {
  if (spawnSync('sync', ['-f', path]).status === 0) return;
  const { status, error } = spawnSync('sync');
  if (status !== 0)
    throw fault('storage_broken', `syncing the disk of ${path} failed`, { cause: error });
}

export function syncDir(dir: string): void {
  const fd = openSync(dir, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

export type FoundBackup = { id: string; file: string } & (
  | (ReturnType<typeof readSummary> & { isFinished: true })
  | { isFinished: false; why: string }
);

/** Lists backups, oldest first: ids sort by time. */
export function listBackups(dir: string): FoundBackup[] {
  assertBackupDir(dir);
  return readdirSync(join(dir, 'backups'))
    .sort()
    .flatMap((name): FoundBackup[] => {
      const file = join(dir, 'backups', name);
      const unfinished = UNFINISHED.exec(name)?.[1];
      if (unfinished !== undefined)
        return [{ id: unfinished, file, isFinished: false, why: 'unfinished' }];
      if (!name.endsWith('.jsonl')) return [];
      const id = name.slice(0, -'.jsonl'.length);
      try {
        return [{ id, file, ...readSummary(file), isFinished: true }];
      } catch (error) {
        return [{ id, file, isFinished: false, why: (error as Error).message }];
      }
    });
}

/** Returns the backup of this id, or the newest finished one. */
export function findBackup(dir: string, id: string | undefined): FoundBackup {
  const all = listBackups(dir);
  const found =
    id === undefined ? all.findLast(({ isFinished }) => isFinished) : all.find((b) => b.id === id);
  if (found !== undefined) return found;
  const what = id === undefined ? `no finished backup in ${dir}` : `no backup ${id} in ${dir}`;
  throw fault('not_found', what, { hint: `List them: agentctl backup list ${dir}` });
}
