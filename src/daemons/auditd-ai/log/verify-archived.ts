// Verifies the archived part of a log: hashes its events if their archives are available, and
// relies on their recorded hashes if not. Those are bound by every checkpoint signed afterwards.
import { readArchiveFile } from './archive-file.ts';
import { ARCHIVED_FILE, type ArchivedSegment, toRange } from './archived-file.ts';
import { type CheckpointChain, findSignedRoot } from './checkpoint-chain.ts';
import { CompactRange } from './compact-range.ts';
import type { LeafFile } from './leaf-file.ts';
import { hashLeafAt, type RawHash } from './merkle.ts';
import { LineCursor } from './segments.ts';

export type ArchiveProblem = {
  kind: 'changed' | 'archive_missing' | 'archive_damaged';
  seq: number;
  to_seq?: number;
  segment: string;
  line: number | null;
  message: string;
};

type ArchivedInput = {
  dir: string;
  /** Where the archives are; undefined if they are not available. */
  archiveDir: string | undefined;
  chain: CheckpointChain;
  leaves: LeafFile;
  /** The tree so far; grows by the archived events. */
  edge: CompactRange;
  /** Called with the line of each event that is as it was signed. */
  onEvent: (line: string) => void;
};

/** `hasLeaves`: tree/L00 has the hash of every single event. */
type KnownHashes = { range: CompactRange; hasLeaves: boolean };

const NAMED_MAX = 100;

export class ArchivedVerification {
  readonly problems: ArchiveProblem[] = [];
  readonly remarks: string[] = [];
  /** Number of archived events that were hashed. */
  hashed = 0;
  readonly #input: ArchivedInput;

  constructor(input: ArchivedInput) {
    this.#input = input;
  }

  verify(record: ArchivedSegment): void {
    const { chain, edge } = this.#input;
    const known = this.#choose(record);
    const leaves = this.#hashArchive(record, known) ?? this.#readLeaves(known);
    for (const { seq, old_key, new_key } of record.rotations) {
      if (leaves === undefined) chain.passOver(seq + 1);
      else this.#addLeaves(leaves, record.first, seq);
      chain.recordRotation(seq, { oldKey: old_key, newKey: new_key });
    }
    if (leaves === undefined) {
      // Without the hashes of single events, checkpoints between them are checked by signature.
      chain.passOver(record.end);
      edge.append(known.range);
      chain.check(record.end, edge.root());
    } else {
      this.#addLeaves(leaves, record.first, record.end);
    }
  }

  /** Adds the events below `end`, and checks the checkpoints up to there. */
  #addLeaves(leaves: readonly RawHash[], first: number, end: number): void {
    const { chain, edge } = this.#input;
    while (edge.end < end) {
      edge.add(leaves[edge.end - first]!);
      if (edge.end === chain.nextSize) chain.check(edge.end, edge.root());
    }
  }

  /** Chooses the recorded hashes, or those of tree/L00 if only these were signed. */
  #choose(record: ArchivedSegment): KnownHashes {
    const { dir, edge, leaves } = this.#input;
    const recorded = toRange(record);
    const known = leaves.readRange(record.first, record.end);
    if (known === undefined) return { range: recorded, hasLeaves: false };
    if (isEqual(known, recorded)) return { range: recorded, hasLeaves: true };
    const joined = CompactRange.parse(edge.format());
    joined.append(known);
    if (findSignedRoot(dir, record.end)?.equals(joined.root()) !== true) {
      this.remarks.push(
        `tree/L00 does not have the hashes of ${record.segment}, which is archived`,
      );
      return { range: recorded, hasLeaves: false };
    }
    const message = `${ARCHIVED_FILE} does not have the hashes of ${record.segment} as signed`;
    this.#push(record, { kind: 'changed', segment: ARCHIVED_FILE, message });
    return { range: known, hasLeaves: true };
  }

  #readLeaves({ range, hasLeaves }: KnownHashes): RawHash[] | undefined {
    if (!hasLeaves) return undefined;
    const { leaves } = this.#input;
    return Array.from({ length: range.size }, (_, i) => leaves.read(range.first + i));
  }

  /** Returns the hashes of the archive's events, or undefined if they are not those signed. */
  #hashArchive(record: ArchivedSegment, known: KnownHashes): RawHash[] | undefined {
    const content = this.#open(record);
    if (content === undefined) return undefined;
    const { name: segment } = record.archive;
    const hashes: RawHash[] = [];
    const hashed = new CompactRange(record.first);
    const cursor = new LineCursor(content.lines);
    while (cursor.next()) {
      hashes.push(hashLeafAt(cursor.buf, cursor.start, cursor.end));
      hashed.add(hashes.at(-1)!);
    }
    if (!isEqual(hashed, known.range)) {
      this.#nameChanged(record, hashes, this.#readLeaves(known) ?? []);
      return undefined;
    }
    if (!content.isAsRecorded) {
      const message = `${segment} has its events, but is not the file that was archived`;
      this.#push(record, { kind: 'archive_damaged', segment, message });
    }
    this.hashed += hashes.length;
    const events = new LineCursor(content.lines);
    while (events.next()) this.#input.onEvent(events.line());
    return hashes;
  }

  /** Lists the lines of an archive that is available. */
  *listLines(record: ArchivedSegment): Generator<{ text: string; segment: string; line: number }> {
    const { archiveDir } = this.#input;
    if (archiveDir === undefined || this.hashed === 0) return;
    const { name: segment } = record.archive;
    const cursor = new LineCursor(readArchiveFile(archiveDir, record)?.lines ?? Buffer.alloc(0));
    for (let line = 2; cursor.next(); line += 1) yield { text: cursor.line(), segment, line };
  }

  #open(record: ArchivedSegment) {
    const { archiveDir } = this.#input;
    if (archiveDir === undefined) return undefined;
    const { name: segment } = record.archive;
    const span = `events ${record.first} to ${record.end - 1}`;
    try {
      const content = readArchiveFile(archiveDir, record);
      if (content !== undefined) return content;
      const message = `${segment} with ${span} is not in ${archiveDir}`;
      this.#push(record, { kind: 'archive_missing', segment, message });
    } catch (cause) {
      const message = `${segment} with ${span} cannot be read: ${(cause as Error).message}`;
      this.#push(record, { kind: 'archive_damaged', segment, message });
    }
    return undefined;
  }

  /** Names the changed events, as far as tree/L00 still has the hash of each. */
  #nameChanged(
    record: ArchivedSegment,
    hashes: readonly RawHash[],
    known: readonly RawHash[],
  ): void {
    const { name: segment } = record.archive;
    const { first, end } = record;
    const changed = known.flatMap((leaf, i) => (leaf === hashes[i] ? [] : [i]));
    if (hashes.length !== known.length || changed.length === known.length) {
      const message = `${segment} has ${hashes.length} lines that are not the ${end - first} archived`;
      this.#push(record, { kind: 'archive_damaged', segment, message });
      return;
    }
    for (const index of changed.slice(0, NAMED_MAX)) {
      const [seq, line] = [first + index, index + 2];
      const message = `event ${seq} is not as it was signed (${segment} line ${line})`;
      this.problems.push({ kind: 'changed', seq, segment, line, message });
    }
  }

  #push(
    { first, end }: ArchivedSegment,
    problem: Pick<ArchiveProblem, 'kind' | 'segment' | 'message'>,
  ): void {
    this.problems.push({ ...problem, seq: first, to_seq: end - 1, line: null });
  }
}

function isEqual(a: CompactRange, b: CompactRange): boolean {
  return (
    a.first === b.first && a.end === b.end && a.format().hashes.join() === b.format().hashes.join()
  );
}
