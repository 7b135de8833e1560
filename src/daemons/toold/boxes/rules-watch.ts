// While commands run, the rules that they were started under are looked at again: what has become
// narrower since ends them. Between commands nobody looks; the next call does.
import type { Clock, Timer } from '../../../platform/clock.ts';
import type { Log } from '../../../platform/log.ts';

/** Together with how soon a new policy is seen, this stays below a second. */
const LOOK_EVERY_MS = 250;

export type Watched = {
  /** True when it was allowed more than it would be now. */
  isNarrower(): Promise<boolean>;
  /** Ends what runs; called once. */
  end(): void;
};

export type RulesWatch = {
  /** Looks as long as this takes. */
  during<T>(watched: Watched, work: () => Promise<T>): Promise<T>;
};

export function makeRulesWatch({ clock, log }: { clock: Clock; log: Log }): RulesWatch {
  const all = new Set<Watched>();
  /** Each for itself: to look may take long, and nobody waits for another. */
  const looking = new Set<Watched>();
  let timer: Timer | undefined;

  const look = async (one: Watched): Promise<void> => {
    if (looking.has(one)) return;
    looking.add(one);
    try {
      if (!(await one.isNarrower()) || !all.delete(one)) return;
      one.end();
    } catch (error) {
      log.error('the rules of what runs could not be looked at', { error });
    } finally {
      looking.delete(one);
    }
  };
  const lookAgain = (): void => {
    if (timer !== undefined || all.size === 0) return;
    timer = clock.at(clock.nowMs() + LOOK_EVERY_MS, () => {
      timer = undefined;
      for (const one of all) void look(one);
      lookAgain();
    });
  };

  return {
    async during(watched, work) {
      all.add(watched);
      lookAgain();
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
