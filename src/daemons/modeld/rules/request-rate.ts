// Limits requests per minute: up to a minute's worth at once, then evenly. Kept in memory only.
const MINUTE_MS = 60_000;

export class RequestRate {
  /** When the requests so far would have been spread evenly, per name. */
  readonly #filledUntilMs = new Map<string, number>();

  /** Counts a request and returns 0, or returns after how many ms to try again. */
  admit(name: string, perMinute: number, nowMs: number): number {
    const intervalMs = MINUTE_MS / perMinute;
    const filledUntilMs = Math.max(nowMs, this.#filledUntilMs.get(name) ?? 0);
    // As when the clock was set back: nobody waits longer than the limit can make them.
    const waitMs = Math.min(filledUntilMs + intervalMs - nowMs - MINUTE_MS, MINUTE_MS);
    if (waitMs > 0) return Math.ceil(waitMs);
    this.#filledUntilMs.set(name, filledUntilMs + intervalMs);
    return 0;
  }
}
