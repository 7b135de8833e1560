// Copies a state directory into a backup: databases and log from their source, artifacts by hash,
// configuration, keys and the files of task trees through descriptors. What the target has already
// is not copied, and a file that did not change since the last backup is not read.
import { closeSync, fstatSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { BackupTarget } from './backup-dir.ts';
import {
  type BackupEntry,
  type BackupHeader,
  type FileEntry,
  FORMAT,
  type ManifestWriter,
  type OverlayMarks,
  type StoredObject,
  showPath,
  toPathField,
} from './manifest.ts';
import { IN_UPPER, readMarks, UPPER } from './overlay-marks.ts';
import type { LogSource, StateSource } from './state-source.ts';
import { type FoundEntry, openDir, readChunks, stampOf, walk } from './state-tree.ts';

/**
 * Names in the state directory that are not copied as files: databases, log and artifacts have
 * their own ways, and the rest belongs to running processes or to this machine.
 */
const LEFT_OUT = new RegExp(
  '^(audit|grants|objects|logs|runners|snapshots|(runtime|supervisor|restored|restoring)\\.json|' +
    'crash-(at|now)|.*\\.(lock(-journal)?|tmp)|.*\\.sqlite(-(wal|shm|journal)|\\.before-.*)?)$',
);
/** Files of the log that are copied as the checkpoint covers them, or can be rebuilt. */
const LOG_FILES = new RegExp(
  '^audit/(audit(-\\d+)?\\.jsonl(\\.next)?|checkpoint(\\.tmp)?|checkpoints\\.log|keys|tree|' +
    'verified\\.json|archived\\.jsonl)$',
);
/** The directory of a pruned tree is renamed before it is deleted. */
const PRUNED = '.pruned-';
const TREES = /^(workspaces|homes)\/([^/]+)(\/|$)/;
/** The kernel's timestamps of files may lag behind its clock by some milliseconds. */
const CLOCK_SLACK_MS = 100;
const TURN_MS = 100;

export type Counts = {
  files: number;
  sizeBytes: number;
  copiedFiles: number;
  copiedBytes: number;
  skipped: { path: string; reason: string }[];
  changedTrees: string[];
};

export type CollectOptions = {
  stateFd: number;
  source: StateSource;
  target: BackupTarget;
  manifest: ManifestWriter;
  /** Files of the last backup, by path. */
  previous: ReadonlyMap<string, FileEntry>;
  /** True for the name of a task tree whose files are wanted. */
  isTreeWanted: (name: string) => boolean;
  onProgress: (what: string, counts: Counts) => void;
  signal: AbortSignal;
};

export const makeHeader = (
  about: Pick<BackupHeader, 'id' | 'version' | 'uid' | 'gid'>,
  source: StateSource,
): BackupHeader => ({
  type: 'backup',
  format: FORMAT,
  ...about,
  taken_at: new Date(source.takenAtMs).toISOString(),
  running: source.isRunning,
  made_by: process.getuid?.() ?? 0,
  checkpoint: source.checkpoint,
});

export async function collect(options: CollectOptions): Promise<Counts> {
  const collector = new Collector(options);
  await collector.copyDatabases();
  await collector.copyLog();
  await collector.copyArtifacts();
  await collector.copyFiles();
  return collector.counts;
}

class Collector {
  readonly counts: Counts = {
    files: 0,
    sizeBytes: 0,
    copiedFiles: 0,
    copiedBytes: 0,
    skipped: [],
    changedTrees: [],
  };
  readonly #options: CollectOptions;
  #turnMs = performance.now();
  /** The marks of the layer whose files are copied. */
  #marks: ReadonlyMap<string, OverlayMarks> = new Map();

  constructor(options: CollectOptions) {
    this.#options = options;
  }

  /** First, because an open snapshot keeps SQLite from shortening its write-ahead log. */
  async copyDatabases(): Promise<void> {
    const { source, target, signal } = this.#options;
    for await (const { name, chunks } of source.readDatabases(signal)) {
      this.#report(name);
      const stored = this.#count(await target.put(chunks));
      this.#add({ type: 'database', path: name, ...stored });
    }
  }

  async copyLog(): Promise<void> {
    const { source } = this.#options;
    this.#report('the audit log');
    for (const { name, fd } of source.sealed)
      await this.#copyFile(fd, Buffer.from(`audit/${name}`));
    for (const part of source.log) await this.#copyLogPart(part);
    const isOther = (path: Buffer): boolean => !LOG_FILES.test(path.toString('latin1'));
    for (const entry of walkBelow(this.#options.stateFd, 'audit', isOther))
      await this.#copyEntry(entry);
  }

  async #copyLogPart(part: LogSource): Promise<void> {
    const chunks = 'fd' in part ? readChunks(part.fd, part.sizeBytes) : [part.content];
    const stored = this.#count(await this.#options.target.put(chunks));
    const { name, mode } = part;
    this.#add({
      type: 'file',
      path: `audit/${name}`,
      ...stored,
      mode,
      ...this.#daemonOwner(),
      mtime_ms: this.#options.source.takenAtMs,
      stamp: '',
    });
  }

  async copyArtifacts(): Promise<void> {
    const { stateFd, target } = this.#options;
    for (const entry of walkBelow(stateFd, 'objects')) {
      if (entry.type !== 'file') continue;
      const sha256 = nameOf(entry.path);
      const object = { sha256, size_bytes: Number(entry.stat.size) };
      if (!/^[0-9a-f]{64}$/.test(sha256)) closeSync(entry.fd);
      else if (target.has(object)) {
        closeSync(entry.fd);
        this.#add({ type: 'artifact', ...this.#count({ ...object, isNew: false }) });
      } else {
        const stored = await target.put(readChunks(entry.fd));
        if (stored.sha256 === sha256) this.#add({ type: 'artifact', ...this.#count(stored) });
        else this.#skip(entry.path, 'its content does not have the hash that is its name');
      }
      this.#report('artifacts');
      await this.#takeTurns();
    }
  }

  /** Configuration, manifests, keys, and the files of task trees. */
  async copyFiles(): Promise<void> {
    const { stateFd, isTreeWanted } = this.#options;
    const isWanted = (path: Buffer): boolean => {
      const text = path.toString('latin1');
      const tree = TREES.exec(text)?.[2];
      if (tree !== undefined) return !tree.startsWith(PRUNED) && isTreeWanted(tree);
      return text.includes('/') || !LEFT_OUT.test(text);
    };
    let tree: { path: string; changed: boolean } | undefined;
    const endTree = (): void => {
      if (tree === undefined) return;
      if (tree.changed) this.counts.changedTrees.push(tree.path);
      this.#add({ type: 'tree', ...tree });
      tree = undefined;
    };
    for (const entry of walk(stateFd, undefined, isWanted)) {
      const path = treeOf(entry.path);
      if (path !== tree?.path) endTree();
      if (path !== undefined) tree ??= { path, changed: false };
      if (tree !== undefined && this.#isNewer(entry)) tree.changed = true;
      await this.#copyEntry(entry);
      this.#report(path === undefined ? 'configuration' : 'files of tasks');
      await this.#takeTurns();
    }
    endTree();
  }

  /** True if it was changed after the databases were frozen. */
  #isNewer({ stat }: FoundEntry): boolean {
    const { source } = this.#options;
    return source.isRunning && Number(stat.ctimeMs) >= source.takenAtMs - CLOCK_SLACK_MS;
  }

  async #copyEntry(entry: FoundEntry): Promise<void> {
    const { path, stat } = entry;
    const owner = { uid: Number(stat.uid), gid: Number(stat.gid) };
    const mode = Number(stat.mode) & 0o7777;
    switch (entry.type) {
      case 'file':
        return this.#copyFile(entry.fd, path, entry);
      case 'dir': {
        const text = path.toString('latin1');
        if (UPPER.test(text)) this.#marks = readMarks(this.#options.stateFd, text);
        const overlay = this.#marks.get(text);
        const marks = overlay === undefined ? {} : { overlay };
        return this.#add({ type: 'dir', ...toPathField(path), mode, ...owner, ...marks });
      }
      case 'whiteout':
        if (!IN_UPPER.test(path.toString('latin1')))
          return this.#skip(path, 'it is a device outside of a layer');
        return this.#add({ type: 'whiteout', ...toPathField(path), ...owner });
      case 'link': {
        const target = entry.target.toString('base64');
        return this.#add({ type: 'link', ...toPathField(path), target_base64: target, ...owner });
      }
      case 'skipped':
        return this.#skip(path, entry.reason);
    }
  }

  async #copyFile(fd: number, path: Buffer, found?: Pick<FoundEntry, 'stat'>): Promise<void> {
    const stat = found?.stat ?? fstatSync(fd, { bigint: true });
    const field = toPathField(path);
    const stored = await this.#store(fd, stat, this.#options.previous.get(showPath(field)));
    this.#add({
      type: 'file',
      ...field,
      ...stored,
      mode: Number(stat.mode) & 0o7777,
      uid: Number(stat.uid),
      gid: Number(stat.gid),
      mtime_ms: Number(stat.mtimeMs),
      stamp: stampOf(stat),
    });
  }

  /** Reads the file unless the last backup has it as it is. */
  async #store(
    fd: number,
    stat: FoundEntry['stat'],
    before: FileEntry | undefined,
  ): Promise<StoredObject> {
    const { target } = this.#options;
    if (before?.stamp === stampOf(stat) && target.has(before)) {
      closeSync(fd);
      const { sha256, size_bytes } = before;
      return this.#count({ sha256, size_bytes, isNew: false });
    }
    // No more than it had: a file that grows all the time has no end.
    return this.#count(await target.put(readChunks(fd, Number(stat.size))));
  }

  #daemonOwner(): { uid: number; gid: number } {
    const { uid, gid } = fstatSync(this.#options.stateFd);
    return { uid, gid };
  }

  #count({ isNew, ...stored }: StoredObject & { isNew: boolean }): StoredObject {
    this.#options.signal.throwIfAborted();
    this.counts.files += 1;
    this.counts.sizeBytes += stored.size_bytes;
    if (isNew) {
      this.counts.copiedFiles += 1;
      this.counts.copiedBytes += stored.size_bytes;
    }
    return stored;
  }

  #add(entry: BackupEntry): void {
    this.#options.manifest.add(entry);
  }

  #skip(path: Buffer, reason: string): void {
    const field = toPathField(path);
    this.counts.skipped.push({ path: showPath(field), reason });
    this.#add({ type: 'skipped', ...field, reason });
  }

  /** Lets timers and signals be handled: a file that is not read again takes no turn of its own. */
  async #takeTurns(): Promise<void> {
    if (performance.now() - this.#turnMs < TURN_MS) return;
    await nextTurn();
    this.#turnMs = performance.now();
  }

  #report(what: string): void {
    this.#options.onProgress(what, this.counts);
  }
}

const nameOf = (path: Buffer): string => path.subarray(path.lastIndexOf(47) + 1).toString('latin1');

function treeOf(path: Buffer): string | undefined {
  const [, kind, name] = TREES.exec(path.toString('latin1')) ?? [];
  return kind === undefined ? undefined : `${kind}/${name}`;
}

function* walkBelow(
  stateFd: number,
  name: string,
  isWanted?: (path: Buffer) => boolean,
): Generator<FoundEntry> {
  let fd: number;
  try {
    fd = openDir(`/proc/self/fd/${stateFd}/${name}`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  try {
    yield* walk(fd, Buffer.from(name), isWanted);
  } finally {
    closeSync(fd);
  }
}
