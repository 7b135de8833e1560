// LevelFiles stores the tree's complete nodes: tree/L00 has the leaf hashes, tree/L01 the hashes of
// their pairs, and so on. They can be rebuilt from the segments, so appends do not wait for a sync.
import fs from 'node:fs';
import path from 'node:path';
import { storageFault } from '../../../platform/disk-fault.ts';
import { fault } from '../../../wire/errors.ts';
import { isMissing, type LogDisk, writeAll } from './disk.ts';
import { fromRaw, HASH_BYTES, hashNode, type NodeSource, type RawHash } from './merkle.ts';

const TREE_DIR = 'tree';
const LEVELS_MAX = 53;
const formatLevelName = (level: number): string => `L${String(level).padStart(2, '0')}`;

type Level = { fd: number | undefined; written: number; pending: RawHash[] };

export class LevelFiles implements NodeSource {
  readonly #dir: string;
  readonly #disk: LogDisk;
  readonly #levels: Level[] = [];
  #hasPending = false;

  constructor(logDir: string, disk: LogDisk) {
    this.#dir = path.join(logDir, TREE_DIR);
    this.#disk = disk;
    fs.mkdirSync(this.#dir, { recursive: true, mode: 0o700 });
    for (let level = 0; level < LEVELS_MAX; level += 1) {
      const fd = this.#open(level, 'r+');
      if (fd === undefined) break;
      const written = Math.floor(fs.fstatSync(fd).size / HASH_BYTES);
      this.#levels[level] = { fd, written, pending: [] };
    }
  }

  #open(level: number, flags: string): number | undefined {
    try {
      return fs.openSync(path.join(this.#dir, formatLevelName(level)), flags, 0o640);
    } catch (cause) {
      if (isMissing(cause)) return undefined;
      throw storageFault(`opening tree/${formatLevelName(level)}`, cause);
    }
  }

  count(level: number): number {
    const entry = this.#levels[level];
    return entry === undefined ? 0 : entry.written + entry.pending.length;
  }

  /** Returns true if every level has exactly the nodes of a tree of `size` leaves. */
  fits(size: number): boolean {
    let count = size;
    for (let level = 0; level < this.#levels.length || count > 0; level += 1) {
      if (this.count(level) !== count) return false;
      count = Math.floor(count / 2);
    }
    return true;
  }

  /** Returns true if every level has at least the nodes of a tree of `size` leaves. */
  covers(size: number): boolean {
    let count = size;
    for (let level = 0; count > 0; level += 1, count = Math.floor(count / 2)) {
      if (this.count(level) < count) return false;
    }
    return true;
  }

  readNode(level: number, index: number): Buffer {
    const entry = this.#levels[level];
    if (entry === undefined || index >= this.count(level)) {
      throw fault('log_damaged', `tree/${formatLevelName(level)} has no node ${index}`);
    }
    if (index >= entry.written) return fromRaw(entry.pending[index - entry.written]!);
    const node = Buffer.alloc(HASH_BYTES);
    fs.readSync(entry.fd!, node, 0, HASH_BYTES, index * HASH_BYTES);
    return node;
  }

  /** Returns true if the last complete pair of leaves hashes to its parent, unlike stray bytes. */
  isConsistent(): boolean {
    const pairs = this.count(1);
    if (pairs === 0) return true;
    const [left, right] = [this.readNode(0, 2 * pairs - 2), this.readNode(0, 2 * pairs - 1)];
    return hashNode(left, right).equals(this.readNode(1, pairs - 1));
  }

  readonly push = (level: number, node: RawHash): void => {
    this.#levels[level] ??= { fd: undefined, written: 0, pending: [] };
    this.#levels[level].pending.push(node);
    this.#hasPending = true;
  };

  /** Writes pending nodes. If that fails they stay pending for the next flush. */
  flush(): void {
    if (!this.#hasPending) return;
    for (const [level, entry] of this.#levels.entries()) {
      if (entry.pending.length === 0) continue;
      const bytes = Buffer.from(entry.pending.join(''), 'latin1');
      try {
        const { fd } = this.#openEntry(level);
        writeAll(this.#disk, fd!, bytes, entry.written * HASH_BYTES);
      } catch (cause) {
        throw storageFault(`writing tree/${formatLevelName(level)}`, cause);
      }
      entry.written += entry.pending.length;
      entry.pending = [];
    }
    this.#hasPending = false;
  }

  /**
   * Replaces everything by the known nodes of the first `size` leaves. The others become holes,
   * which read as zeros.
   */
  restart(size: number, nodes: readonly { level: number; index: number; node: RawHash }[]): void {
    this.reset(0);
    for (const { level, index, node } of nodes)
      writeAll(this.#disk, this.#openEntry(level).fd!, fromRaw(node), index * HASH_BYTES);
    let count = size;
    for (let level = 0; count > 0; level += 1, count = Math.floor(count / 2)) {
      const entry = this.#openEntry(level);
      fs.ftruncateSync(entry.fd!, count * HASH_BYTES);
      entry.written = count;
    }
  }

  #openEntry(level: number): Level {
    const entry = this.#levels[level] ?? { fd: undefined, written: 0, pending: [] };
    this.#levels[level] = entry;
    entry.fd ??= this.#open(level, 'w+')!;
    return entry;
  }

  /** Drops all nodes but those of the first `size` leaves. */
  reset(size: number): void {
    let count = size;
    for (const entry of this.#levels) {
      entry.pending = [];
      entry.written = Math.min(entry.written, count);
      if (entry.fd !== undefined) fs.ftruncateSync(entry.fd, entry.written * HASH_BYTES);
      count = Math.floor(count / 2);
    }
    this.#hasPending = false;
  }

  sync(): void {
    for (const { fd } of this.#levels) if (fd !== undefined) this.#disk.datasync(fd);
  }

  close(): void {
    for (const { fd } of this.#levels) if (fd !== undefined) fs.closeSync(fd);
    this.#levels.length = 0;
  }
}
