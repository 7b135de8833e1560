// Verifies a log directory, or a copy of one, without trusting it: hashes every event again, checks
// every checkpoint against the hashes and the keys, and says what is wrong and with which event.
// Reads only and needs no secret key. Finding out which event it is, is diagnose.ts's work.
import fs from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { fault } from '../../../wire/errors.ts';
import { type ChainProblem, CheckpointChain } from './checkpoint-chain.ts';
import { diagnose, type EventProblem } from './diagnose.ts';
import { IdSet } from './id-set.ts';
import { contradicts, LeafFile } from './leaf-file.ts';
import { Frontier, hashLeafAt } from './merkle.ts';
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
  /** How many events there are, and the root over all of them. */
  size: number;
  root: string;
  checkpoints_checked: number;
  /** How many events the newest good checkpoint covers, and how many come after it. */
  signed_size: number;
  unsigned_tail: number;
  /** The keys that signed, in the order they took over. */
  keys: string[];
  problems: LogProblem[];
  /** More may be wrong than is listed. */
  problems_total: number;
  remarks: string[];
};

export type VerifyOptions = {
  dir: string;
  /** Checkpoints kept elsewhere, as text: only against these can a rewritten directory be told. */
  from?: readonly string[];
  /** Public keys kept elsewhere: one of them must have signed. */
  trustedKeys?: readonly string[];
  problemsMax?: number;
  onProgress?: (size: number) => void;
};

const PROBLEMS_MAX = 100;
const TURN_LINES = 8_192;
const SUSPECTS_MAX = 1_000;

export async function verifyLog(options: VerifyOptions): Promise<VerifyReport> {
  if (!fs.existsSync(options.dir)) throw fault('not_found', `there is no directory ${options.dir}`);
  const chain = new CheckpointChain(options.dir, {
    kept: options.from ?? [],
    trustedKeys: options.trustedKeys,
  });
  const leaves = new LeafFile(options.dir);
  const walk = new SegmentWalk(options.dir);
  try {
    if (walk.fileCount === 0 && chain.nextSize === Number.POSITIVE_INFINITY) {
      throw fault('not_found', `there is no audit log in ${options.dir}`);
    }
    return await new Verification(options, { chain, leaves, walk }).run();
  } finally {
    walk.close();
    leaves.close();
  }
}

type Tools = { chain: CheckpointChain; leaves: LeafFile; walk: SegmentWalk };

class Verification {
  readonly #options: VerifyOptions;
  readonly #tools: Tools;
  readonly #edge = new Frontier();
  readonly #ids = new IdSet();
  readonly #suspectIds = new Set<string>();
  readonly #lineProblems: LogProblem[] = [];
  /** A line says another seq than its place gives it, or tree/L00 remembers another line. */
  #isOdd = false;

  constructor(options: VerifyOptions, tools: Tools) {
    this.#options = options;
    this.#tools = tools;
  }

  async run(): Promise<VerifyReport> {
    const { chain } = this.#tools;
    await this.#hashAll();
    chain.finish();
    const found = [...this.#diagnose(), ...this.#findDoubleIds()];
    // A line that diagnosis names is not named again for what it looks like.
    const isNamed = (seq: number | null): boolean =>
      found.some(
        (p) => seq !== null && p.seq !== null && p.seq <= seq && seq <= (p.to_seq ?? p.seq),
      );
    const lines = this.#lineProblems.filter(({ kind, seq }) => kind === 'torn' || !isNamed(seq));
    const keys = chain.problems.map((p) => ({ ...p, seq: null, segment: null, line: null }));
    return this.#report([...found, ...lines, ...keys]);
  }

  async #hashAll(): Promise<void> {
    const { walk, chain } = this.#tools;
    chain.check(0, this.#edge.root());
    for (let lines = 0; walk.next(); lines += 1) {
      if (!walk.cursor.isTerminated && walk.isInLast) await walk.awaitRest();
      this.#takeLine();
      if (this.#edge.size === chain.nextSize) chain.check(this.#edge.size, this.#edge.root());
      if (lines % TURN_LINES === 0) {
        this.#options.onProgress?.(this.#edge.size);
        await setImmediate();
      }
    }
  }

  #takeLine(): void {
    const { walk, chain, leaves } = this.#tools;
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
    if (rotation !== undefined) chain.noteRotation(index, rotation);
  }

  #pushLine(kind: 'torn' | 'malformed', seq: number, what: string): void {
    const { segment, line } = this.#tools.walk;
    const message = `event ${seq} ${what} (${segment} line ${line})`;
    this.#lineProblems.push({ kind, seq, segment, line, message });
  }

  #diagnose(): EventProblem[] {
    const { chain, leaves, walk } = this.#tools;
    const { signed, lastGoodSize, firstBadSize } = chain;
    if (!this.#isOdd && firstBadSize === undefined) return [];
    const lineCount = this.#edge.size;
    const found = diagnose({ walk, leaves, signed, lastGoodSize, firstBadSize, lineCount });
    if (found.length > 0) return found;
    const message = 'the events do not have the seqs their places give them';
    return [{ kind: 'changed', seq: lastGoodSize, segment: null, line: null, message }];
  }

  /** Fingerprints may agree by chance: look again at the few ids that seem to be there twice. */
  #findDoubleIds(): LogProblem[] {
    if (this.#suspectIds.size === 0) return [];
    const { walk } = this.#tools;
    const problems: LogProblem[] = [];
    const first = new Map<string, number>();
    walk.rewind();
    while (walk.next()) {
      const { id, seq } = parseEvent(walk.cursor.line()) ?? {};
      if (typeof id !== 'string' || typeof seq !== 'number' || !this.#suspectIds.has(id)) continue;
      const before = first.get(id);
      if (before === undefined) first.set(id, seq);
      // The same line twice is what diagnosis calls duplicated.
      if (before === undefined || before === seq) continue;
      const { segment, line } = walk;
      const message = `event ${seq} has the id ${id} of event ${before} (${segment} line ${line})`;
      problems.push({ kind: 'duplicate_id', seq, segment, line, message });
    }
    return problems;
  }

  #report(problems: LogProblem[]): VerifyReport {
    const { chain, leaves } = this.#tools;
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
