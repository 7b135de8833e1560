// Clocks, injected everywhere so that tests control time. The system clock never runs backwards
// within a process: when the wall clock is set back, time continues from where it was.

export type Timer = { cancel(): void };

export type Clock = {
  /** Milliseconds since 1970, never less than before. */
  nowMs(): number;
  /** Runs `fn` once, at or after `atMs`. Does not keep the process alive. */
  at(atMs: number, fn: () => void): Timer;
};

const TIMER_MS_MAX = 2 ** 31 - 1;

export function systemClock(): Clock {
  let last = 0;
  let lastMono = performance.now();
  const nowMs = (): number => {
    const mono = performance.now();
    const wall = Date.now();
    const minMs = last + Math.floor(mono - lastMono);
    if (wall >= last) {
      last = wall;
      lastMono = mono;
    } else {
      // Only whole milliseconds are consumed; the fraction counts next time.
      lastMono += minMs - last;
      last = minMs;
    }
    return last;
  };
  const at = (atMs: number, fn: () => void): Timer => {
    let handle: NodeJS.Timeout;
    const arm = (): void => {
      const ms = atMs - nowMs();
      if (ms <= 0) handle = setTimeout(fn, 0);
      else handle = setTimeout(ms > TIMER_MS_MAX ? arm : fire, Math.min(ms, TIMER_MS_MAX));
      handle.unref();
    };
    const fire = (): void => (nowMs() >= atMs ? fn() : arm());
    arm();
    return { cancel: () => clearTimeout(handle) };
  };
  return { nowMs, at };
}

/** A clock that moves only when advanced. */
export type ManualClock = Clock & { advance(ms: number): void };

export function manualClock(startMs: number): ManualClock {
  let now = startMs;
  const timers = new Set<{ atMs: number; fn: () => void }>();
  const due = () => [...timers].filter((t) => t.atMs <= now).sort((a, b) => a.atMs - b.atMs);
  return {
    nowMs: () => now,
    at(atMs, fn) {
      const timer = { atMs, fn };
      timers.add(timer);
      if (atMs <= now) queueMicrotask(() => timers.delete(timer) && fn());
      return { cancel: () => void timers.delete(timer) };
    },
    advance(ms) {
      now += ms;
      for (const timer of due()) if (timers.delete(timer)) timer.fn();
    },
  };
}

let lastStamp = { ms: Number.NaN, text: '' };

export function toTimestamp(ms: number): string {
  // Many timestamps fall within the same millisecond.
  if (lastStamp.ms !== ms) lastStamp = { ms, text: new Date(ms).toISOString() };
  return lastStamp.text;
}
