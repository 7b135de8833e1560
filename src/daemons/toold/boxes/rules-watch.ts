// While commands run, the rules that they were started under are looked at again: what has become
// narrower since ends them. Between commands nobody looks; the next call does.
import type { Clock, Timer } from '../../../platform/clock.ts';
import type { Log } from '../../../platform/log.ts';

/** Together with how soon a new policy is seen, this stays below a second. */
const POLL_INTERVAL_MS = 250;

export type WatchedCommand = {
  /** True when it was allowed more than it would be now. */
  isNarrower(): Promise<boolean>;
  /** Ends what runs; called once. */
  end(): void;
};

export type RulesWatch = {
  /** Looks as long as this takes. */
  during<T>(watched: WatchedCommand, work: () => Promise<T>): Promise<T>;
};

export function makeRulesWatch({ clock, log }: { clock: Clock; log: Log }): RulesWatch {
  const all = new Set<WatchedCommand>();
  /** Each for itself: to look may take long, and nobody waits for another. */
  const checking = new Set<WatchedCommand>();
  let timer: Timer | undefined;

  const check = async (one: WatchedCommand): Promise<void> => {
    if (checking.has(one)) return;
    checking.add(one);
    try {
      if (!(await one.isNarrower()) || !all.delete(one)) return;
      one.end();
    } catch (error) {
      log.error('the rules of what runs could not be looked at', { error });
    } finally {
      checking.delete(one);
    }
  };
  const schedule = (): void => {
    if (timer !== undefined || all.size === 0) return;
    timer = clock.at(clock.nowMs() + POLL_INTERVAL_MS, () => {
      timer = undefined;
      for (const one of all) void check(one);
      schedule();
    });
  };

  return {
    async during(watched, work) {
      all.add(watched);
      schedule();
      try {
        return await work();
      } finally {
        all.delete(watched);
        if (all.size === 0) {
          timer?.cancel();
          timer = undefined;
        }
      }
    },
  };
}
