// The journal writes an intent before a model call and an outcome after it. Entries that arrive
// together share one transaction and one wait for the audit log, which makes the intents durable;
// this file is synced up to 20 ms later, and what a power failure loses is restored from the log.
// Entries are written in the order they arrived: an intent may reserve what an outcome
// before it released, and must not be on the disk without it.
import type { Log } from '../../../platform/log.ts';
import type { Outbox } from '../../../platform/outbox.ts';
import type { Committed, DeferredSyncDatabase } from '../../../platform/sql/deferred-sync.ts';
import { Fault } from '../../../wire/errors.ts';
import type { Amount } from '../rules/budget.ts';
import type { CallOutcome, Intent, Work } from './entries.ts';
import { RowWriter } from './rows.ts';

/** A committed intent. `recorded` resolves when the audit log has it durably. */
export type WrittenIntent = { seq: number; recorded(): Promise<void> };

type WrittenGroup = { lastEvent: number; syncNow(): Promise<void> };
type QueuedWrite = {
  work: Work;
  resolve: (group: WrittenGroup) => void;
  reject: (error: unknown) => void;
};

/** An outcome that no caller waits for joins the next group, or is written after this delay. */
const FLUSH_DELAY_MS = 20;
/** Outcomes that the disk refused are kept, and tried again after this delay. */
const RETRY_DELAY_MS = 500;
/** The largest number of entries in one transaction, so that a large one does not block others. */
const GROUP_MAX = 256;

export class Journal {
  readonly #db: DeferredSyncDatabase;
  readonly #outbox: Outbox;
  readonly #log: Log;
  readonly #rows: RowWriter;
  #nextSeq: number;
  /** Not committed, oldest first. */
  #queue: QueuedWrite[] = [];
  /** Calls that have ended and whose outcome is not durable. */
  readonly #undurable = new Set<string>();
  #isWriting = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: { db: DeferredSyncDatabase; outbox: Outbox; log: Log; lastSeq: number }) {
    this.#db = options.db;
    this.#outbox = options.outbox;
    this.#log = options.log;
    this.#rows = new RowWriter(options.outbox);
    this.#nextSeq = options.lastSeq + 1;
  }

  /** Resolves when the intent is committed; throws when it was not, and never will be. */
  async intent(intent: Intent): Promise<WrittenIntent> {
    const seq = this.#nextSeq++;
    const { lastEvent } = await this.#write({ kind: 'intent', seq, intent });
    return { seq, recorded: () => this.#outbox.delivered(lastEvent) };
  }

  /** Reserves more for a running attempt, before it may spend it. Resolves when durable. */
  raise(seq: number, reserved: Amount): Promise<void> {
    return this.#writeDurably({ kind: 'raise', seq, reserved });
  }

  /** Resolves when durable. Throws when the disk refused it, and the journal keeps trying. */
  outcome(outcome: CallOutcome): Promise<void> {
    this.#undurable.add(outcome.callId);
    return this.#writeDurably({ kind: 'outcome', outcome });
  }

  /** Writes an outcome that no caller waits for. */
  deferOutcome(outcome: CallOutcome): void {
    this.#undurable.add(outcome.callId);
    const ignore = (): void => undefined;
    this.#queue.push({ work: { kind: 'outcome', outcome }, resolve: ignore, reject: ignore });
    this.#writeAfter(FLUSH_DELAY_MS);
  }

  /** True while the call has ended and its outcome is not durable. */
  isPending(callId: string): boolean {
    return this.#undurable.has(callId);
  }

  /** True when every outcome is durable. */
  isIdle(): boolean {
    return this.#undurable.size === 0;
  }

  /** Resolves when every outcome is durable; throws when the disk refused one. */
  async flush(): Promise<void> {
    if (!this.isIdle()) await this.#writeDurably({ kind: 'flush' });
  }

  async #writeDurably(work: Work): Promise<void> {
    const { syncNow } = await this.#write(work);
    await syncNow();
  }

  #write(work: Work): Promise<WrittenGroup> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ work, resolve, reject });
      this.#writeNow();
    });
  }

  #writeNow(): void {
    if (this.#isWriting) return;
    this.#isWriting = true;
    // Whatever the current turn of the event loop still adds joins the group.
    setImmediate(() => void this.#writeQueue());
  }

  #writeAfter(delayMs: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#writeNow();
    }, delayMs).unref();
  }

  async #writeQueue(): Promise<void> {
    /** Entries at the front that are written one by one, because one of them is broken. */
    let alone = 0;
    while (this.#queue.length > 0) {
      const group = this.#queue.slice(0, alone > 0 ? 1 : GROUP_MAX);
      alone = Math.max(0, alone - 1);
      const error = await this.#writeGroup(group);
      if (isDiskRefusal(error)) {
        this.#refuseQueue(error);
        break;
      }
      if (error === undefined) this.#queue.splice(0, group.length);
      else if (group.length > 1) alone = group.length;
      else this.#drop(this.#queue.shift()!, error);
      if (this.#queue.length > 0) await new Promise((resolve) => setImmediate(resolve));
    }
    this.#isWriting = false;
  }

  /** Resolves to the reason when nothing of the group was committed. */
  async #writeGroup(group: readonly QueuedWrite[]): Promise<unknown> {
    let committed: Committed<number>;
    try {
      const works = group.map(({ work }) => work);
      committed = await this.#db.commit((sql) => this.#rows.writeAll(sql, works));
    } catch (error) {
      return error;
    }
    const { value: lastEvent, durable, syncNow } = committed;
    if (lastEvent > 0) this.#outbox.wake();
    const markDurable = (): void => {
      for (const { work } of group)
        if (work.kind === 'outcome') this.#undurable.delete(work.outcome.callId);
    };
    // The database ends the process after a failed sync.
    durable.then(markDurable, () => undefined);
    for (const { resolve } of group) resolve({ lastEvent, syncNow });
    return undefined;
  }

  /** An intent behind an outcome must not overtake it, so all are refused; outcomes are kept. */
  #refuseQueue(error: unknown): void {
    for (const { reject } of this.#queue) reject(error);
    this.#queue = this.#queue.filter(({ work }) => work.kind === 'outcome');
    if (this.#queue.length === 0) return;
    const outcomes = this.#queue.length;
    this.#log.warn('writing outcomes of model calls failed; retrying', { outcomes, error });
    this.#writeAfter(RETRY_DELAY_MS);
  }

  /** An entry that cannot be written at all is a bug: its neighbours are written without it. */
  #drop({ work, reject }: QueuedWrite, error: unknown): void {
    reject(error);
    if (work.kind !== 'outcome') return;
    const { callId } = work.outcome;
    this.#undurable.delete(callId);
    this.#log.error('an outcome of a model call was lost', { call_id: callId, error });
  }
}

/** The database throws faults; `internal` is an event that the outbox rejected. */
function isDiskRefusal(error: unknown): boolean {
  return error instanceof Fault && error.code !== 'internal';
}
