// Signing decides when a live log is signed, by which keys, and which checkpoints its history has.
import { storageFault } from '../../../platform/disk-fault.ts';
import { fault } from '../../../wire/errors.ts';
import { CheckpointFiles, readCurrentNote, readHistoryEnd } from './checkpoint-files.ts';
import type { CompactRange } from './compact-range.ts';
import { damageFault } from './damage.ts';
import type { LogDisk } from './disk.ts';
import { type KeyRing, readPublicKeys } from './keys.ts';
import type { TreeHead } from './merkle.ts';
import * as notes from './note.ts';

export type LogClock = {
  nowMs(): number;
  at(atMs: number, fn: () => void): { cancel(): void };
};

export type SignedCheckpoint = TreeHead & { note: string };
type CurrentCheckpoint = SignedCheckpoint & { isKept: boolean; signatures: number };

function parseSigned(text: string, file: string) {
  try {
    const note = notes.parseNote(text);
    return { note, ...notes.parseCheckpoint(note.text) };
  } catch (cause) {
    throw damageFault('bad_signature', `${file} cannot be read: ${(cause as Error).message}`);
  }
}

/** Reads and checks the newest signed note; undefined if the log has none yet. */
export function readSigned(dir: string, origin: string): SignedCheckpoint | undefined {
  const text = readCurrentNote(dir);
  const older = readHistoryEnd(dir).note;
  if (text === undefined) {
    if (older === undefined) return undefined;
    throw damageFault('no_checkpoint', `${dir}/checkpoint is missing, and checkpoints.log is not`);
  }
  const { note, size, root, ...checkpoint } = parseSigned(text, `${dir}/checkpoint`);
  if (checkpoint.origin !== origin) {
    throw fault('bad_config', `the log in ${dir} is ${checkpoint.origin}, not ${origin}`);
  }
  const { valid, wrong } = notes.checkNote(note, readPublicKeys(dir));
  if (valid.length === 0 || wrong.length > 0) {
    throw damageFault('bad_signature', `${dir}/checkpoint is not signed by a key of this log`);
  }
  if (older !== undefined && parseSigned(older, `${dir}/checkpoints.log`).size > size) {
    throw damageFault('truncated', `${dir}/checkpoint is older than the last of checkpoints.log`);
  }
  return { note: text, size, root };
}

type SigningOptions = {
  dir: string;
  origin: string;
  clock: LogClock;
  disk: LogDisk;
  checkpointEveryMs: number;
  historyEveryMs: number;
  onFault: (problem: unknown) => void;
};

export class Signing {
  readonly #options: SigningOptions;
  readonly #keys: KeyRing;
  readonly #files: CheckpointFiles;
  /** The durable events, which may be signed. */
  readonly #edge: CompactRange;
  #current: CurrentCheckpoint | undefined;
  #addedAtMs = Number.NEGATIVE_INFINITY;
  #timer: { cancel(): void } | undefined;
  /** Set once the log names the next key; both sign until one checkpoint has both signatures. */
  #isTakingOver = false;

  constructor(
    options: SigningOptions,
    parts: { keys: KeyRing; signed: SignedCheckpoint | undefined; edge: CompactRange },
  ) {
    this.#options = options;
    this.#keys = parts.keys;
    this.#edge = parts.edge;
    this.#files = new CheckpointFiles(options.dir, options.disk);
    if (parts.signed !== undefined) {
      this.#current = { ...parts.signed, isKept: true, signatures: 1 };
    }
  }

  get current(): SignedCheckpoint {
    const { note, size, root } = this.#current!;
    return { note, size, root };
  }

  /** Schedules a signature within `checkpointEveryMs` if the log has grown. */
  signLater(): void {
    if (this.#timer !== undefined || this.#edge.size === this.#current?.size) return;
    const { clock, checkpointEveryMs, onFault } = this.#options;
    this.#timer = clock.at(clock.nowMs() + checkpointEveryMs, () => {
      this.#timer = undefined;
      try {
        this.sign({ isKept: false });
      } catch (problem) {
        onFault(problem);
        this.signLater();
      }
    });
  }

  /** Throws only for a new log: on a full disk an existing one must stay readable. */
  signAtOpen(): void {
    try {
      this.sign({ isKept: true });
    } catch (problem) {
      if (this.#current === undefined) throw problem;
      this.#options.onFault(problem);
      this.signLater();
    }
  }

  /** Signs now. A kept checkpoint is added to the history when a later one replaces it. */
  sign({ isKept }: { isKept: boolean }): SignedCheckpoint {
    const { signer, next } = this.#keys;
    const signers = this.#isTakingOver && next !== undefined ? [signer, next] : [signer];
    const old = this.#current;
    const { size } = this.#edge;
    if (old?.size === size && old.signatures >= signers.length) {
      old.isKept ||= isKept;
      return this.current;
    }
    const root = this.#edge.root();
    const text = notes.formatCheckpoint({ origin: this.#options.origin, size, root });
    const note = notes.signNote(text, signers);
    this.#write(note, old);
    const isHandover = signers.length > 1;
    this.#current = { note, size, root, isKept: isKept || isHandover, signatures: signers.length };
    if (isHandover) this.#endTakeover();
    return this.current;
  }

  #write(note: string, old: CurrentCheckpoint | undefined): void {
    const nowMs = this.#options.clock.nowMs();
    const isDue = nowMs - this.#addedAtMs >= this.#options.historyEveryMs;
    const isAdded = old !== undefined && (old.isKept || isDue);
    try {
      this.#files.write(note, isAdded ? old.note : undefined);
    } catch (cause) {
      throw storageFault(`writing ${this.#options.dir}/checkpoint`, cause);
    }
    if (isAdded) this.#addedAtMs = nowMs;
  }

  get isTakingOver(): boolean {
    return this.#isTakingOver;
  }

  /** Call when the log names the next key, before anything else can sign. */
  beginTakeover(): void {
    this.#isTakingOver = true;
  }

  #endTakeover(): void {
    this.#keys.completeRotation();
    this.#isTakingOver = false;
  }

  /** After a crash, continues a rotation if the log names the next key, else discards it. */
  resumeTakeover(unsignedLines: readonly string[]): void {
    const { next } = this.#keys;
    if (next === undefined) return;
    const note = this.#current === undefined ? undefined : notes.parseNote(this.#current.note);
    if (note !== undefined && notes.checkNote(note, [next]).valid.length > 0) this.#endTakeover();
    else if (unsignedLines.some((line) => line.includes(next.vkey))) this.beginTakeover();
    else this.#keys.dropNext();
  }

  close(): void {
    this.#timer?.cancel();
    this.#files.close();
  }
}
