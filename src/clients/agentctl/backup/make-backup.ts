// Makes one backup: from a running runtime, which is frozen for a moment, or from the files of a
// stopped one.
import { closeSync, fstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../../platform/clock.ts';
import { makeIdMaker } from '../../../platform/ids.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { readOwnVersion } from '../programs.ts';
import { findRunning } from '../running.ts';
import type { RuntimeClient } from '../runtime.ts';
import { formatSize, pluralize } from '../show/amounts.ts';
import { describeRestart, readSupervisor } from '../supervisor.ts';
import {
  type BackupTarget,
  listBackups,
  lockBackupDir,
  openBackupTarget,
  prepareBackupDir,
} from './backup-dir.ts';
import { type Counts, collect, makeHeader } from './collect.ts';
import { freeze } from './freeze.ts';
import {
  type BackupEnd,
  type FileEntry,
  ManifestWriter,
  readEntries,
  showPath,
} from './manifest.ts';
import { makeProgress } from './progress.ts';
import type { StateSource } from './state-source.ts';
import { openDir } from './state-tree.ts';
import { lockState, readStoppedState } from './stopped-state.ts';
import { openTarTarget } from './tar.ts';

export type OpenState = {
  stateFd: number;
  auditDir: number;
  uid: number;
  gid: number;
  close(): void;
};

export function openState(stateDir: string): OpenState {
  let stateFd: number;
  try {
    stateFd = openDir(stateDir);
  } catch (cause) {
    throw fault('not_found', `no state directory ${stateDir}`, {
      hint: 'Name it with --state or AGENTD_STATE.',
      cause,
    });
  }
  try {
    const auditDir = openDir(`/proc/self/fd/${stateFd}/audit`);
    const { uid, gid } = fstatSync(stateFd);
    const close = (): void => {
      closeSync(auditDir);
      closeSync(stateFd);
    };
    return { stateFd, auditDir, uid, gid, close };
  } catch (cause) {
    closeSync(stateFd);
    throw fault('not_found', `no audit log found in ${stateDir}`, {
      hint: 'Name the state directory with --state, or start the runtime: agentctl up.',
      cause,
    });
  }
}

export type BackupJob = { dir: string | undefined; state: OpenState; signal: AbortSignal };
export type MadeBackup = { id: string; source: StateSource; counts: Counts; end: BackupEnd };

export async function makeBackup(session: Session, job: BackupJob): Promise<MadeBackup> {
  const scratchDir = mkdtempSync(join(tmpdir(), 'agentctl-backup-'));
  const lock = job.dir === undefined ? undefined : prepareAndLock(job.dir);
  try {
    const running = await findRunning(session.stateDir);
    if (running?.answers === true)
      return await backUpRunning(session, { ...job, scratchDir, runtime: session.runtime() });
    assertNoRestart(session.stateDir);
    const stopped = lockState(session.stateDir, job.state.stateFd);
    try {
      return await backUpStopped(session, { ...job, scratchDir });
    } finally {
      stopped.release();
    }
  } finally {
    lock?.release();
    rmSync(scratchDir, { recursive: true, force: true });
  }
}

/** The locks of a stopped state would keep its supervisor from restarting it. */
function assertNoRestart(stateDir: string): void {
  const supervisor = readSupervisor(stateDir);
  if (supervisor?.isAlive !== true) return;
  throw fault('runtime_down', describeRestart(supervisor), {
    hint: 'Retry in a moment, or stop the restarts with agentctl down.',
  });
}

function prepareAndLock(dir: string) {
  prepareBackupDir(dir);
  return lockBackupDir(dir);
}

type Scratch = { scratchDir: string };

async function backUpRunning(
  session: Session,
  job: BackupJob & Scratch & { runtime: RuntimeClient },
): Promise<MadeBackup> {
  const { runtime, state } = job;
  const { id } = (await runtime.call('agentd', 'startBackup', {})).backup;
  const renewing = setInterval(() => void renew(runtime, id), RENEW_INTERVAL_MS);
  try {
    const isTreeWanted = await chooseTrees(session, state, runtime);
    const source = await freeze(runtime, state.auditDir);
    const made = await write(session, { ...job, id, source, isTreeWanted });
    if (!(await recordEnd(runtime, id, made)))
      session.out.info('The end of this backup could not be recorded: the runtime is down.');
    return made;
  } catch (error) {
    await recordEnd(runtime, id, undefined);
    throw error;
  } finally {
    clearInterval(renewing);
  }
}

/** Pruning waits as long as the backup is renewed. */
const RENEW_INTERVAL_MS = 30_000;

/** A runtime that was just restarted prunes nothing before this is tried again. */
const renew = (runtime: RuntimeClient, id: string) =>
  runtime.call('agentd', 'renewBackup', { params: { id } }).catch(() => undefined);

/** Resolves to false when the runtime no longer responds. */
async function recordEnd(
  runtime: RuntimeClient,
  id: string,
  made: MadeBackup | undefined,
): Promise<boolean> {
  const body = {
    status: made === undefined ? ('failed' as const) : ('completed' as const),
    manifest_sha256: made?.end.sha256 ?? null,
    events: made?.source.checkpoint.size ?? null,
    size_bytes: made?.end.size_bytes ?? null,
  };
  return runtime.call('agentd', 'endBackup', { params: { id }, body }).then(
    () => true,
    () => false,
  );
}

async function backUpStopped(session: Session, job: BackupJob & Scratch): Promise<MadeBackup> {
  const isTreeWanted = await chooseTrees(session, job.state, undefined);
  const source = readStoppedState({ ...job.state, scratchDir: job.scratchDir });
  const id = makeIdMaker(systemClock())<string>('backup');
  return write(session, { ...job, id, source, isTreeWanted });
}

/**
 * With `open`, leaves out trees that had ended before the databases are frozen: an ended task never
 * starts again.
 */
async function chooseTrees(
  { args }: Session,
  { stateFd }: OpenState,
  runtime: RuntimeClient | undefined,
): Promise<(name: string) => boolean> {
  const wanted = args.text('files') ?? 'all';
  if (wanted === 'all') return () => true;
  if (wanted === 'none') return () => false;
  if (runtime === undefined)
    throw fault('bad_usage', 'only a running runtime knows which tasks are open', {
      hint: 'Use --files all or --files none, or start the runtime.',
    });
  const open = await listOpenRoots(runtime);
  const ended = new Set(listTrees(stateFd).filter((name) => !open.has(name)));
  return (name) => !ended.has(name);
}

const OPEN_STATUSES = ['blocked', 'ready', 'working', 'waiting'] as const;
const PAGE_TASKS = 500;

async function listOpenRoots(runtime: RuntimeClient): Promise<Set<string>> {
  const roots = new Set<string>();
  for (const status of OPEN_STATUSES) {
    for (let cursor: string | undefined; ; ) {
      const query = { status, limit: PAGE_TASKS, ...(cursor === undefined ? {} : { cursor }) };
      const page = await runtime.call('agentd', 'listTasks', { query });
      for (const { root_task_id } of page.tasks) roots.add(root_task_id);
      if (page.cursor === null) break;
      cursor = page.cursor;
    }
  }
  return roots;
}

function listTrees(stateFd: number): string[] {
  return ['workspaces', 'homes'].flatMap((kind) => {
    try {
      return readdirSync(`/proc/self/fd/${stateFd}/${kind}`);
    } catch {
      return [];
    }
  });
}

type WriteJob = BackupJob &
  Scratch & { id: string; source: StateSource; isTreeWanted: (name: string) => boolean };

async function write(session: Session, job: WriteJob): Promise<MadeBackup> {
  const { dir, id, source, state, scratchDir } = job;
  const progress = makeProgress(session.out);
  let target: BackupTarget | undefined;
  try {
    const previous = dir === undefined ? new Map<string, FileEntry>() : readPrevious(dir);
    target = dir === undefined ? openTarTarget(1, scratchDir) : openBackupTarget(dir, id);
    const { uid, gid } = state;
    const header = makeHeader({ id, version: readOwnVersion(), uid, gid }, source);
    const manifest = new ManifestWriter(target.manifestFile, header);
    const counts = await collect({
      ...job,
      ...state,
      target,
      manifest,
      previous,
      onProgress: (what, { files, sizeBytes }) =>
        progress.show(`${what}: ${pluralize(files, 'file')}, ${formatSize(sizeBytes)}`),
    });
    progress.show('syncing');
    const end = manifest.end();
    await target.commit(id, end);
    return { id, source, counts, end };
  } catch (error) {
    tryDiscard(target);
    throw error;
  } finally {
    progress.clear();
    await source.close();
  }
}

/** The reason of a failure must not be hidden by a second one. */
function tryDiscard(target: BackupTarget | undefined): void {
  try {
    target?.discard();
  } catch {
    // The next backup removes it.
  }
}

/** Files of the newest backup, whose content is not read again while they are unchanged. */
function readPrevious(dir: string): Map<string, FileEntry> {
  const files = new Map<string, FileEntry>();
  const newest = listBackups(dir).findLast(({ isFinished }) => isFinished);
  if (newest === undefined) return files;
  try {
    for (const entry of readEntries(newest.file))
      if (entry.type === 'file' && entry.stamp !== '') files.set(showPath(entry), entry);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    files.clear(); // A damaged manifest is not used: everything is read.
  }
  return files;
}
