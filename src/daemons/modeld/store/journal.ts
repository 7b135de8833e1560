// Writing calls down: intents and outcomes that come at the same time share one transaction and one
// wait for the audit log, which makes the intents durable; what a crash takes from here is got back
// from there. The log is told first where it can be, and this commits while the log syncs.
// An outcome nobody waits for joins a group of intents, or goes with others of its kind after a
// moment: a lone caller need not wait for what became of the call before. One that could not be
// written (full disk) is kept and tried again.
import type { Log } from '../../../platform/log.ts';
import type { Outbox, Told } from '../../../platform/outbox.ts';
import type { Committed, LateDatabase } from '../../../platform/sql/late-sync.ts';
import { Fault } from '../../../wire/errors.ts';
import type { Amount } from '../rules/budget.ts';
import type { Intent, IntentWork, Outcome, ToldWork, Work } from './entries.ts';
import { RowWriter } from './rows.ts';

export type Written = { seq: number; recorded: Promise<void> };

type Waiting = {
  work: Work;
  resolve: (recorded: Promise<void>) => void;
  reject: (e: unknown) => void;
};
type Owed = ToldWork | IntentWork;
/**
 * What goes into one transaction. It is taken when the transaction begins, so that late ones join.
 */
type Batch = {
  isTaken: boolean;
  isForOutcomes: boolean;
  /** Told to the log in a transaction that failed. */
  owed: Owed[];
  told: Told | undefined;
  waiting: Waiting[];
  soon: Outcome[];
  lastEvent: number;
  beganMs: number;
};
/** `error`: those who wait have been told. */
type GroupWritten = Pick<Committed<void>, 'syncNow'> | { error: unknown };

const SOON_MS = 20;
/** So many outcomes go with whatever goes next. */
const SOON_MAX = 64;
/** So few intents do not wait for outcomes as well. */
const FEW = 4;
/** With so many other calls under way, a wait lets some share the commit and the audit. */
const OTHERS_MIN = 8;
/** A group need not wait for more when it has so many times the calls that are not in it. */
const GROUP_TIMES = 2;
/** In times of what the last group took. */
const GATHER_TIMES = 4;
const GATHER_MS = { least: 5, most: 10 };
const AGAIN_MS = 500;

export class Journal {
  readonly #db: LateDatabase;
  readonly #outbox: Outbox;
  readonly #log: Log;
  readonly #writer: RowWriter;
  readonly #moment: (name: string) => void;
  #nextSeq: number;
  /** Calls that have no outcome on the disk, in their order. */
  readonly #open = new Set<number>();
  #waiting: Waiting[] = [];
  #soon: Outcome[] = [];
  #owed: Owed[] = [];
  /** Calls whose outcome is known here and not on the disk. */
  readonly #unwritten = new Set<string>();
  readonly #freed: Amount = { tokens: 0, costMicrousd: 0 };
  #isPlanned = false;
  #timer: NodeJS.Timeout | undefined;
  #gathering: NodeJS.Timeout | undefined;
  /** Calls with an intent and without an outcome. */
  #underWay = 0;
  #lastIntentMs = 0;
  /** The group before had one caller: the next is not the first of many that come together. */
  #wasAlone = true;
  #groupMs = 0;

  /** `open`: the calls that an earlier life left without an outcome. */
  constructor(options: {
    db: LateDatabase;
    outbox: Outbox;
    log: Log;
    lastSeq: number;
    open: readonly number[];
    moment(name: string): void;
  }) {
    this.#moment = options.moment;
    this.#db = options.db;
    this.#outbox = options.outbox;
    this.#log = options.log;
    this.#writer = new RowWriter(options.outbox);
    this.#nextSeq = options.lastSeq + 1;
    for (const seq of options.open) this.#open.add(seq);
  }

  /**
   * Resolves when the intent is committed; `recorded` when the audit log has it durably. Throws
   * when there is nothing of it anywhere; `recorded` does when the log was told and the commit
   * failed.
   */
  intent(intent: Intent): Promise<Written> {
    const seq = this.#nextSeq++;
    this.#open.add(seq);
    this.#underWay++;
    return new Promise((resolve, reject) => {
      this.#waiting.push({
        work: { kind: 'intent', seq, intent },
        resolve: (recorded) => resolve({ seq, recorded }),
        reject: (error) => {
          this.#underWay--;
          this.#open.delete(seq);
          reject(error);
        },
      });
      this.#begin();
    });
  }

  /** What outcomes that are not committed have given back to their budgets: never less. */
  get freed(): Readonly<Amount> {
    return this.#freed;
  }

  /** A running attempt takes more from its budgets, before it may spend it. */
  raise(seq: number, reserved: Amount): Promise<void> {
    return this.#write({ kind: 'raise', seq, reserved });
  }

  /**
   * Resolves when durable. When it cannot be written now it throws, and the journal keeps trying.
   */
  async outcome(outcome: Outcome): Promise<void> {
    this.#underWay--;
    this.#unwritten.add(outcome.callId);
    try {
      await this.#write({ kind: 'outcome', outcome });
    } catch (error) {
      this.#keep(outcome);
      this.#plan(AGAIN_MS);
      throw error;
    }
    this.#unwritten.delete(outcome.callId);
  }

  outcomeSoon(outcome: Outcome): void {
    this.#underWay--;
    this.#unwritten.add(outcome.callId);
    this.#keep(outcome);
    this.#plan(SOON_MS);
  }

  #keep(outcome: Outcome): void {
    this.#soon.push(outcome);
    this.#freed.tokens += outcome.freed.tokens;
    this.#freed.costMicrousd += outcome.freed.costMicrousd;
  }

  #committed(outcomes: readonly Outcome[]): void {
    for (const { freed } of outcomes) {
      this.#freed.tokens -= freed.tokens;
      this.#freed.costMicrousd -= freed.costMicrousd;
    }
  }

  /** True while the call has ended and its outcome is not durable. */
  awaits(callId: string): boolean {
    return this.#unwritten.has(callId);
  }

  /** True when everything that is known here is on the disk. */
  isIdle(): boolean {
    const isWritten = this.#owed.length === 0 && this.#unwritten.size === 0;
    return isWritten && this.#waiting.length === 0 && this.#soon.length === 0;
  }

  /** Writes everything that waits; throws when it cannot be written. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    while (this.#soon.length > 0 || this.#unwritten.size > 0) {
      const written = await this.#writeGroup({ isForOutcomes: true });
      if ('error' in written) throw written.error;
      await written.syncNow();
    }
  }

  #plan(ms: number): void {
    if (this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#soon.length > 0) void this.#writeGroup({ isForOutcomes: true });
    }, ms);
    this.#timer.unref();
  }

  #write(work: Work): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ work, resolve: () => resolve(), reject });
      this.#begin();
    });
  }

  #begin(): void {
    const nowMs = performance.now();
    const wishedMs = this.#groupMs * GATHER_TIMES;
    const gatherMs = Math.min(Math.max(wishedMs, GATHER_MS.least), GATHER_MS.most);
    const isBusy = nowMs - this.#lastIntentMs < gatherMs;
    this.#lastIntentMs = nowMs;
    const others = this.#underWay - this.#waiting.length;
    if (this.#gathering !== undefined && this.#waiting.length >= GROUP_TIMES * others) {
      this.#gathered();
      // What else is there in this turn is a group of its own, written while the log has the first.
      // One for all would leave this process without work meanwhile, more would cost more.
      this.#writeAfterTurn();
    }
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    if (others === 0 && this.#wasAlone) queueMicrotask(() => void this.#writeGroup());
    else if (!isBusy || others < OTHERS_MIN) this.#writeAfterTurn();
    else this.#gathering = setTimeout(() => this.#gathered(), gatherMs);
  }

  /** Whatever this turn of the loop still brings joins the group. */
  #writeAfterTurn(): void {
    this.#isPlanned = true;
    setImmediate(() => {
      if (this.#waiting.length > 0) void this.#writeGroup();
      else this.#isPlanned = false;
    });
  }

  #gathered(): void {
    clearTimeout(this.#gathering);
    this.#gathering = undefined;
    void this.#writeGroup();
  }

  #take(batch: Batch): void {
    if (batch.isTaken) return;
    batch.isTaken = true;
    batch.beganMs = performance.now();
    this.#isPlanned = false;
    batch.owed = this.#owed.splice(0);
    batch.waiting = this.#waiting.splice(0);
    if (batch.waiting.length > 0) this.#wasAlone = batch.waiting.length === 1;
    if (batch.isForOutcomes || this.#takesOutcomes(batch)) batch.soon = this.#soon.splice(0);
  }

  #takesOutcomes({ owed, waiting }: Batch): boolean {
    // Outcomes may be among what is owed: the table must not have their events without them.
    if (owed.length > 0) return true;
    if (waiting.length > FEW || this.#soon.length >= SOON_MAX) return true;
    return waiting.some(({ work }) => work.kind !== 'intent' || work.intent.needsOutcomes);
  }

  async #writeGroup({ isForOutcomes = false } = {}): Promise<GroupWritten> {
    const batch: Batch = {
      ...{ isForOutcomes, isTaken: false, owed: [], told: undefined, waiting: [], soon: [] },
      ...{ lastEvent: 0, beganMs: 0 },
    };
    let committed: Committed<void>;
    try {
      committed = await this.#db.commit((sql) => {
        this.#take(batch);
        this.#tellFirst(batch);
        batch.lastEvent = this.#writer.writeAll(sql, worksOf(batch), this.#openSeq());
      });
    } catch (error) {
      this.#take(batch);
      return this.#recover(batch, error);
    }
    this.#finish(batch, committed);
    return committed;
  }

  /**
   * Intents are told before they are committed, which is done while the log syncs. Whatever ends
   * this process in between, the log has the attempts, and the next start gives them back.
   */
  #tellFirst(batch: Batch): void {
    const { owed, waiting, soon } = batch;
    const works = waiting.map(({ work }) => work);
    // Who waits for an outcome or more money hears what became of it, and may say it again.
    if (owed.length > 0 || works.length === 0 || !works.every(isIntent)) return;
    const events = [...soon, ...works.map(({ intent }) => intent)].map(({ event }) => event);
    batch.told = this.#outbox.tellFirst(events);
    if (batch.told === undefined) return;
    for (const one of [...soon, ...works]) one.isTold = true;
    this.#moment('modeld.after-told');
  }

  /** A lower bound: what is given back by outcomes of this very group counts from the next on. */
  #openSeq(): number {
    for (const seq of this.#open) return seq;
    return this.#nextSeq;
  }

  #finish({ waiting, soon, lastEvent, beganMs }: Batch, committed: Committed<void>): void {
    for (const { seq } of soon) this.#open.delete(seq);
    for (const { work } of waiting)
      if (work.kind === 'outcome') this.#open.delete(work.outcome.seq);
    if (lastEvent > 0) this.#outbox.poke();
    if (waiting.some(({ work }) => work.kind === 'intent')) {
      // One wait for all: the audit log takes events in order.
      const recorded = this.#outbox.delivered(lastEvent);
      const told = (): void => {
        this.#groupMs = performance.now() - beganMs;
      };
      recorded.then(told, () => undefined);
      for (const { work, resolve } of waiting) if (work.kind === 'intent') resolve(recorded);
    }
    for (const { work, resolve, reject } of waiting)
      if (work.kind !== 'intent')
        committed.syncNow().then(() => resolve(committed.durable), reject);
    this.#committed(soon);
    const forget = (): void => {
      for (const { callId } of soon) this.#unwritten.delete(callId);
    };
    // Not synced means not known to be there; they stay, and nobody is told otherwise.
    committed.durable.then(forget, (error: unknown) => {
      this.#log.error('the journal of model calls could not be synced', { error });
    });
  }

  async #recover(batch: Batch, error: unknown): Promise<GroupWritten> {
    const { waiting, soon } = batch;
    const works = worksOf(batch).length;
    const owed = owedBy(batch);
    // One row that cannot be written is a bug here; it must not take its neighbours along.
    if (!(error instanceof Fault) && works > 1) {
      const rest = { ...batch, told: undefined, lastEvent: batch.told?.seq ?? 0 };
      for (const one of owed)
        await this.#writeAlone({ ...rest, owed: [one], waiting: [], soon: [] });
      for (const one of waiting)
        await this.#writeAlone({ ...rest, owed: [], waiting: [one], soon: [] });
      for (const one of soon)
        await this.#writeAlone({ ...rest, owed: [], waiting: [], soon: [one] });
      return { syncNow: async () => undefined };
    }
    if (error instanceof Fault) this.#owed.unshift(...owed);
    else this.#lose(owed, error);
    for (const one of waiting) this.#refuse(one, error);
    if (soon.length > 0) {
      this.#log.warn('outcomes of model calls could not be written; trying again', { error });
      this.#soon.unshift(...soon);
      this.#plan(AGAIN_MS);
    }
    return { error };
  }

  /** What the log was told will be written, and that it came to nothing; the caller says that. */
  #refuse({ work, resolve, reject }: Waiting, error: unknown): void {
    if (work.kind === 'intent' && work.isTold === true) {
      this.#owed.push(work);
      const refused = Promise.reject(error);
      refused.catch(() => undefined); // The caller waits for it a little later, and is told.
      resolve(refused);
    } else reject(error);
  }

  #lose(owed: readonly Owed[], error: unknown): void {
    for (const work of owed) {
      if (isIntent(work)) {
        const call_id = work.intent.callId;
        this.#log.error('the attempt at a model call was lost', { call_id, error });
      } else {
        const upTo = work.told.seq;
        this.#log.error('events that the log was told of are not in the outbox', { upTo, error });
      }
    }
  }

  async #writeAlone(batch: Batch): Promise<void> {
    try {
      const committed = await this.#db.commit((sql) => {
        const last = this.#writer.writeAll(sql, worksOf(batch), this.#openSeq());
        batch.lastEvent = Math.max(batch.lastEvent, last);
      });
      this.#finish(batch, committed);
    } catch (error) {
      for (const one of batch.waiting) this.#refuse(one, error);
      this.#lose(batch.owed, error);
      this.#committed(batch.soon);
      for (const { callId } of batch.soon) {
        this.#unwritten.delete(callId);
        this.#log.error('the outcome of a model call was lost', { call_id: callId, error });
      }
    }
  }
}

const isIntent = (work: Work): work is IntentWork => work.kind === 'intent';

function owedBy({ owed, told }: Batch): Owed[] {
  return told === undefined ? owed : [...owed, { kind: 'told', told }];
}

function worksOf(batch: Batch): Work[] {
  // Outcomes first: the order of the audit log is then the order in which things happened.
  const outcomes = batch.soon.map((outcome): Work => ({ kind: 'outcome', outcome }));
  return [...owedBy(batch), ...outcomes, ...batch.waiting.map(({ work }) => work)];
}
