// Bringing notices to where they go, again and again with growing pauses, until they are taken or
// given up. They are kept in the store, so a restart loses none.
import type { Clock, Timer } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { DueNotice, Store } from './store/store.ts';

/** Takes one notice to one place; throws when it did not arrive. */
export type Carry = (notice: { id: string; body: string; nowMs: number }) => Promise<void>;
export type Delivery = { poke(): void; stop(): Promise<void> };

const PAUSE_MS_MIN = 1_000;
const PAUSE_MS_MAX = 600_000;

export function makeDelivery(parts: {
  store: Pick<Store, 'dueNotices' | 'nextNotice' | 'noticeDone' | 'noticeLater'>;
  carriers: ReadonlyMap<string, Carry>;
  attemptsMax: number;
  clock: Clock;
  log: Log;
}): Delivery {
  const { store, carriers, attemptsMax, clock, log } = parts;
  let running: Promise<void> | undefined;
  let again = false;
  let stopped = false;
  let timer: Timer | undefined;

  const deliver = async ({ id, target, body, attempts }: DueNotice): Promise<void> => {
    const carry = carriers.get(target);
    // A place that is no longer configured.
    if (carry === undefined) return void (await store.noticeDone(id));
    try {
      await carry({ id, body, nowMs: clock.nowMs() });
      await store.noticeDone(id);
    } catch (error) {
      const givesUp = attempts + 1 >= attemptsMax;
      log.warn(givesUp ? 'a notice was given up' : 'a notice did not arrive; trying again', {
        ...{ id, target, attempts: attempts + 1, error },
      });
      if (givesUp) return void (await store.noticeDone(id));
      const pauseMs = Math.min(PAUSE_MS_MIN * 2 ** attempts, PAUSE_MS_MAX);
      await store.noticeLater(id, clock.nowMs() + pauseMs);
    }
  };

  const deliverAll = async (): Promise<void> => {
    do {
      again = false;
      for (;;) {
        const due = stopped ? [] : await store.dueNotices(clock.nowMs());
        if (due.length === 0) break;
        await Promise.all(due.map(deliver));
      }
    } while (again && !stopped);
    const next = stopped ? undefined : await store.nextNotice();
    timer?.cancel();
    if (next !== undefined) timer = clock.at(next, poke);
  };

  function poke(): void {
    again = true;
    if (stopped || running !== undefined || carriers.size === 0) return;
    running = deliverAll()
      .catch((error: unknown) => {
        if (!stopped) log.warn('notices could not be delivered', { error });
      })
      .finally(() => {
        running = undefined;
        // Poked after the last look at what is due.
        if (again) poke();
      });
  }

  return {
    poke,
    async stop() {
      stopped = true;
      timer?.cancel();
      await running;
    },
  };
}
