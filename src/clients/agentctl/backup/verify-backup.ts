// Verifies a backup: its manifest, the hash of every content, every database, and the audit log as
// far as its checkpoint. Only reads; needs no runtime and no key.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, openSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { Fault } from '../../../wire/errors.ts';
import { findProgram } from '../programs.ts';
import { type FoundBackup, formatObjectPath } from './backup-dir.ts';
import {
  type BackupEntry,
  type BackupHeader,
  manifestFault,
  readEntries,
  readPathField,
  type StoredObject,
  showPath,
} from './manifest.ts';
import { readChunks } from './state-tree.ts';

export type BackupProblem = {
  kind: 'manifest' | 'missing' | 'damaged' | 'database' | 'log';
  path: string;
  message: string;
};

export type BackupCheckOptions = {
  dir: string;
  /** For the log's files under their names. */
  scratchDir: string;
  onProgress: (done: { files: number; sizeBytes: number }) => void;
  signal: AbortSignal;
};

/** Resolves to the problems; none means that it can be restored. */
export async function verifyBackup(
  backup: FoundBackup,
  options: BackupCheckOptions,
): Promise<BackupProblem[]> {
  if (!backup.isFinished)
    return [{ kind: 'manifest', path: backup.file, message: `the backup is ${backup.why}` }];
  const problems: BackupProblem[] = [];
  const special: BackupEntry[] = [];
  try {
    for await (const entry of verifyContents(backup.file, options, problems))
      if (entry.type === 'database' || isOfLog(entry)) special.push(entry);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return [...problems, { kind: 'manifest', path: backup.file, message: error.message }];
  }
  const isHere = (path: string): boolean => !problems.some((problem) => problem.path === path);
  for (const entry of special)
    if (entry.type === 'database' && isHere(showPath(entry)))
      problems.push(...checkDatabase(entry, options.dir));
  problems.push(...checkLog(special.filter(isOfLog), backup.header, options));
  return problems;
}

/** The path at which restoring would put it; undefined for what is no file. */
export function findTargetPath(entry: BackupEntry): Buffer | undefined {
  if (entry.type === 'skipped' || entry.type === 'tree') return undefined;
  if (entry.type !== 'artifact') return readPathField(entry);
  const { sha256 } = entry;
  return Buffer.from(join('objects', 'sha256', sha256.slice(0, 2), sha256.slice(2, 4), sha256));
}

async function* verifyContents(
  manifest: string,
  { dir, onProgress, signal }: BackupCheckOptions,
  problems: BackupProblem[],
): AsyncGenerator<BackupEntry> {
  const verified = new Map<string, Damage | undefined>();
  const done = { files: 0, sizeBytes: 0 };
  for (const entry of readEntries(manifest)) {
    signal.throwIfAborted();
    const path = findTargetPath(entry);
    if (path !== undefined) assertInside(path, manifest);
    if ('sha256' in entry) {
      if (!/^[0-9a-f]{64}$/.test(entry.sha256)) throw manifestFault(manifest, 'a hash is no hash');
      if (!verified.has(entry.sha256)) verified.set(entry.sha256, await findDamage(dir, entry));
      const damage = verified.get(entry.sha256);
      if (damage !== undefined) problems.push({ ...damage, path: path!.toString('utf8') });
      done.files += 1;
      done.sizeBytes += entry.size_bytes;
      onProgress(done);
    }
    yield entry;
  }
}

/** A forged manifest could name a path outside of the state directory. */
function assertInside(path: Buffer, manifest: string): void {
  const parts = path.toString('latin1').split('/');
  if (parts.every((part) => part !== '' && part !== '.' && part !== '..' && !part.includes('\0')))
    return;
  throw manifestFault(manifest, `it has a path that is not inside: ${path.toString('utf8')}`);
}

type Damage = Pick<BackupProblem, 'kind' | 'message'>;

async function findDamage(
  dir: string,
  { sha256, size_bytes }: StoredObject,
): Promise<Damage | undefined> {
  const file = formatObjectPath(sha256);
  const unreadable = (error: unknown): Damage => {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'ENOENT'
      ? { kind: 'missing', message: `${file} is missing` }
      : { kind: 'damaged', message: `${file} cannot be read (${code})` };
  };
  const hash = createHash('sha256');
  let sizeBytes = 0;
  try {
    for await (const chunk of readChunks(openSync(join(dir, file), 'r'))) {
      hash.update(chunk);
      sizeBytes += chunk.length;
    }
  } catch (error) {
    return unreadable(error);
  }
  if (sizeBytes !== size_bytes)
    return { kind: 'damaged', message: `${file} has ${sizeBytes} bytes, not ${size_bytes}` };
  if (hash.digest('hex') === sha256) return undefined;
  return { kind: 'damaged', message: `${file} does not have the hash that is its name` };
}

function checkDatabase(entry: BackupEntry & { type: 'database' }, dir: string): BackupProblem[] {
  const url = pathToFileURL(resolve(dir, formatObjectPath(entry.sha256)));
  // SQLite makes no files beside one that cannot change.
  url.search = '?immutable=1';
  const problem = (message: string): BackupProblem[] => [
    { kind: 'database', path: showPath(entry), message },
  ];
  try {
    const db = new DatabaseSync(url, { readOnly: true });
    try {
      const row = db.prepare('PRAGMA integrity_check(1)').get() as { integrity_check: string };
      return row.integrity_check === 'ok' ? [] : problem(row.integrity_check);
    } finally {
      db.close();
    }
  } catch (error) {
    return problem((error as Error).message);
  }
}

type LogEntry = BackupEntry & { type: 'file' };
const isOfLog = (entry: BackupEntry): entry is LogEntry =>
  entry.type === 'file' &&
  /^audit\/(audit.*\.jsonl|archived\.jsonl|checkpoint.*|keys\/public\.txt)$/.test(showPath(entry));

/** Gives the log's files their names for the verifier, which checks every event. */
function checkLog(
  entries: readonly LogEntry[],
  { checkpoint }: BackupHeader,
  { dir, scratchDir }: BackupCheckOptions,
): BackupProblem[] {
  const log = join(scratchDir, 'log');
  rmSync(log, { recursive: true, force: true });
  for (const entry of entries) {
    const name = join(log, showPath(entry));
    mkdirSync(dirname(name), { recursive: true, mode: 0o700 });
    symlinkSync(resolve(dir, formatObjectPath(entry.sha256)), name);
  }
  const note = join(scratchDir, 'note');
  writeFileSync(note, checkpoint.note);
  const argv = [findProgram('audit-verify'), '--json', '--from', note, join(log, 'audit')];
  const { stdout, stderr } = spawnSync(process.execPath, argv, {
    encoding: 'utf8',
    env: {},
    maxBuffer: 1 << 26,
  });
  return readLogProblems(stdout, stderr);
}

type LogReport = {
  verify: { problems: { kind: string; segment: string | null; message: string }[] };
};

function readLogProblems(stdout: string, stderr: string): BackupProblem[] {
  try {
    const { verify } = JSON.parse(stdout) as LogReport;
    return verify.problems.map(({ kind, segment, message }) => ({
      kind: 'log',
      path: segment === null ? 'audit' : `audit/${segment}`,
      message: `${kind}: ${message}`,
    }));
  } catch {
    return [{ kind: 'log', path: 'audit', message: stderr.trim() || 'it cannot be verified' }];
  }
}
