// CheckpointChain checks every checkpoint of a directory while its events are hashed: against the
// root of the events it covers, and against the key in force, through every rotation.
import { type HistoryNote, readHistory, readNotes } from './checkpoint-files.ts';
import { type FileStamp, isSameFile } from './file-stamp.ts';
import { readPublicKeys } from './keys.ts';
import type { TreeHead } from './merkle.ts';
import * as notes from './note.ts';
import type { Rotation } from './rotation.ts';

export type ChainProblem = {
  kind: 'bad_signature' | 'bad_checkpoint' | 'unknown_key' | 'no_checkpoint';
  message: string;
};
type CheckpointEntry = notes.Checkpoint & {
  note: notes.Note;
  /** The note as text. */
  source: string;
  where: string;
  isKeptElsewhere: boolean;
};
type Handover = { seq: number; pair: [notes.Verifier, notes.Verifier] };

/** A note kept outside of the files that are verified. */
export type KeptNote = { text: string; where: string };

/** A chain that was checked before, up to a good checkpoint. */
type CheckedChain = {
  keys: readonly string[];
  note: string;
  checkpoints: FileStamp | null;
};

type ChainOptions = {
  kept: readonly KeptNote[];
  /** Public keys kept outside of the directory, as text. */
  trustedKeys: readonly string[] | undefined;
  /** Continues from here instead of from the first checkpoint. */
  resume?: CheckedChain | undefined;
};

export class CheckpointChain {
  /** Tree heads signed by the key in force, by size. */
  readonly signed: TreeHead[] = [];
  readonly problems: ChainProblem[] = [];
  readonly remarks: string[] = [];
  origin: string | undefined;
  checked = 0;
  lastGoodSize = 0;
  /** The signed text of the checkpoint of `lastGoodSize`. */
  lastGoodNote: string | undefined;
  firstBadSize: number | undefined;
  readonly keys: notes.Verifier[];
  /** checkpoints.log as far as it is checked; null if there is none. */
  readonly historyStamp: FileStamp | null;
  readonly #listed: notes.Verifier[];
  readonly #trusted: notes.Verifier[] | undefined;
  readonly #history: Generator<CheckpointEntry>;
  /** The file `checkpoint` and the checkpoints kept elsewhere. */
  readonly #single: CheckpointEntry[];
  #historyNext: IteratorResult<CheckpointEntry> | undefined;
  #upcoming: CheckpointEntry | undefined;
  #rotation: Handover | undefined;
  #isTrusted = false;
  /** After the first difference, keys only help to describe it and need no proof. */
  #hasDifference = false;

  constructor(dir: string, { kept, trustedKeys, resume }: ChainOptions) {
    this.#listed = this.#readListed(dir);
    this.#trusted = trustedKeys?.map(notes.parseVkey);
    const first = this.#listed[0] ?? this.#trusted?.[0];
    this.keys = first === undefined ? [] : [first];
    if (first === undefined)
      this.#report('unknown_key', 'keys/public.txt names no key of this log');
    const { current, history } = readNotes(dir);
    this.historyStamp = history;
    if (current === undefined) this.#report('no_checkpoint', 'the file checkpoint is missing');
    if (resume !== undefined) this.#resume(resume);
    this.#single = [
      ...(current === undefined ? [] : this.#parse(current, { where: 'checkpoint' })),
      ...kept
        .flatMap(({ text, where }) => this.#parse(text, { where }))
        .map((entry) => ({ ...entry, isKeptElsewhere: true })),
    ].sort((a, b) => a.size - b.size);
    const from = resume?.checkpoints?.size_bytes ?? 0;
    this.#history = this.#readHistory(dir, { from, to: history?.size_bytes ?? 0 });
    this.#upcoming = this.#pull();
  }

  /** Reports a problem if the files are not those that were checked before. */
  #resume({ keys, note, checkpoints }: CheckedChain): void {
    if (this.keys[0]?.vkey !== keys[0])
      this.#report('unknown_key', 'keys/public.txt begins with another key than before');
    const stamp = this.historyStamp;
    const isContinued =
      checkpoints === null ||
      (stamp !== null &&
        isSameFile(stamp, checkpoints) &&
        stamp.size_bytes >= checkpoints.size_bytes);
    if (!isContinued)
      this.#report('bad_checkpoint', 'checkpoints.log is not the file that was checked before');
    this.keys.splice(0, this.keys.length, ...keys.map(notes.parseVkey));
    const { origin, size } = notes.parseCheckpoint(notes.parseNote(note).text);
    this.origin = origin;
    this.lastGoodSize = size;
    this.lastGoodNote = note;
  }

  /** The log size at which `check` must be called next. */
  get nextSize(): number {
    return this.#upcoming?.size ?? Number.POSITIVE_INFINITY;
  }

  get signedSize(): number {
    return this.signed.reduce((max, { size }) => Math.max(max, size), 0);
  }

  recordRotation(seq: number, { oldKey, newKey }: Rotation): void {
    const inForce = this.keys.at(-1);
    if (inForce?.vkey !== oldKey) return;
    try {
      this.#rotation ??= { seq, pair: [inForce, notes.parseVkey(newKey)] };
    } catch {
      this.#report('unknown_key', `event ${seq} rotates to a malformed key`);
    }
  }

  #readListed(dir: string): notes.Verifier[] {
    try {
      return readPublicKeys(dir);
    } catch (cause) {
      this.#report('unknown_key', (cause as Error).message);
      return [];
    }
  }

  check(size: number, root: Buffer): void {
    while (this.#upcoming !== undefined && this.#upcoming.size <= size) {
      const entry = this.#upcoming;
      if (entry.size < size) {
        this.#report('bad_checkpoint', `${entry.where} is for ${entry.size} events, out of order`);
      } else {
        this.#compare(entry, root);
      }
      this.#upcoming = this.#pull();
    }
  }

  /** Checks only the signatures of the checkpoints below `size`: their events are not available. */
  passOver(size: number): void {
    while (this.#upcoming !== undefined && this.#upcoming.size < size) {
      this.#compare(this.#upcoming, 'unknown');
      this.#upcoming = this.#pull();
    }
  }

  /** Reports the remaining checkpoints, which cover more events than there are. */
  finish(): void {
    while (this.#upcoming !== undefined) {
      this.#compare(this.#upcoming, undefined);
      this.#upcoming = this.#pull();
    }
    if (this.checked === 0) this.#report('no_checkpoint', 'no checkpoint found');
    if (this.#trusted !== undefined && !this.#isTrusted) {
      this.#report('unknown_key', 'no checkpoint is signed by a trusted key');
    }
  }

  #compare(entry: CheckpointEntry, root: Buffer | 'unknown' | undefined): void {
    this.checked += 1;
    this.origin ??= entry.origin;
    if (entry.origin !== this.origin) {
      this.#report('bad_checkpoint', `${entry.where} is from another log, ${entry.origin}`);
      return;
    }
    const isKnown = root !== 'unknown';
    const isGood = isKnown && root !== undefined && entry.root.equals(root);
    this.#hasDifference ||= isKnown && !isGood;
    if (!(entry.isKeptElsewhere ? this.#isKeptSigned(entry) : this.#isOwnSigned(entry))) return;
    this.signed.push({ size: entry.size, root: entry.root });
    if (!isKnown) return;
    if (!isGood) this.firstBadSize ??= entry.size;
    if (this.firstBadSize === undefined) {
      this.lastGoodSize = entry.size;
      this.lastGoodNote = entry.source;
    }
    const trusted = notes.checkNote(entry.note, this.#trusted ?? []);
    if (isGood && trusted.valid.length > 0) this.#isTrusted = true;
  }

  #isKeptSigned(entry: CheckpointEntry): boolean {
    const { valid } = notes.checkNote(entry.note, [...this.keys, ...this.#listed]);
    if (valid.length > 0) return true;
    this.#report('bad_signature', `${entry.where} is not signed by a key of this log`);
    return false;
  }

  #isOwnSigned(entry: CheckpointEntry): boolean {
    const inForce = this.keys.at(-1);
    if (inForce === undefined) return false;
    const rotation = this.#rotation;
    if (rotation !== undefined && rotation.seq < entry.size)
      return this.#isHandover(entry, rotation);
    const { valid, wrong } = notes.checkNote(entry.note, [inForce]);
    if (valid.length > 0 && wrong.length === 0) return true;
    if (this.#hasDifference && this.#isListed(entry)) return true;
    const message = `${entry.where} (${entry.size} events) is not signed by ${inForce.vkey}`;
    this.#report('bad_signature', message);
    return false;
  }

  /** The new key is accepted only if both keys signed the first checkpoint over the rotation. */
  #isHandover(entry: CheckpointEntry, { seq, pair }: Handover): boolean {
    const { valid } = notes.checkNote(entry.note, pair);
    if (valid.length === 2) {
      this.keys.push(pair[1]);
      this.#rotation = undefined;
      return true;
    }
    if (this.#hasDifference && this.#isListed(entry)) return true;
    const message = `${entry.where} covers the key rotation of event ${seq}`;
    this.#report('bad_signature', `${message} and is not signed by both the old and the new key`);
    return false;
  }

  #isListed(entry: CheckpointEntry): boolean {
    return notes.checkNote(entry.note, this.#listed).valid.length > 0;
  }

  *#readHistory(dir: string, span: { from: number; to: number }): Generator<CheckpointEntry> {
    for (const older of readHistory(dir, span)) yield* this.#parseHistory(older);
  }

  #parseHistory({ note, line, isWhole }: HistoryNote): CheckpointEntry[] {
    const where = `checkpoints.log line ${line}`;
    if (isWhole) return this.#parse(note, { where });
    this.remarks.push(`${where}: the last checkpoint is half written and was not checked`);
    return [];
  }

  #parse(text: string, { where }: { where: string }): CheckpointEntry[] {
    try {
      const note = notes.parseNote(text);
      const checkpoint = notes.parseCheckpoint(note.text);
      return [{ ...checkpoint, note, source: text, where, isKeptElsewhere: false }];
    } catch (cause) {
      this.#report('bad_checkpoint', `${where} cannot be read: ${(cause as Error).message}`);
      return [];
    }
  }

  /** Merges the history and single checkpoints by size. */
  #pull(): CheckpointEntry | undefined {
    this.#historyNext ??= this.#history.next();
    const older = this.#historyNext.done === true ? undefined : this.#historyNext.value;
    const single = this.#single[0];
    if (single !== undefined && (older === undefined || single.size < older.size)) {
      return this.#single.shift();
    }
    this.#historyNext = undefined;
    return older;
  }

  #report(kind: ChainProblem['kind'], message: string): void {
    this.problems.push({ kind, message });
  }
}

/** Returns the root that a key of the log signed for this size, if a checkpoint has it. */
export function findSignedRoot(dir: string, size: number): Buffer | undefined {
  const keys = readPublicKeys(dir);
  const { current, history } = readNotes(dir);
  const older = readHistory(dir, { to: history?.size_bytes ?? 0 });
  for (const text of [...older.map(({ note }) => note), current ?? '']) {
    if (!text.includes(`\n${size}\n`)) continue;
    try {
      const note = notes.parseNote(text);
      const head = notes.parseCheckpoint(note.text);
      if (head.size === size && notes.checkNote(note, keys).valid.length > 0) return head.root;
    } catch {
      // The chain reports notes that cannot be read.
    }
  }
  return undefined;
}
