// A fair lock on paths, shared or exclusive: requests are granted in order, so that later shared
// requests do not overtake an exclusive one.

export type LockRequest = {
  /** Paths conflict if they are equal or one is below the other. */
  paths: readonly string[];
  exclusive: boolean;
};
export type PathLock = {
  /**
   * Resolves when the lock is acquired; `leave` releases it. Rejects with the signal's reason if
   * aborted before.
   */
  acquire(
    request: LockRequest,
    signal: AbortSignal,
  ): Promise<{ hasWaited: boolean; release(): void }>;
};

type Entry = LockRequest & { begin: (() => void) | undefined };

export function makePathLock(): PathLock {
  /** Granted and waiting requests, in order. */
  const entries: Entry[] = [];
  /** The number of exclusive requests. While it is 0, no requests conflict. */
  let exclusives = 0;

  const grantNext = (): void => {
    entries.forEach((entry, at) => {
      if (entry.begin === undefined || entries.slice(0, at).some((e) => excludes(e, entry))) return;
      const { begin } = entry;
      entry.begin = undefined;
      begin();
    });
  };
  const remove = (entry: Entry): void => {
    const at = entries.indexOf(entry);
    if (at < 0) return;
    entries.splice(at, 1);
    if (exclusives === 0) return;
    if (entry.exclusive) exclusives--;
    grantNext();
  };

  return {
    async acquire(request, signal) {
      signal.throwIfAborted();
      const entry: Entry = { ...request, begin: undefined };
      if (entry.exclusive) exclusives++;
      const hasWaited = exclusives > 0 && entries.some((e) => excludes(e, entry));
      const turn = Promise.withResolvers<void>();
      if (hasWaited) entry.begin = turn.resolve;
      else turn.resolve();
      entries.push(entry);
      const cancel = (): void => {
        if (entry.begin === undefined) return;
        turn.reject(signal.reason);
        remove(entry);
      };
      signal.addEventListener('abort', cancel, { once: true });
      await turn.promise.finally(() => signal.removeEventListener('abort', cancel));
      return { hasWaited, release: () => remove(entry) };
    },
  };
}

const excludes = (a: LockRequest, b: LockRequest): boolean =>
  (a.exclusive || b.exclusive) &&
  a.paths.some((path) => b.paths.some((other) => overlaps(path, other)));

const overlaps = (a: string, b: string): boolean =>
  a === b || a.startsWith(`${b}/`) || b.startsWith(`${a}/`);
