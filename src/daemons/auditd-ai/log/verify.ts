// Verifies a log directory, or a copy of one, without trusting it: hashes every event again, checks
// every checkpoint against the hashes and the keys, and reports the problems. Only reads and needs
// no secret key. diagnose.ts finds the affected events; verify-own.ts continues from an earlier
// verification.
import fs from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { fault } from '../../../wire/errors.ts';
import { type ChainProblem, CheckpointChain, type KeptNote } from './checkpoint-chain.ts';
import { CompactRange } from './compact-range.ts';
import { diagnose, type EventProblem } from './diagnose.ts';
import { IdSet } from './id-set.ts';
import { contradicts, LeafFile } from './leaf-file.ts';
import { hashLeafAt } from './merkle.ts';
import { parseRotation } from './rotation.ts';
import { SegmentWalk } from './segment-walk.ts';
import { readSeq } from './segments.ts';
import { findChangedSegment, type VerifiedLog } from './verified-file.ts';

export type LogProblem = {
  kind: EventProblem['kind'] | ChainProblem['kind'] | 'torn' | 'malformed' | 'duplicate_id';
  seq: number | null;
  to_seq?: number;
  segment: string | null;
  line: number | null;
  message: string;
};

export type VerifyReport = {
  ok: boolean;
  origin: string | null;
  /** Number of events; `root` covers all of them. */
  size: number;
  root: string;
  /** Number of events that were hashed this time. */
  hashed: number;
  /** The events that an earlier verification covered and this one did not hash again. */
  verified_earlier: { events: number; at: string; full_at: string } | null;
  checkpoints_checked: number;
  /** Number of events that the newest good checkpoint covers, and that follow it. */
  signed_size: number;
  unsigned_tail: number;
  /** The keys that signed, in the order they took over. */
  keys: string[];
  problems: LogProblem[];
  /** `problems` lists only the first ones. */
  problems_total: number;
  remarks: string[];
};

export type VerifyOptions = {
  dir: string;
  /** Texts of checkpoints kept elsewhere; only these reveal a rewritten directory. */
  from?: readonly string[];
  /** Public keys kept elsewhere: one of them must have signed. */
  trustedKeys?: readonly string[];
  problemsMax?: number;
  onProgress?: (size: number) => void;
};

const PROBLEMS_MAX = 100;
const YIELD_LINES = 8_192;
const SUSPECTS_MAX = 1_000;

/** The part of a verified log that the next verification need not hash again. */
export type VerifiedPart = Omit<VerifiedLog, 'format' | 'verified_at' | 'full_at'>;
export type VerifyResult = { report: VerifyReport; verified: VerifiedPart | undefined };

type VerifyInternals = {
  kept: readonly KeptNote[];
  /** Continues after the events that were verified before. */
  resume?: VerifiedLog | undefined;
};

export async function verifyLog(options: VerifyOptions): Promise<VerifyReport> {
  return (await runVerification(options, { kept: [] })).report;
}

export async function runVerification(
  options: VerifyOptions,
  { kept, resume }: VerifyInternals,
): Promise<VerifyResult> {
  if (!fs.existsSync(options.dir)) throw fault('not_found', `directory ${options.dir} not found`);
  const from = (options.from ?? []).map((text, n) => ({ text, where: `kept checkpoint ${n + 1}` }));
  const chain = new CheckpointChain(options.dir, {
    kept: [...from, ...kept],
    trustedKeys: options.trustedKeys,
    resume,
  });
  const leaves = new LeafFile(options.dir);
  const walk = new SegmentWalk(options.dir, resume?.position);
  try {
    if (walk.stamps.length === 0 && chain.nextSize === Number.POSITIVE_INFINITY) {
      throw fault('not_found', `no audit log found in ${options.dir}`);
    }
    return await new Verification(options, { chain, leaves, walk, resume }).run();
  } finally {
    walk.close();
    leaves.close();
  }
}

type VerifyInputs = {
  chain: CheckpointChain;
  leaves: LeafFile;
  walk: SegmentWalk;
  resume: VerifiedLog | undefined;
};

class Verification {
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

  constructor(options: VerifyOptions, inputs: VerifyInputs) {
    this.#options = options;
    this.#inputs = inputs;
    const { resume } = inputs;
    this.#edge = resume === undefined ? new CompactRange() : CompactRange.parse(resume.range);
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
    const message = findChangedSegment(resume, this.#inputs.walk);
    if (message === undefined) return undefined;
    return { kind: 'changed', seq: null, segment: null, line: null, message };
  }

  #findProblems(): LogProblem[] {
    const found = [...this.#diagnose(), ...this.#findDuplicateIds()];
    // Do not report a line's form if diagnosis already reports the line.
    const isNamed = (seq: number | null): boolean =>
      found.some(
        (p) => seq !== null && p.seq !== null && p.seq <= seq && seq <= (p.to_seq ?? p.seq),
      );
    const lines = this.#lineProblems.filter(({ kind, seq }) => kind === 'torn' || !isNamed(seq));
    return [...found, ...lines, ...this.#listChainProblems()];
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
    return [...(isSuspect ? [sign] : []), ...this.#lineProblems, ...this.#listChainProblems()];
  }

  async #hashAll(): Promise<void> {
    const { walk, chain } = this.#inputs;
    chain.check(this.#edge.size, this.#edge.root());
    let file = walk.startIndex;
    for (let lines = 0; walk.next(); lines += 1) {
      if (walk.fileIndex !== file) this.#segmentFirst = this.#edge.size;
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
      checkpoints: chain.archiveStamp,
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
    if (this.#ids.add(event.id) && this.#suspectIds.size < SUSPECTS_MAX) {
      this.#suspectIds.add(event.id);
    }
    const rotation = event.event === 'audit.key_rotated' ? parseRotation(text) : undefined;
    if (rotation !== undefined) chain.recordRotation(index, rotation);
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
    const lineCount = this.#edge.size;
    const found = diagnose({ walk, leaves, signed, lastGoodSize, firstBadSize, lineCount });
    if (found.length > 0) return found;
    const message = 'the seqs of the events do not match their positions';
    return [{ kind: 'changed', seq: lastGoodSize, segment: null, line: null, message }];
  }

  /** Fingerprints may collide, so the few suspected ids are compared in a second pass. */
  #findDuplicateIds(): LogProblem[] {
    if (this.#suspectIds.size === 0) return [];
    const { walk } = this.#inputs;
    const problems: LogProblem[] = [];
    const first = new Map<string, number>();
    walk.rewind();
    while (walk.next()) {
      const { id, seq } = parseEvent(walk.cursor.line()) ?? {};
      if (typeof id !== 'string' || typeof seq !== 'number' || !this.#suspectIds.has(id)) continue;
      const before = first.get(id);
      if (before === undefined) first.set(id, seq);
      // Diagnosis reports a repeated line as duplicated.
      if (before === undefined || before === seq) continue;
      const { segment, line } = walk;
      const message = `event ${seq} has the id ${id} of event ${before} (${segment} line ${line})`;
      problems.push({ kind: 'duplicate_id', seq, segment, line, message });
    }
    return problems;
  }

  #report(problems: LogProblem[]): VerifyReport {
    const { chain, leaves, resume } = this.#inputs;
    const { size } = this.#edge;
    const earlier = resume?.range.end ?? 0;
    const signedSize = Math.min(chain.lastGoodSize, size);
    const remarks = [...chain.remarks];
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
      hashed: size - earlier,
      verified_earlier:
        resume === undefined
          ? null
          : { events: earlier, at: resume.verified_at, full_at: resume.full_at },
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
