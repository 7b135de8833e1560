// When what nobody answered ends: one timer, set to the next approval that is due.
import type { Clock, Timer } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { Store } from './store/store.ts';

export type Expiry = {
  /** Something ends at this time. */
  note(atMs: number): void;
  /** Ends what is due now. */
  begin(): void;
  stop(): Promise<void>;
};

const RETRY_MS = 1_000;

export function makeExpiry(parts: {
  store: Pick<Store, 'lapseDue'>;
  clock: Clock;
  log: Log;
}): Expiry {
  const { store, clock, log } = parts;
  let timer: { atMs: number; timer: Timer } | undefined;
  let running: Promise<void> | undefined;
  let again = false;
  let stopped = false;

  const note = (atMs: number): void => {
    if (stopped || (timer !== undefined && timer.atMs <= atMs)) return;
    timer?.timer.cancel();
    timer = { atMs, timer: clock.at(atMs, lapse) };
  };

  const lapse = (): void => {
    timer?.timer.cancel();
    timer = undefined;
    again = true;
    if (stopped || running !== undefined) return;
    again = false;
    running = store
      .lapseDue()
      .then(
        (next) => next,
        (error: unknown) => {
          if (!stopped) log.warn('what nobody answered could not be ended', { error });
          return clock.nowMs() + RETRY_MS;
        },
      )
      .then((next) => {
        running = undefined;
        if (next !== undefined) note(next);
        // Something was due that it may not have seen.
        if (again) lapse();
      });
  };

  return {
    note,
    begin: lapse,
    async stop() {
      stopped = true;
      timer?.timer.cancel();
      await running;
    },
  };
}
