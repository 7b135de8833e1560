// agentctl restore: writes a backup into an empty state directory. A damaged backup is refused
// before anything is written; an interrupted restore is recognized, and started over.
import {
  closeSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { type Lock, tryLock } from '../../../platform/lock.ts';
import {
  RESTORED_FILE,
  RESTORING_FILE,
  type RestoreRecord,
} from '../../../platform/restore-record.ts';
import { fault } from '../../../wire/errors.ts';
import { type FoundBackup, findBackup, syncDir, syncFileSystem } from '../backup/backup-dir.ts';
import { readEntries, showPath } from '../backup/manifest.ts';
import { makeProgress, type ProgressLine } from '../backup/progress.ts';
import { openDir } from '../backup/state-tree.ts';
import { unpackTar } from '../backup/tar.ts';
import { verifyBackup } from '../backup/verify-backup.ts';
import { StateWriter } from '../backup/write-state.ts';
import type { Session } from '../command.ts';
import { EXIT_INTERRUPTED, onInterrupt } from '../interrupt.ts';
import { makeDirs } from '../make-state-dir.ts';
import { formatSize, formatSpan, pluralize } from '../show/amounts.ts';
import { renderFields } from '../show/table.ts';

type FinishedBackup = FoundBackup & { isFinished: true };
type Unpacked = { dir: string; remove(): void };

export async function restore(session: Session): Promise<number> {
  const { args, out, stateDir } = session;
  const startedMs = performance.now();
  assertEmpty(stateDir);
  const { signal, done } = onInterrupt();
  const progress = makeProgress(out);
  let unpacked: Unpacked | undefined;
  try {
    unpacked = await openBackup(args.positionals[0]!, stateDir, progress);
    const { dir } = unpacked;
    const backup = findBackup(dir, args.text('backup'));
    assertPinned(backup, args.text('manifest'));
    const sound = await assertSound(backup, { dir, progress, signal });
    assertOwners(sound);
    assertSpace(stateDir, sound.end.size_bytes);
    const record = await writeState(session, { dir, backup: sound, progress, signal });
    progress.clear();
    printRestored(session, sound, record, performance.now() - startedMs);
    return 0;
  } catch (error) {
    if (signal.aborted) return EXIT_INTERRUPTED;
    throw error;
  } finally {
    progress.clear();
    done();
    unpacked?.remove();
  }
}

/** Left by an interrupted restore, and, in the case of the last, by making a file system. */
const LEFT_ALONE = ['runtime.lock', RESTORING_FILE, 'lost+found'];

function assertEmpty(stateDir: string): void {
  let names: string[] = [];
  try {
    names = readdirSync(stateDir);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  if (names.every((name) => LEFT_ALONE.includes(name)) || names.includes(RESTORING_FILE)) return;
  throw fault('conflict', `${stateDir} is not empty`, {
    hint: 'Stop its runtime and move it away, or name another directory with --state.',
  });
}

/** A tar file is unpacked beside the state directory, where its contents have to fit anyway. */
async function openBackup(
  from: string,
  stateDir: string,
  progress: ProgressLine,
): Promise<Unpacked> {
  if (from !== '-') return { dir: resolve(from), remove() {} };
  makeDirs(dirname(stateDir), 0o700);
  const dir = mkdtempSync(`${stateDir}.unpacked-`);
  const remove = (): void => rmSync(dir, { recursive: true, force: true });
  try {
    progress.show('reading standard input');
    await unpackTar(process.stdin, dir);
    return { dir, remove };
  } catch (error) {
    remove();
    throw error;
  }
}

type CheckJob = { dir: string; progress: ProgressLine; signal: AbortSignal };

async function assertSound(
  backup: FoundBackup,
  { dir, progress, signal }: CheckJob,
): Promise<FinishedBackup> {
  const scratchDir = mkdtempSync(join(tmpdir(), 'agentctl-restore-'));
  const onProgress = ({ files, sizeBytes }: { files: number; sizeBytes: number }) =>
    progress.show(`verifying: ${pluralize(files, 'file')}, ${formatSize(sizeBytes)}`);
  try {
    const problems = await verifyBackup(backup, { dir, scratchDir, onProgress, signal });
    const [first] = problems;
    if (first === undefined && backup.isFinished) return backup;
    throw fault(
      'storage_broken',
      `backup ${backup.id} is damaged: ${first?.path}: ${first?.message}`,
      {
        hint: `Nothing was written. Use another backup, or see: agentctl backup verify ${dir}`,
        details: { problems: problems.slice(0, PROBLEMS_MAX) },
      },
    );
  } finally {
    rmSync(scratchDir, { recursive: true, force: true });
  }
}

const PROBLEMS_MAX = 100;

/** A hash kept elsewhere reveals a backup that was replaced as a whole. */
function assertPinned(backup: FoundBackup, pinned: string | undefined): void {
  if (pinned === undefined || !backup.isFinished || backup.end.sha256 === pinned) return;
  throw fault(
    'storage_broken',
    `backup ${backup.id} is another one: the hash of its manifest is ${backup.end.sha256}`,
    { hint: 'Nothing was written. Name the backup that has this hash, with --backup ID.' },
  );
}

/** Agents' files keep their owners, which only root can set. */
function assertOwners({ id, header, end }: FinishedBackup): void {
  const uid = process.getuid?.() ?? 0;
  if (uid === 0 && header.made_by !== 0)
    throw fault('bad_usage', `backup ${id} was made by an ordinary user (uid ${header.made_by})`, {
      hint: 'Restore it as the user who will run it.',
    });
  if (uid !== 0 && end.owners.some((owner) => owner !== header.uid))
    throw fault('bad_usage', `backup ${id} has files of several users`, {
      hint: 'Restore it as root.',
    });
}

function assertSpace(stateDir: string, sizeBytes: number): void {
  makeDirs(dirname(stateDir), 0o700);
  const { bavail, bsize } = statfsSync(dirname(stateDir));
  if (bavail * bsize > sizeBytes) return;
  throw fault('storage_full', `${formatSize(sizeBytes)} do not fit on the disk of ${stateDir}`, {
    hint: 'Nothing was written. Free space there, or name another directory with --state.',
  });
}

type WriteJob = CheckJob & { backup: FinishedBackup };

async function writeState(
  { args, stateDir }: Session,
  { dir, backup, progress, signal }: WriteJob,
): Promise<RestoreRecord> {
  makeDirs(stateDir, 0o700);
  const lock = lockNewState(stateDir);
  const stateFd = openDir(stateDir);
  try {
    // From here until the end nothing starts on this directory.
    writeFileSync(join(stateDir, RESTORING_FILE), '{}\n', { mode: 0o600, flush: true });
    syncDir(stateDir);
    for (const name of readdirSync(stateDir))
      if (!LEFT_ALONE.includes(name)) rmSync(join(stateDir, name), { recursive: true });
    const { id, header, end } = backup;
    const writer = new StateWriter(stateFd, dir, header);
    const changed = await writeEntries(writer, backup.file, { progress, signal });
    if (args.flag('halted')) writeFileSync(join(stateDir, 'HALT'), HALT_REASON, { mode: 0o600 });
    const record: RestoreRecord = {
      backup: id,
      taken_at: header.taken_at,
      restored_at: new Date().toISOString(),
      events: header.checkpoint.size,
      root: header.checkpoint.root,
      manifest_sha256: end.sha256,
      changed_trees: changed,
    };
    const text = `${JSON.stringify(record)}\n`;
    writeFileSync(join(stateDir, `${RESTORED_FILE}.tmp`), text, { mode: 0o600, flush: true });
    renameSync(join(stateDir, `${RESTORED_FILE}.tmp`), join(stateDir, RESTORED_FILE));
    progress.show('syncing');
    syncFileSystem(stateDir);
    rmSync(join(stateDir, RESTORING_FILE));
    syncDir(stateDir);
    return record;
  } finally {
    closeSync(stateFd);
    lock.release();
  }
}

const HALT_REASON = 'restored from a backup\n';

function lockNewState(stateDir: string): Lock {
  const lock = tryLock(join(stateDir, 'runtime.lock'));
  if (lock !== undefined) return lock;
  throw fault('state_in_use', `${stateDir} is in use`, { hint: 'Wait until it is free.' });
}

/** Resolves to the root tasks whose files are newer than the databases. */
async function writeEntries(
  writer: StateWriter,
  manifest: string,
  { progress, signal }: Pick<WriteJob, 'progress' | 'signal'>,
): Promise<string[]> {
  const changed = new Set<string>();
  let count = 0;
  for (const entry of readEntries(manifest)) {
    signal.throwIfAborted();
    if (entry.type === 'tree' && entry.changed) changed.add(showPath(entry).split('/')[1]!);
    await writer.write(entry);
    count += 1;
    progress.show(`writing: ${pluralize(count, 'entry', 'entries')}`);
  }
  writer.end();
  return [...changed];
}

function printRestored(
  { out, stateDir, args }: Session,
  { id, header, end }: FinishedBackup,
  record: RestoreRecord,
  tookMs: number,
): void {
  const { taken_at, events, changed_trees, manifest_sha256 } = record;
  const document = {
    backup: id,
    state_dir: stateDir,
    taken_at,
    events,
    manifest_sha256,
    entries: end.entries,
    size_bytes: end.size_bytes,
    changed_trees,
  };
  const { paint, columns } = out;
  out.print({ restore: document }, () => [
    `${paint('green', 'Restored')}: ${stateDir}`,
    ...renderFields(
      [
        ['backup', id],
        ['as of', `${header.taken_at}, ${pluralize(events, 'event')} in the log`],
        ['content', `${pluralize(end.entries, 'entry', 'entries')}, ${formatSize(end.size_bytes)}`],
        ['took', formatSpan(tookMs)],
      ],
      paint,
      columns,
    ),
    'Tasks that were open resume; a person is asked about calls that they may have made since.',
    'What people changed since is gone: review permits, keys, policies, agents and budgets.',
    args.flag('halted')
      ? 'Next: agentctl up. It is halted; agents resume with agentctl unhalt.'
      : 'Next: agentctl up',
  ]);
}
