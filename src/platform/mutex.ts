// One thing at a time, or a few: work waits for what was asked before it, however that ended.

export type WithLock = <T>(key: string, work: () => Promise<T>) => Promise<T>;

/** Work for the same key never overlaps, and is done in the order it was asked for. */
export function makeKeyedMutex(): WithLock {
  const last = new Map<string, Promise<unknown>>();
  return (key, work) => {
    // Whoever asked for the one before hears how it ended; this one only waits for it.
    const next = (last.get(key) ?? Promise.resolve()).then(work, work);
    last.set(key, next);
    const done = () => last.get(key) === next && last.delete(key);
    next.then(done, done);
    return next;
  };
}

/** The same for work that is all of one kind. */
export function makeMutex(): <T>(work: () => Promise<T>) => Promise<T> {
  const inTurn = makeKeyedMutex();
  return (work) => inTurn('', work);
}

/** So many at once; the others wait in the order they came. */
export function makeSemaphore(most: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let free = most;
  return async (work) => {
    if (free > 0) free--;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) free++;
      else next();
    }
  };
}
