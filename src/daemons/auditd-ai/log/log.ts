// AuditLog appends events in groups, hashes them into the tree and covers them by signed
// checkpoints. An event is the text of a JSON object with an `id` and without `seq`; the log adds
// `"seq":N` as its first member. The caller must ensure that one process opens a directory.
import fs from 'node:fs';
import path from 'node:path';
import { storageFault } from '../../../platform/disk-fault.ts';
import type { Hold } from '../../../platform/holds.ts';
import { fault } from '../../../wire/errors.ts';
import { AppendQueue, type AppendResult, encodeGroup, type QueuedAppend } from './append-queue.ts';
import { type ArchivedSegment, archivedEnd, archivedFault } from './archived-file.ts';
import { HISTORY_INTERVAL_MS } from './checkpoint-files.ts';
import type { CompactRange } from './compact-range.ts';
import { type LogDisk, systemDisk } from './disk.ts';
import { KeyRing } from './keys.ts';
import { LevelFiles } from './level-files.ts';
import * as merkle from './merkle.ts';
import { type LogPart, type LogView, readRange, scanLines } from './reader.ts';
import { rebuildLevels } from './rebuild-tree.ts';
import { type CutTail, type RecoveredLog, recoverLog } from './recover.ts';
import { formatRotation } from './rotation.ts';
import { SegmentArchive } from './segment-archive.ts';
import { CURRENT_SEGMENT } from './segments.ts';
import { type LogClock, readSigned, type SignedCheckpoint, Signing } from './signing.ts';
import { SegmentWriter } from './writer.ts';

export type LogOptions = {
  dir: string;
  /** First line of the log's checkpoints and name of its keys. No space, no plus. */
  origin: string;
  clock: LogClock;
  segmentBytesMax: number;
  /** A segment whose first event is older is sealed before the next append. */
  segmentAgeMaxMs?: number;
  /** Interval at which a log that has grown is signed. */
  checkpointEveryMs: number;
  /** One checkpoint signed by the timer is added to the history per this interval. */
  historyEveryMs?: number;
  lineBytesMax?: number;
  queueBytesMax?: number;
  disk?: LogDisk;
  /** Called with errors that no caller awaits, such as those of signing by the timer. */
  onFault?: (problem: unknown) => void;
};

const DEFAULTS = {
  segmentAgeMaxMs: Number.POSITIVE_INFINITY,
  historyEveryMs: HISTORY_INTERVAL_MS,
  lineBytesMax: 1 << 20,
  queueBytesMax: 64 << 20,
  disk: systemDisk,
  onFault: () => {},
};

export async function openLog(options: LogOptions): Promise<AuditLog> {
  const all: Required<LogOptions> = { ...DEFAULTS, ...options };
  const { dir, origin, disk } = all;
  const opened: { close(): void }[] = [];
  const closeOnFailure = <T extends { close(): void }>(part: T): T => {
    opened.push(part);
    return part;
  };
  try {
    fs.mkdirSync(dir, { recursive: true, mode: 0o700 });
    const signed = readSigned(dir, origin);
    const levels = closeOnFailure(new LevelFiles(dir, disk));
    const found = recoverLog(dir, { levels, checkpoint: signed, disk });
    const keys = new KeyRing(dir, { name: origin, disk, isNewLog: signed === undefined });
    const current = found.parts.at(-1)!;
    const startedMs = readStart(current) ?? all.clock.nowMs();
    const writer = closeOnFailure(new SegmentWriter(dir, { ...current, startedMs, disk }));
    const signing = closeOnFailure(new Signing(all, { keys, signed, edge: found.edge }));
    signing.resumeTakeover(found.unsignedLines);
    signing.signAtOpen();
    return new AuditLog(all, { ...found, keys, levels, writer, signing });
  } catch (cause) {
    for (const part of opened) part.close();
    if ((cause as NodeJS.ErrnoException).syscall === undefined) throw cause;
    throw storageFault(`opening the log in ${dir}`, cause);
  }
}

/** Returns the time of the segment's first event, if it has one. */
function readStart(current: LogPart): number | undefined {
  if (current.sizeBytes === 0) return undefined;
  const [line] = readRange({ parts: [current], size: current.firstSeq + 1 }, current.firstSeq, 1);
  const { ts } = (line === undefined ? {} : JSON.parse(line)) as { ts?: unknown };
  const startedMs = typeof ts === 'string' ? Date.parse(ts) : Number.NaN;
  return Number.isNaN(startedMs) ? undefined : startedMs;
}

type LogParts = RecoveredLog & {
  keys: KeyRing;
  levels: LevelFiles;
  writer: SegmentWriter;
  signing: Signing;
};

/** `parts` are the segments, the current one last, with the length that the checkpoint covers. */
export type HeldLog = Hold & {
  checkpoint: SignedCheckpoint;
  parts: { name: string; sizeBytes: number }[];
};

export class AuditLog {
  /** The torn tail that was cut off at open, and the file it was moved to. */
  readonly cut: CutTail | undefined;
  readonly archive: SegmentArchive;
  readonly #options: Required<LogOptions>;
  readonly #keys: KeyRing;
  readonly #levels: LevelFiles;
  readonly #edge: CompactRange;
  readonly #sealed: LogPart[];
  readonly #archived: ArchivedSegment[];
  readonly #writer: SegmentWriter;
  readonly #signing: Signing;
  readonly #queue: AppendQueue;
  #isRotating = false;
  #closing: Promise<void> | undefined;

  constructor(options: Required<LogOptions>, parts: LogParts) {
    this.#options = options;
    this.#keys = parts.keys;
    this.#levels = parts.levels;
    this.#edge = parts.edge;
    this.#sealed = parts.parts.slice(0, -1);
    this.#archived = parts.archived;
    this.#writer = parts.writer;
    this.#signing = parts.signing;
    this.cut = parts.cut;
    this.#queue = new AppendQueue(options, (group) => this.#commit(group));
    this.archive = new SegmentArchive({
      dir: options.dir,
      origin: options.origin,
      disk: options.disk,
      keys: parts.keys,
      tree: parts.levels,
      size: () => this.size,
      currentFirst: () => this.#writer.firstSeq,
      sealed: this.#sealed,
      archived: this.#archived,
    });
  }

  get size(): number {
    return this.#edge.size;
  }

  /** The first event that is not archived. */
  get firstSeq(): number {
    return archivedEnd(this.#archived);
  }

  /** The archived segments, oldest first. */
  get archived(): readonly ArchivedSegment[] {
    return this.#archived;
  }

  get root(): Buffer {
    return this.#edge.root();
  }

  /** The public key that signs now. */
  get vkey(): string {
    return this.#keys.signer.vkey;
  }

  /** Every public key this log has had, oldest first. */
  get vkeys(): string[] {
    return this.#keys.publicKeys.map((key) => key.vkey);
  }

  /** The newest signed checkpoint; it may cover less than the log holds. */
  get checkpoint(): SignedCheckpoint {
    return this.#signing.current;
  }

  /** Appends the events contiguously, in order. Resolves when they are durable. */
  append(bodies: readonly string[]): Promise<AppendResult> {
    return this.#queue.add(bodies);
  }

  #commit(group: QueuedAppend[]): void {
    let seq = this.size;
    try {
      // Accept no new events while nodes of an earlier group cannot be written.
      this.#levels.flush();
      const bytes = encodeGroup(group, seq);
      if (bytes.length > 1) this.#write(bytes);
      this.#grow(bytes);
    } catch (problem) {
      for (const append of group) append.reject(problem);
      return;
    }
    for (const { bodies, resolve } of group) {
      resolve({ firstSeq: seq, size: seq + bodies.length });
      seq += bodies.length;
    }
    this.#signing.signLater();
  }

  #write(bytes: Buffer): void {
    const { sizeBytes, startedMs } = this.#writer;
    const { clock, segmentBytesMax, segmentAgeMaxMs } = this.#options;
    const nowMs = clock.nowMs();
    const isFull = sizeBytes + bytes.length - 1 > segmentBytesMax;
    const isOld = nowMs - startedMs > segmentAgeMaxMs;
    if (sizeBytes > 0 && (isFull || isOld)) this.#sealSegment();
    if (this.#writer.sizeBytes === 0) this.#writer.startedMs = nowMs;
    this.#writer.append(bytes.subarray(1));
  }

  #sealSegment(): void {
    this.#signing.sign({ isKept: true });
    const { firstSeq, sizeBytes } = this.#writer;
    const sealed = this.#writer.seal(this.size);
    this.#sealed.push({ name: path.basename(sealed), path: sealed, firstSeq, sizeBytes });
    this.#tryStep(() => this.#levels.sync());
  }

  /** Hashes the lines of a durable group into the tree. */
  #grow(bytes: Buffer): void {
    let start = 1;
    for (let end = bytes.indexOf(10, start); end > 0; end = bytes.indexOf(10, start)) {
      this.#edge.add(merkle.hashLeafAt(bytes, start, end), this.#levels.push);
      start = end + 1;
    }
    this.#tryStep(() => this.#levels.flush());
  }

  /** Tree files can be rebuilt, so an error in them is reported and does not fail an append. */
  #tryStep(step: () => void): void {
    try {
      step();
    } catch (problem) {
      this.#options.onFault(problem);
    }
  }

  /** Commits nothing more until the hold is released. Signs what is there. */
  hold(): HeldLog {
    const hold = this.#queue.hold();
    try {
      const checkpoint = this.#signing.sign({ isKept: true });
      const parts = this.#view().parts.map(({ name, sizeBytes }) => ({ name, sizeBytes }));
      return { ...hold, checkpoint, parts };
    } catch (error) {
      hold.release();
      throw error;
    }
  }

  async signNow(): Promise<SignedCheckpoint> {
    return this.#signing.sign({ isKept: true });
  }

  /** Rotates the key: an event names both keys, and both sign the first checkpoint over it. */
  async rotateKey(
    about: Record<string, unknown> = {},
  ): Promise<{ vkey: string; previous: string }> {
    const previous = this.vkey;
    if (this.#isRotating) throw fault('conflict', 'a key rotation is already in progress');
    this.#isRotating = true;
    try {
      // An existing next key belongs to a failed rotation, which is continued.
      const newKey = (this.#keys.next ?? this.#keys.prepareNext()).vkey;
      if (!this.#signing.isTakingOver) {
        const nowMs = this.#options.clock.nowMs();
        const body = formatRotation({ oldKey: previous, newKey, nowMs, about });
        await this.#queue.addRotation(body, () => this.#signing.beginTakeover());
      }
      this.#signing.sign({ isKept: true });
    } finally {
      this.#isRotating = false;
    }
    return { vkey: this.vkey, previous };
  }

  #view(): LogView {
    const { path: file, firstSeq, sizeBytes } = this.#writer;
    const current = { name: CURRENT_SEGMENT, path: file, firstSeq, sizeBytes };
    return { parts: [...this.#sealed, current], size: this.size };
  }

  /** The segments that are not archived, oldest first; the last one is the current. */
  listSegments(): readonly LogPart[] {
    return this.#view().parts;
  }

  /** Returns up to `limit` lines from `fromSeq` on; fewer if they are very long. */
  readRange(fromSeq: number, limit: number): string[] {
    if (fromSeq < this.firstSeq) throw archivedFault(this.#archived, fromSeq);
    return readRange(this.#view(), fromSeq, limit);
  }

  /** Yields every line from `fromSeq` to the present end, in batches. */
  scan(fromSeq = this.firstSeq): AsyncGenerator<string[]> {
    return scanLines(() => this.#view(), fromSeq);
  }

  /** Returns true if event `seq` has this body, also if only its hash is left. */
  hasLeaf(seq: number, body: string): boolean {
    const line = `{"seq":${seq},${body.slice(1)}`;
    return merkle.hashLeaf(Buffer.from(line)).equals(this.#levels.readNode(0, seq));
  }

  rootAt(size: number): Buffer {
    return merkle.computeRoot(this.#levels, this.#checkSize(size));
  }

  proveInclusion(index: number, size: number): Buffer[] {
    return merkle.proveInclusion(this.#levels, index, this.#checkSize(size));
  }

  proveConsistency(size1: number, size2: number): Buffer[] {
    return merkle.proveConsistency(this.#levels, size1, this.#checkSize(size2));
  }

  #checkSize(size: number): number {
    if (size <= this.size) return size;
    throw fault('not_found', `the log has ${this.size} events, not ${size}`);
  }

  /** Rebuilds the tree files, for when a proof made from them is wrong. */
  rebuildTree(): void {
    const events = { parts: this.#view().parts, archived: this.#archived };
    rebuildLevels(events, this.#levels, { size: this.size, root: this.root });
  }

  /** Waits for all appends, signs, and closes the files. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#queue.close();
    try {
      this.#signing.sign({ isKept: true });
      this.#levels.sync();
    } finally {
      this.#levels.close();
      this.#signing.close();
      this.#writer.close();
    }
  }
}
