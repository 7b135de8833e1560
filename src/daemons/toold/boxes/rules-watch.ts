// Polls the rules of running commands, and ends a command when its rules became narrower. Without
// running commands nothing is polled; the next call checks.
import type { Clock, Timer } from '../../../platform/clock.ts';
import type { Log } from '../../../platform/log.ts';

/** Together with the delay until a new policy is loaded, this stays below a second. */
const POLL_INTERVAL_MS = 250;

export type WatchedCommand = {
  /** True when it would be allowed less now. */
  isNarrower(): Promise<boolean>;
  /** Ends the command; called once. */
  end(): void;
};

export type RulesWatch = {
  /** Polls while `work` runs. */
  during<T>(watched: WatchedCommand, work: () => Promise<T>): Promise<T>;
  /** Polls until `isOver`, or until it was ended. */
  until(watched: WatchedCommand, isOver: () => boolean): void;
};

export function makeRulesWatch({ clock, log }: { clock: Clock; log: Log }): RulesWatch {
  const all = new Set<WatchedCommand>();
  /** Each is checked by itself, so that a slow check delays no other. */
  const checking = new Set<WatchedCommand>();
  let timer: Timer | undefined;
  const isOver = new WeakMap<WatchedCommand, () => boolean>();

  const drop = (command: WatchedCommand): void => {
    all.delete(command);
    if (all.size > 0) return;
    timer?.cancel();
    timer = undefined;
  };

  const check = async (command: WatchedCommand): Promise<void> => {
    if (checking.has(command)) return;
    if (isOver.get(command)?.() === true) return drop(command);
    checking.add(command);
    try {
      if (!(await command.isNarrower()) || !all.delete(command)) return;
      command.end();
    } catch (error) {
      log.error('checking the rules of a command failed', { error });
    } finally {
      checking.delete(command);
    }
  };
  const schedule = (): void => {
    if (timer !== undefined || all.size === 0) return;
    timer = clock.at(clock.nowMs() + POLL_INTERVAL_MS, () => {
      timer = undefined;
      for (const command of all) void check(command);
      if (all.size > 0) schedule();
    });
  };

  return {
    async during(watched, work) {
      all.add(watched);
      schedule();
      try {
        return await work();
      } finally {
        drop(watched);
      }
    },
    until(watched, isDone) {
      isOver.set(watched, isDone);
      all.add(watched);
      schedule();
    },
  };
}
