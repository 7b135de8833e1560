// Mutexes and a semaphore: work waits for earlier work, whether that succeeds or fails.

export type WithLock = <T>(key: string, work: () => Promise<T>) => Promise<T>;

/** Work for the same key never overlaps, and runs in the order of the calls. */
export function makeKeyedMutex(): WithLock {
  const last = new Map<string, Promise<unknown>>();
  return (key, work) => {
    const next = (last.get(key) ?? Promise.resolve()).then(work, work);
    last.set(key, next);
    const done = () => last.get(key) === next && last.delete(key);
    next.then(done, done);
    return next;
  };
}

export type Mutex = <T>(work: () => Promise<T>) => Promise<T>;

export function makeMutex(): Mutex {
  const withLock = makeKeyedMutex();
  return (work) => withLock('', work);
}

/** Up to this many at once; the others wait in the order of the calls. */
export function makeSemaphore(max: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let free = max;
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
