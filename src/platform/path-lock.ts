// Turns at places that several may use at once, and somebody now and then alone. In the order they
// were asked for: who waits to be alone is not overtaken by those who come after.

export type LockRequest = {
  /** Names of places; two that are below one another are the same to whoever wants to be alone. */
  places: readonly string[];
  exclusive: boolean;
};
export type PathLock = {
  /**
   * Resolves when it may begin, and says whether it had to wait; `leave` lets the next ones in.
   * Rejects with the signal's reason when that is aborted before.
   */
  enter(stay: LockRequest, signal: AbortSignal): Promise<{ hasWaited: boolean; leave(): void }>;
};

type Entry = LockRequest & { begin: (() => void) | undefined };

export function makePathLock(): PathLock {
  /** Those who are in and those who wait, in the order they came. */
  const all: Entry[] = [];
  /** While it is 0, nobody excludes anybody. */
  let alone = 0;

  const letIn = (): void => {
    all.forEach((entry, at) => {
      if (entry.begin === undefined || all.slice(0, at).some((one) => excludes(one, entry))) return;
      const { begin } = entry;
      entry.begin = undefined;
      begin();
    });
  };
  const remove = (entry: Entry): void => {
    const at = all.indexOf(entry);
    if (at < 0) return;
    all.splice(at, 1);
    if (alone === 0) return;
    if (entry.exclusive) alone--;
    letIn();
  };

  return {
    async enter(stay, signal) {
      signal.throwIfAborted();
      const entry: Entry = { ...stay, begin: undefined };
      if (entry.exclusive) alone++;
      const hasWaited = alone > 0 && all.some((one) => excludes(one, entry));
      const turn = Promise.withResolvers<void>();
      if (hasWaited) entry.begin = turn.resolve;
      else turn.resolve();
      all.push(entry);
      const giveUp = (): void => {
        if (entry.begin === undefined) return;
        turn.reject(signal.reason);
        remove(entry);
      };
      signal.addEventListener('abort', giveUp, { once: true });
      await turn.promise.finally(() => signal.removeEventListener('abort', giveUp));
      return { hasWaited, leave: () => remove(entry) };
    },
  };
}

const excludes = (a: LockRequest, b: LockRequest): boolean =>
  (a.exclusive || b.exclusive) &&
  a.places.some((one) => b.places.some((other) => meet(one, other)));

const meet = (a: string, b: string): boolean =>
  a === b || a.startsWith(`${b}/`) || b.startsWith(`${a}/`);
