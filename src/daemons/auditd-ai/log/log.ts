// The audit log: events are appended in groups, hashed into the tree and covered by signed
// checkpoints. An event is handed over as the text of a JSON object with an `id` and without `seq`;
// the log puts `"seq":N` in front of its members and stores one line. What events say is left to
// the caller, and so is that only one process opens a directory.
import fs from 'node:fs';
import path from 'node:path';
import { storageFault } from '../../../platform/disk-fault.ts';
import { fault } from '../../../wire/errors.ts';
import { type Appended, AppendQueue, encodeGroup, type QueuedAppend } from './append-queue.ts';
import { type LogDisk, systemDisk } from './disk.ts';
import { KeyRing } from './keys.ts';
import { LevelFiles } from './level-files.ts';
import * as merkle from './merkle.ts';
import { type LogPart, type LogView, readRange, scanLines } from './reader.ts';
import { type CutTail, type Recovered, rebuildLevels, recoverLog } from './recover.ts';
import { formatRotation } from './rotation.ts';
import { CURRENT_SEGMENT } from './segments.ts';
import { type LogClock, readSigned, type SignedCheckpoint, Signing } from './signing.ts';
import { SegmentWriter } from './writer.ts';

export type LogOptions = {
  dir: string;
  /**
   * The name of this log: first line of its checkpoints and name of its keys. No space, no plus.
   */
  origin: string;
  clock: LogClock;
  segmentBytesMax: number;
  /** A log that grew is signed at least this often. */
  checkpointEveryMs: number;
  /** Of the checkpoints signed by the clock, one per this time goes to checkpoints.log. */
  archiveEveryMs?: number;
  lineBytesMax?: number;
  queueBytesMax?: number;
  disk?: LogDisk;
  /** Told what went wrong where no caller waits for an answer, such as signing by the clock. */
  onFault?: (problem: unknown) => void;
};

const DEFAULTS = {
  archiveEveryMs: 60_000,
  lineBytesMax: 1 << 20,
  queueBytesMax: 64 << 20,
  disk: systemDisk,
  onFault: () => {},
};

export async function openLog(options: LogOptions): Promise<AuditLog> {
  const all: Required<LogOptions> = { ...DEFAULTS, ...options };
  const { dir, origin, disk } = all;
  const opened: { close(): void }[] = [];
  const held = <T extends { close(): void }>(part: T): T => {
    opened.push(part);
    return part;
  };
  try {
    fs.mkdirSync(dir, { recursive: true, mode: 0o700 });
    const signed = readSigned(dir, origin);
    const levels = held(new LevelFiles(dir, disk));
    const found = recoverLog(dir, { levels, checkpoint: signed, disk });
    const keys = new KeyRing(dir, { name: origin, disk, isNewLog: signed === undefined });
    const writer = held(new SegmentWriter(dir, { ...found.parts.at(-1)!, disk }));
    const signing = held(new Signing(all, { keys, signed, edge: found.edge }));
    signing.resumeTakeover(found.unsignedLines);
    signing.signAtOpen();
    return new AuditLog(all, { ...found, keys, levels, writer, signing });
  } catch (cause) {
    for (const part of opened) part.close();
    if ((cause as NodeJS.ErrnoException).syscall === undefined) throw cause;
    throw storageFault(`opening the log in ${dir}`, cause);
  }
}

type LogParts = Recovered & {
  keys: KeyRing;
  levels: LevelFiles;
  writer: SegmentWriter;
  signing: Signing;
};

export class AuditLog {
  /** What was cut off the end when the log was opened, and where it was put. */
  readonly cut: CutTail | undefined;
  readonly #options: Required<LogOptions>;
  readonly #keys: KeyRing;
  readonly #levels: LevelFiles;
  readonly #edge: merkle.Frontier;
  readonly #sealed: LogPart[];
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
    this.#writer = parts.writer;
    this.#signing = parts.signing;
    this.cut = parts.cut;
    this.#queue = new AppendQueue(options, (group) => this.#commit(group));
  }

  get size(): number {
    return this.#edge.size;
  }

  get root(): Buffer {
    return this.#edge.root();
  }

  /** The public key that signs now. */
  get vkey(): string {
    return this.#keys.signer.vkey;
  }

  /** Every public key this log had, oldest first. */
  get vkeys(): string[] {
    return this.#keys.publicKeys.map((key) => key.vkey);
  }

  /** The newest signed checkpoint; it may cover less than the log holds. */
  get checkpoint(): SignedCheckpoint {
    return this.#signing.current;
  }

  /** Adds the events, in order and next to each other; answers when they are durable. */
  append(bodies: readonly string[]): Promise<Appended> {
    return this.#queue.add(bodies);
  }

  #commit(group: QueuedAppend[]): void {
    let seq = this.size;
    try {
      // Nodes of an earlier group that could not be written: no new ones are taken on top of them.
      this.#levels.flush();
      const bytes = encodeGroup(group, seq);
      if (bytes.length > 1) this.#write(bytes);
      this.#grow(bytes);
    } catch (problem) {
      for (const waiting of group) waiting.reject(problem);
      return;
    }
    for (const { bodies, resolve } of group) {
      resolve({ firstSeq: seq, size: seq + bodies.length });
      seq += bodies.length;
    }
    this.#signing.signLater();
  }

  #write(bytes: Buffer): void {
    const { sizeBytes } = this.#writer;
    const isFull = sizeBytes + bytes.length - 1 > this.#options.segmentBytesMax;
    if (isFull && sizeBytes > 0) this.#sealSegment();
    this.#writer.append(bytes.subarray(1));
  }

  #sealSegment(): void {
    this.#signing.sign({ isKept: true });
    const { firstSeq, sizeBytes } = this.#writer;
    const sealed = this.#writer.seal(this.size);
    this.#sealed.push({ name: path.basename(sealed), path: sealed, firstSeq, sizeBytes });
    this.#ignore(() => this.#levels.sync());
  }

  /** Hashes the lines of a group that is durable into the tree. */
  #grow(bytes: Buffer): void {
    let start = 1;
    for (let end = bytes.indexOf(10, start); end > 0; end = bytes.indexOf(10, start)) {
      this.#edge.add(merkle.hashLeafAt(bytes, start, end), this.#levels.push);
      start = end + 1;
    }
    this.#ignore(() => this.#levels.flush());
  }

  /** Tree files can be made again: trouble with them is told and does not undo an append. */
  #ignore(step: () => void): void {
    try {
      step();
    } catch (problem) {
      this.#options.onFault(problem);
    }
  }

  async signNow(): Promise<SignedCheckpoint> {
    return this.#signing.sign({ isKept: true });
  }

  /** A new key takes over: an event names both, and a checkpoint over it is signed by both. */
  async rotateKey(
    about: Record<string, unknown> = {},
  ): Promise<{ vkey: string; previous: string }> {
    const previous = this.vkey;
    if (this.#isRotating) throw fault('conflict', 'the key is being rotated already');
    this.#isRotating = true;
    try {
      // A key that is there already is of a rotation that failed: it goes on with that one.
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

  /** Lines from `fromSeq` on, at most `limit`, without newlines; fewer when they are very long. */
  readRange(fromSeq: number, limit: number): string[] {
    return readRange(this.#view(), fromSeq, limit);
  }

  /** Every line the log has now from `fromSeq` on, in batches. */
  scan(fromSeq = 0): AsyncGenerator<string[]> {
    return scanLines(() => this.#view(), fromSeq);
  }

  rootAt(size: number): Buffer {
    return merkle.rootAt(this.#levels, this.#checkSize(size));
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

  /** Makes the tree files again, for when a proof made from them turned out wrong. */
  rebuildTree(): void {
    rebuildLevels(this.#view().parts, this.#levels, { size: this.size, root: this.root });
  }

  /** Waits for all appends, signs, and lets go of the files. */
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
