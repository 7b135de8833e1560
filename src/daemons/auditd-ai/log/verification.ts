// One pass over a log: hashes its events, checks its checkpoints on the way, and has the problems
// located.
import { setImmediate } from 'node:timers/promises';
import { type ArchivedSegment, archivedEnd } from './archived-file.ts';
import type { CheckpointChain } from './checkpoint-chain.ts';
import { CompactRange } from './compact-range.ts';
import { diagnose, type EventProblem } from './diagnose.ts';
import { IdSet } from './id-set.ts';
import { contradicts, type LeafFile } from './leaf-file.ts';
import { hashLeafAt } from './merkle.ts';
import { parseRotation } from './rotation.ts';
import type { SegmentWalk } from './segment-walk.ts';
import { readSeq } from './segments.ts';
import { findChangedSegment, type VerifiedLog } from './verified-file.ts';
import { ArchivedVerification } from './verify-archived.ts';
import type {
  LogProblem,
  VerifiedPart,
  VerifyOptions,
  VerifyReport,
  VerifyResult,
} from './verify-report.ts';

const PROBLEMS_MAX = 100;
const YIELD_LINES = 8_192;
const SUSPECTS_MAX = 1_000;

export type VerifyInputs = {
  chain: CheckpointChain;
  leaves: LeafFile;
  walk: SegmentWalk;
  /** The archived segments that are no longer in the directory. */
  archived: readonly ArchivedSegment[];
  archivedProblem: LogProblem | undefined;
  resume: VerifiedLog | undefined;
};

export class Verification {
  readonly #options: VerifyOptions;
  readonly #inputs: VerifyInputs;
  readonly #edge: CompactRange;
  readonly #ids = new IdSet();
  readonly #suspectIds = new Set<string>();
  readonly #lineProblems: LogProblem[] = [];
  /** A line's seq differs from its position, or its hash from tree/L00. */
  #isOdd = false;
  /** The seq of the first event of the segment that is being read. */
  #segmentFirst = 0;
  #verified: VerifiedPart | undefined;
  readonly #archive: ArchivedVerification;

  constructor(options: VerifyOptions, inputs: VerifyInputs) {
    this.#options = options;
    this.#inputs = inputs;
    const { resume } = inputs;
    this.#edge = resume === undefined ? new CompactRange() : CompactRange.parse(resume.range);
    this.#archive = new ArchivedVerification({
      dir: options.dir,
      archiveDir: options.archiveDir,
      chain: inputs.chain,
      leaves: inputs.leaves,
      edge: this.#edge,
      onEvent: (line) => this.#addId(parseEvent(line)?.id),
    });
    if (resume === undefined) return;
    this.#segmentFirst = resume.position.first;
    this.#verified = resume;
  }

  async run(): Promise<VerifyResult> {
    const { chain, resume } = this.#inputs;
    const changed = resume === undefined ? undefined : this.#findChange(resume);
    if (changed !== undefined) return { report: this.#report([changed]), verified: undefined };
    await this.#hashAll();
    chain.finish();
    const report = this.#report(resume === undefined ? this.#findProblems() : this.#listSigns());
    return { report, verified: report.ok ? this.#verified : undefined };
  }

  #findChange(resume: VerifiedLog): LogProblem | undefined {
    const { walk, archived } = this.#inputs;
    const message = findChangedSegment(resume, walk, archived);
    if (message === undefined) return undefined;
    return { kind: 'changed', seq: null, segment: null, line: null, message };
  }

  #findProblems(): LogProblem[] {
    const events = [...this.#diagnose(), ...this.#findDuplicateIds()];
    const found = [...this.#listArchiveProblems(), ...events];
    // Do not report a line's form if diagnosis already reports the line.
    const isNamed = (seq: number | null): boolean =>
      found.some(
        (p) => seq !== null && p.seq !== null && p.seq <= seq && seq <= (p.to_seq ?? p.seq),
      );
    const lines = this.#lineProblems.filter(({ kind, seq }) => kind === 'torn' || !isNamed(seq));
    return [...found, ...lines, ...this.#listChainProblems()];
  }

  #listArchiveProblems(): LogProblem[] {
    const { archivedProblem } = this.#inputs;
    return [...(archivedProblem === undefined ? [] : [archivedProblem]), ...this.#archive.problems];
  }

  #listChainProblems(): LogProblem[] {
    const { problems } = this.#inputs.chain;
    return problems.map((p) => ({ ...p, seq: null, segment: null, line: null }));
  }

  /** Lists what suggests a problem; only a verification of everything can name it. */
  #listSigns(): LogProblem[] {
    const { chain } = this.#inputs;
    const isSuspect = this.#isOdd || chain.firstBadSize !== undefined || this.#suspectIds.size > 0;
    const message = 'the events since the last verification are not as they were written';
    const sign: LogProblem = { kind: 'changed', seq: null, segment: null, line: null, message };
    const signs = [...(isSuspect ? [sign] : []), ...this.#listArchiveProblems()];
    return [...signs, ...this.#lineProblems, ...this.#listChainProblems()];
  }

  async #hashAll(): Promise<void> {
    const { walk, chain, archived, resume } = this.#inputs;
    chain.check(this.#edge.size, this.#edge.root());
    if (resume === undefined) for (const record of archived) this.#archive.verify(record);
    let file = -1;
    for (let lines = 0; walk.next(); lines += 1) {
      const isContinued = resume !== undefined && walk.fileIndex === walk.startIndex;
      if (walk.fileIndex !== file && !isContinued) this.#segmentFirst = this.#edge.size;
      file = walk.fileIndex;
      if (!walk.cursor.isTerminated && walk.isInLast) await walk.awaitRest();
      this.#checkLine();
      if (this.#edge.size === chain.nextSize) this.#checkCheckpoint();
      if (lines % YIELD_LINES === 0) {
        this.#options.onProgress?.(this.#edge.size);
        await setImmediate();
      }
    }
  }

  #checkCheckpoint(): void {
    const { walk, chain } = this.#inputs;
    const { size } = this.#edge;
    chain.check(size, this.#edge.root());
    if (chain.lastGoodSize !== size) return;
    this.#verified = {
      note: chain.lastGoodNote!,
      range: this.#edge.format(),
      keys: chain.keys.map(({ vkey }) => vkey),
      position: { first: this.#segmentFirst, offset: walk.cursor.endOffset },
      segment: walk.stamps[walk.fileIndex]!,
      earlier_segments: walk.stamps.slice(0, walk.fileIndex),
      checkpoints: chain.historyStamp,
    };
  }

  #checkLine(): void {
    const { walk, chain, leaves } = this.#inputs;
    const { cursor } = walk;
    const index = this.#edge.size;
    const text = cursor.line();
    const event = parseEvent(text);
    if (!cursor.isTerminated) {
      this.#pushLine('torn', index, 'is half written: it does not end with a newline');
      if (event === undefined && walk.isInLast) return;
    }
    if (readSeq(cursor.buf, cursor.start, cursor.end) !== index) this.#isOdd = true;
    const leaf = hashLeafAt(cursor.buf, cursor.start, cursor.end);
    this.#edge.add(leaf);
    if (chain.nextSize === Number.POSITIVE_INFINITY)
      this.#isOdd ||= contradicts(leaves, index, leaf);
    if (event === undefined || typeof event.id !== 'string') {
      this.#pushLine('malformed', index, 'is not a JSON object with an id');
      return;
    }
    if (event.seq !== index) this.#isOdd = true;
    this.#addId(event.id);
    const rotation = event.event === 'audit.key_rotated' ? parseRotation(text) : undefined;
    if (rotation !== undefined) chain.recordRotation(index, rotation);
  }

  #addId(id: unknown): void {
    if (typeof id !== 'string' || !this.#ids.add(id)) return;
    if (this.#suspectIds.size < SUSPECTS_MAX) this.#suspectIds.add(id);
  }

  #pushLine(kind: 'torn' | 'malformed', seq: number, what: string): void {
    const { segment, line } = this.#inputs.walk;
    const message = `event ${seq} ${what} (${segment} line ${line})`;
    this.#lineProblems.push({ kind, seq, segment, line, message });
  }

  #diagnose(): EventProblem[] {
    const { chain, leaves, walk } = this.#inputs;
    const { signed, lastGoodSize, firstBadSize } = chain;
    if (!this.#isOdd && firstBadSize === undefined) return [];
    const base = archivedEnd(this.#inputs.archived);
    const eventCount = this.#edge.size;
    const heads = { signed, lastGoodSize, firstBadSize };
    const found = diagnose({ walk, leaves, ...heads, base, eventCount });
    if (found.length > 0) return found;
    const message = 'the seqs of the events do not match their positions';
    return [{ kind: 'changed', seq: lastGoodSize, segment: null, line: null, message }];
  }

  /** Fingerprints may collide, so the few suspected ids are compared in a second pass. */
  #findDuplicateIds(): LogProblem[] {
    if (this.#suspectIds.size === 0) return [];
    const problems: LogProblem[] = [];
    const first = new Map<string, number>();
    for (const { text, segment, line } of this.#listLines()) {
      const { id, seq } = parseEvent(text) ?? {};
      if (typeof id !== 'string' || typeof seq !== 'number' || !this.#suspectIds.has(id)) continue;
      const before = first.get(id);
      if (before === undefined) first.set(id, seq);
      // Diagnosis reports a repeated line as duplicated.
      if (before === undefined || before === seq) continue;
      const message = `event ${seq} has the id ${id} of event ${before} (${segment} line ${line})`;
      problems.push({ kind: 'duplicate_id', seq, segment, line, message });
    }
    return problems;
  }

  *#listLines(): Generator<{ text: string; segment: string; line: number }> {
    const { walk, archived } = this.#inputs;
    for (const record of archived) yield* this.#archive.listLines(record);
    walk.rewind();
    while (walk.next()) yield { text: walk.cursor.line(), segment: walk.segment, line: walk.line };
  }

  #report(problems: LogProblem[]): VerifyReport {
    const { chain, leaves, resume, archived } = this.#inputs;
    const { size } = this.#edge;
    const earlier = resume?.range.end ?? 0;
    const signedSize = Math.min(chain.lastGoodSize, size);
    const remarks = [...chain.remarks, ...this.#archive.remarks];
    const archivedEvents = archivedEnd(archived);
    const archiveHashed = this.#archive.hashed;
    if (leaves.count > Math.max(size, chain.signedSize)) {
      remarks.push(
        `tree/L00 knows ${leaves.count} events and there are ${size}: the end was cut off ` +
          'before it was signed, unless the copy was made while the log was being written',
      );
    }
    return {
      ok: problems.length === 0,
      origin: chain.origin ?? null,
      size,
      root: this.#edge.root().toString('base64'),
      hashed: size - Math.max(earlier, archivedEvents) + archiveHashed,
      verified_earlier:
        resume === undefined
          ? null
          : { events: earlier, at: resume.verified_at, full_at: resume.full_at },
      archived: {
        events: archivedEvents,
        segments: archived.length,
        hashed: archiveHashed,
        locations: [...new Set(archived.map(({ archive }) => archive.location))],
      },
      checkpoints_checked: chain.checked,
      signed_size: signedSize,
      unsigned_tail: size - signedSize,
      keys: chain.keys.map((key) => key.vkey),
      problems: problems.slice(0, this.#options.problemsMax ?? PROBLEMS_MAX),
      problems_total: problems.length,
      remarks,
    };
  }
}

function parseEvent(text: string): { id?: unknown; seq?: unknown; event?: unknown } | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
