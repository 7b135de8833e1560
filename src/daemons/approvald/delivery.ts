// Delivers notices to their targets, with growing delays, until they are accepted or the attempts
// are used up. They are kept in the store, so a restart loses none.
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { makeWakeLoop, type WakeLoop } from '../../platform/wake-loop.ts';
import type { ApprovaldStore, DueNotice } from './store/store.ts';

/** Sends a notice to one target; throws when it did not arrive. */
export type SendNotice = (notice: { id: string; body: string; nowMs: number }) => Promise<void>;

const NOTICE_BACKOFF_MS = { min: 1_000, max: 600_000 };
const OWN_BACKOFF_MS_MAX = 10_000;
/** For a failing store: a notice whose delivery cannot be recorded is sent again each time. */
const STORE_BACKOFF_MS = { min: 1_000, max: 60_000 };

export function makeDelivery(options: {
  store: Pick<
    ApprovaldStore,
    'listDueNotices' | 'findNextNoticeMs' | 'deleteNotice' | 'postponeNotice'
  >;
  channels: ReadonlyMap<string, SendNotice>;
  attemptsMax: number;
  /** A target of this runtime, which gets its notices however long it is away. */
  ownTarget?: string;
  clock: Clock;
  log: Log;
}): Pick<WakeLoop, 'wake' | 'stop'> {
  const { store, channels, attemptsMax, clock, log } = options;

  const deliver = async ({ id, target, body, attempts }: DueNotice): Promise<void> => {
    const send = channels.get(target);
    // The target is no longer configured.
    if (send === undefined) return void (await store.deleteNotice(id));
    try {
      await send({ id, body, nowMs: clock.nowMs() });
      await store.deleteNotice(id);
    } catch (error) {
      const isLast = target !== options.ownTarget && attempts + 1 >= attemptsMax;
      log.warn(isLast ? 'notice abandoned' : 'notice delivery failed; retrying', {
        id,
        target,
        attempts: attempts + 1,
        error,
      });
      if (isLast) return void (await store.deleteNotice(id));
      const longestMs = target === options.ownTarget ? OWN_BACKOFF_MS_MAX : NOTICE_BACKOFF_MS.max;
      const delayMs = Math.min(NOTICE_BACKOFF_MS.min * 2 ** attempts, longestMs);
      await store.postponeNotice(id, clock.nowMs() + delayMs);
    }
  };

  const loop = makeWakeLoop({
    clock,
    async work() {
      await Promise.all((await store.listDueNotices(clock.nowMs())).map(deliver));
      return store.findNextNoticeMs();
    },
    backoffMs: STORE_BACKOFF_MS,
    onError: (error) => log.warn('delivering notices failed; retrying', { error }),
  });

  return {
    wake() {
      if (channels.size > 0) loop.wake();
    },
    stop: loop.stop,
  };
}
