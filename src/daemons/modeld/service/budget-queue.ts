// Lets calls wait for what other calls have reserved of a budget: in order, until enough of it is
// released, their time is up, or they are aborted.
import type { Clock, Timer } from '../../../platform/clock.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import { type BudgetKey, formatKey } from '../rules/budget.ts';
import { makeAbortFault } from './model-call.ts';

/** The result of an attempt to reserve; one that cannot succeed later throws. */
export type ReserveAttempt<T> = { value: T } | { blockedBy: BudgetKey };

export type QueuedReservation<T> = {
  keys: readonly BudgetKey[];
  /** Without waiting it must return a value or throw. */
  attempt(mayWait: boolean): ReserveAttempt<T>;
  signal: AbortSignal;
  waitMs: number;
};

type Waiter = {
  names: readonly string[];
  blockedBy: string;
  /** Returns false when it goes on waiting. */
  retry(mayWait: boolean): boolean;
  fail(reason: unknown): void;
};

export class BudgetQueue {
  readonly #clock: Clock;
  /** In the order of their arrival. */
  readonly #waiters = new Set<Waiter>();
  #isScheduled = false;
  #isClosed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Reserves at once or later. No call overtakes one that waits for a budget of both. */
  async reserve<T>(asked: QueuedReservation<T>): Promise<T> {
    const names = asked.keys.map(formatKey);
    const ahead = [...this.#waiters].find(({ blockedBy }) => names.includes(blockedBy));
    if (ahead !== undefined) return this.#wait(asked, names, ahead.blockedBy);
    const made = asked.attempt(asked.waitMs > 0 && !this.#isClosed);
    if ('value' in made) return made.value;
    return this.#wait(asked, names, formatKey(made.blockedBy));
  }

  /** Call it when something was released or a limit has changed. */
  release(): void {
    if (this.#isScheduled || this.#waiters.size === 0) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      this.#retryAll();
    });
  }

  /** Refuses all that wait, and lets none wait from now on. */
  close(reason: Fault): void {
    this.#isClosed = true;
    for (const waiter of [...this.#waiters]) waiter.fail(reason);
  }

  count(): number {
    return this.#waiters.size;
  }

  #retryAll(): void {
    const blocked = new Set<string>();
    for (const waiter of [...this.#waiters]) {
      if (waiter.names.some((name) => blocked.has(name))) continue;
      if (!waiter.retry(true)) blocked.add(waiter.blockedBy);
    }
  }

  #wait<T>(asked: QueuedReservation<T>, names: string[], blockedBy: string): Promise<T> {
    const { signal } = asked;
    if (this.#isClosed) throw fault('stopping', 'the runtime is stopping');
    return new Promise<T>((resolve, reject) => {
      let timer: Timer | undefined;
      const leave = (): void => {
        this.#waiters.delete(waiter);
        timer?.cancel();
        signal.removeEventListener('abort', onAbort);
        // Those behind it may fit.
        this.release();
      };
      const waiter: Waiter = {
        names,
        blockedBy,
        retry(mayWait) {
          try {
            const made = asked.attempt(mayWait);
            if ('value' in made) {
              leave();
              resolve(made.value);
              return true;
            }
            waiter.blockedBy = formatKey(made.blockedBy);
            return false;
          } catch (error) {
            waiter.fail(error);
            return true;
          }
        },
        fail(reason) {
          leave();
          reject(reason);
        },
      };
      const onAbort = (): void => waiter.fail(makeAbortFault(signal));
      this.#waiters.add(waiter);
      if (signal.aborted) return onAbort();
      signal.addEventListener('abort', onAbort, { once: true });
      timer = this.#clock.at(this.#clock.nowMs() + asked.waitMs, () => waiter.retry(false));
    });
  }
}
