// Verifies a log directory, or a copy of one, without trusting it: hashes every event again, checks
// every checkpoint against the hashes and the keys, and reports the problems. Only reads and needs
// no secret key. diagnose.ts finds the affected events.
import fs from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { fault } from '../../../wire/errors.ts';
import { type ChainProblem, CheckpointChain } from './checkpoint-chain.ts';
import { CompactRange } from './compact-range.ts';
import { diagnose, type EventProblem } from './diagnose.ts';
import { IdSet } from './id-set.ts';
import { contradicts, LeafFile } from './leaf-file.ts';
import { hashLeafAt } from './merkle.ts';
import { parseRotation } from './rotation.ts';
import { SegmentWalk } from './segment-walk.ts';
import { readSeq } from './segments.ts';

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

export async function verifyLog(options: VerifyOptions): Promise<VerifyReport> {
  if (!fs.existsSync(options.dir)) throw fault('not_found', `directory ${options.dir} not found`);
  const chain = new CheckpointChain(options.dir, {
    kept: options.from ?? [],
    trustedKeys: options.trustedKeys,
  });
  const leaves = new LeafFile(options.dir);
  const walk = new SegmentWalk(options.dir);
  try {
    if (walk.fileCount === 0 && chain.nextSize === Number.POSITIVE_INFINITY) {
      throw fault('not_found', `no audit log found in ${options.dir}`);
    }
    return await new Verification(options, { chain, leaves, walk }).run();
  } finally {
    walk.close();
    leaves.close();
  }
}

type VerifyInputs = { chain: CheckpointChain; leaves: LeafFile; walk: SegmentWalk };

class Verification {
  readonly #options: VerifyOptions;
  readonly #inputs: VerifyInputs;
  readonly #edge = new CompactRange();
  readonly #ids = new IdSet();
  readonly #suspectIds = new Set<string>();
  readonly #lineProblems: LogProblem[] = [];
  /** A line's seq differs from its position, or its hash from tree/L00. */
  #isOdd = false;

  constructor(options: VerifyOptions, inputs: VerifyInputs) {
    this.#options = options;
    this.#inputs = inputs;
  }

  async run(): Promise<VerifyReport> {
    const { chain } = this.#inputs;
    await this.#hashAll();
    chain.finish();
    const found = [...this.#diagnose(), ...this.#findDuplicateIds()];
    // Do not report a line's form if diagnosis already reports the line.
    const isNamed = (seq: number | null): boolean =>
      found.some(
        (p) => seq !== null && p.seq !== null && p.seq <= seq && seq <= (p.to_seq ?? p.seq),
      );
    const lines = this.#lineProblems.filter(({ kind, seq }) => kind === 'torn' || !isNamed(seq));
    const keys = chain.problems.map((p) => ({ ...p, seq: null, segment: null, line: null }));
    return this.#report([...found, ...lines, ...keys]);
  }

  async #hashAll(): Promise<void> {
    const { walk, chain } = this.#inputs;
    chain.check(0, this.#edge.root());
    for (let lines = 0; walk.next(); lines += 1) {
      if (!walk.cursor.isTerminated && walk.isInLast) await walk.awaitRest();
      this.#checkLine();
      if (this.#edge.size === chain.nextSize) chain.check(this.#edge.size, this.#edge.root());
      if (lines % YIELD_LINES === 0) {
        this.#options.onProgress?.(this.#edge.size);
        await setImmediate();
      }
    }
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
    const { chain, leaves } = this.#inputs;
    const { size } = this.#edge;
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
