// Writes the entries of a backup into a new state directory, through descriptors and without
// following links: a backup may contain links that agents made. As root it restores owners.
import { createHash } from 'node:crypto';
import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  futimesSync,
  lchownSync,
  mkdirSync,
  openSync,
  symlinkSync,
} from 'node:fs';
import { join } from 'node:path';
import { fault } from '../../../wire/errors.ts';
import { formatObjectPath } from './backup-dir.ts';
import {
  type BackupEntry,
  type BackupHeader,
  type Owner,
  type StoredObject,
  writeAll,
} from './manifest.ts';
import { directoryRecords, type MarkRecord, whiteoutRecord, writeMarks } from './overlay-marks.ts';
import { openDir, readChunks } from './state-tree.ts';
import { findTargetPath } from './verify-backup.ts';

const { O_CREAT, O_EXCL, O_WRONLY, O_NOFOLLOW } = constants;
const SLASH = 47;
/** At these depths the daemons own directories in trees; what is deeper belongs to agents. */
const TREE_DEPTHS = /^(workspaces|homes)(\/[^/]*)?$/;

export class StateWriter {
  readonly #stateFd: number;
  readonly #dir: string;
  readonly #header: BackupHeader;
  readonly #isRoot = process.getuid?.() === 0;
  /** The directory written to last. */
  #parent: { path: string; fd: number } | undefined;
  /** Modes are set last, because a directory may be closed to its owner. */
  readonly #dirs: (Owner & { path: Buffer })[] = [];
  readonly #marks: MarkRecord[] = [];

  constructor(stateFd: number, dir: string, header: BackupHeader) {
    this.#stateFd = stateFd;
    this.#dir = dir;
    this.#header = header;
  }

  async write(entry: BackupEntry): Promise<void> {
    const path = findTargetPath(entry);
    if (path === undefined) return;
    switch (entry.type) {
      case 'dir':
        this.#openDir(path);
        this.#dirs.push({ path, mode: entry.mode, uid: entry.uid, gid: entry.gid });
        if (entry.overlay !== undefined) this.#marks.push(...directoryRecords(path, entry.overlay));
        return;
      case 'whiteout':
        this.#marks.push(whiteoutRecord(path, this.#mapOwner(path, entry)));
        return;
      case 'link':
        return this.#writeLink(path, entry);
      case 'file':
        return this.#writeFile(path, entry, { ...entry, mode: entry.mode & 0o777 });
      case 'database':
      case 'artifact': {
        const { uid, gid } = this.#header;
        // Nothing changes an artifact.
        const mode = entry.type === 'artifact' ? 0o400 : 0o600;
        return this.#writeFile(path, entry, { mode, uid, gid });
      }
    }
  }

  end(): void {
    writeMarks(this.#stateFd, this.#marks);
    for (const { path, mode, uid, gid } of this.#dirs.reverse()) {
      const fd = this.#openDir(path);
      this.#setOwner(fd, path, { uid, gid });
      fchmodSync(fd, mode);
    }
    if (this.#parent !== undefined) closeSync(this.#parent.fd);
    this.#parent = undefined;
  }

  #writeLink(path: Buffer, entry: BackupEntry & { type: 'link' }): void {
    const at = this.#at(path);
    symlinkSync(Buffer.from(entry.target_base64, 'base64'), at);
    const { uid, gid } = this.#mapOwner(path, entry);
    if (this.#isRoot) lchownSync(at, uid, gid);
  }

  async #writeFile(
    path: Buffer,
    object: StoredObject & { mtime_ms?: number },
    owner: Owner,
  ): Promise<void> {
    const fd = openSync(this.#at(path), O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, 0o600);
    try {
      await this.#copy(object, fd);
      // An owner set later would clear bits of the mode.
      this.#setOwner(fd, path, owner);
      fchmodSync(fd, owner.mode);
      if (object.mtime_ms !== undefined) {
        const seconds = object.mtime_ms / 1_000;
        futimesSync(fd, seconds, seconds);
      }
    } finally {
      closeSync(fd);
    }
  }

  /** Hashed once more: the backup was verified a while ago. */
  async #copy({ sha256 }: StoredObject, fd: number): Promise<void> {
    const hash = createHash('sha256');
    const from = openSync(join(this.#dir, formatObjectPath(sha256)), 'r');
    for await (const chunk of readChunks(from)) {
      hash.update(chunk);
      writeAll(fd, chunk);
    }
    if (hash.digest('hex') === sha256) return;
    throw fault('storage_broken', `${formatObjectPath(sha256)} was changed while it was restored`, {
      hint: 'Check the backup again: agentctl backup verify DIR.',
    });
  }

  #setOwner(fd: number, path: Buffer, owner: Pick<Owner, 'uid' | 'gid'>): void {
    if (!this.#isRoot) return;
    const { uid, gid } = this.#mapOwner(path, owner);
    fchownSync(fd, uid, gid);
  }

  /**
   * Files of the daemons belong to root until the next start, which gives them to the user that the
   * daemons have here. Agents have the same uids everywhere.
   */
  #mapOwner(path: Buffer, { uid, gid }: Pick<Owner, 'uid' | 'gid'>): { uid: number; gid: number } {
    const text = path.toString('latin1');
    const isInTree = /^(workspaces|homes)\//.test(text) && !TREE_DEPTHS.test(text);
    if (isInTree || uid !== this.#header.uid) return { uid, gid };
    return { uid: 0, gid: gid === this.#header.gid ? 0 : gid };
  }

  /** Returns a path through the descriptor of the entry's directory. */
  #at(path: Buffer): Buffer {
    const slash = path.lastIndexOf(SLASH);
    const dirFd = slash < 0 ? this.#stateFd : this.#openDir(path.subarray(0, slash));
    return below(dirFd, path.subarray(slash + 1));
  }

  /** Opens a directory component by component, and makes those that are missing. */
  #openDir(path: Buffer): number {
    const key = path.toString('latin1');
    if (this.#parent?.path === key) return this.#parent.fd;
    let fd = this.#stateFd;
    for (const name of splitPath(path)) {
      const at = below(fd, name);
      try {
        mkdirSync(at, { mode: 0o700 });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      }
      const next = openDir(at);
      if (fd !== this.#stateFd) closeSync(fd);
      fd = next;
    }
    if (this.#parent !== undefined) closeSync(this.#parent.fd);
    this.#parent = { path: key, fd };
    return fd;
  }
}

const below = (fd: number, name: Buffer): Buffer =>
  Buffer.concat([Buffer.from(`/proc/self/fd/${fd}/`), name]);

function splitPath(path: Buffer): Buffer[] {
  const names: Buffer[] = [];
  let start = 0;
  for (let at = path.indexOf(SLASH); at >= 0; at = path.indexOf(SLASH, start)) {
    names.push(path.subarray(start, at));
    start = at + 1;
  }
  return [...names, path.subarray(start)];
}
