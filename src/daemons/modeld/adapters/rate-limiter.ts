// Limits the calls to one provider: concurrency, and calls and tokens per minute. Further calls
// wait in a bounded first-in, first-out queue, and can be aborted there.
import type { Clock, Timer } from '../../../platform/clock.ts';
import { Fault, fault } from '../../../wire/errors.ts';

export type RateLimits = {
  inFlightMax: number;
  requestsPerMinute?: number | undefined;
  tokensPerMinute?: number | undefined;
  queueMax: number;
};

export type Admission = {
  /** Ends the call. The actual tokens replace the estimate. */
  release(tokensUsed?: number): void;
};

type AcquireOptions = { tokens: number; signal?: AbortSignal | undefined };

export type RateLimiter = {
  acquire(who: AcquireOptions): Promise<Admission>;
  inFlight(): number;
  queued(): number;
};

const MINUTE_MS = 60_000;

/** Refills evenly and holds one minute's worth. May go below zero, and then refills first. */
type Bucket = { level: number; perMinute: number; atMs: number };

const makeBucket = (perMinute: number | undefined, nowMs: number): Bucket | undefined =>
  perMinute === undefined ? undefined : { level: perMinute, perMinute, atMs: nowMs };

function refill(bucket: Bucket, nowMs: number): void {
  const gained = ((nowMs - bucket.atMs) * bucket.perMinute) / MINUTE_MS;
  bucket.level = Math.min(bucket.perMinute, bucket.level + gained);
  bucket.atMs = nowMs;
}

/** Returns the time until the bucket holds `amount`. A larger amount passes a full bucket. */
function refillMs(bucket: Bucket | undefined, amount: number, nowMs: number): number {
  if (bucket === undefined) return 0;
  refill(bucket, nowMs);
  const missing = Math.min(amount, bucket.perMinute) - bucket.level;
  return missing <= 0 ? 0 : Math.ceil((missing * MINUTE_MS) / bucket.perMinute);
}

type Waiter = { tokens: number; admit(): void };

export function makeRateLimiter(provider: string, clock: Clock, limits: RateLimits): RateLimiter {
  const requests = makeBucket(limits.requestsPerMinute, clock.nowMs());
  const tokens = makeBucket(limits.tokensPerMinute, clock.nowMs());
  const queue = new Set<Waiter>();
  let inFlight = 0;
  let timer: Timer | undefined;

  /** Returns 0 when a call may start; Infinity when another call has to end first. */
  const delayMs = (amount: number): number => {
    if (inFlight >= limits.inFlightMax) return Number.POSITIVE_INFINITY;
    const nowMs = clock.nowMs();
    return Math.max(refillMs(requests, 1, nowMs), refillMs(tokens, amount, nowMs));
  };

  const makeAdmission = (amount: number): Admission => {
    inFlight++;
    if (requests !== undefined) requests.level -= 1;
    if (tokens !== undefined) tokens.level -= amount;
    let isOver = false;
    return {
      release(tokensUsed) {
        if (isOver) return;
        isOver = true;
        inFlight--;
        if (tokens !== undefined && tokensUsed !== undefined) tokens.level += amount - tokensUsed;
        admitNext();
      },
    };
  };

  const admitNext = (): void => {
    timer?.cancel();
    timer = undefined;
    for (const waiter of queue) {
      const ms = delayMs(waiter.tokens);
      if (ms === 0) {
        queue.delete(waiter);
        waiter.admit();
        continue;
      }
      // The first in the queue blocks the rest: small calls must not starve a large one.
      if (ms !== Number.POSITIVE_INFINITY) timer = clock.at(clock.nowMs() + ms, admitNext);
      return;
    }
  };

  const wait = (amount: number, signal: AbortSignal | undefined): Promise<Admission> =>
    new Promise((resolve, reject) => {
      const onAbort = (): void => {
        queue.delete(waiter);
        reject(canceledFault(provider, signal));
        admitNext();
      };
      const waiter: Waiter = {
        tokens: amount,
        admit() {
          signal?.removeEventListener('abort', onAbort);
          resolve(makeAdmission(amount));
        },
      };
      queue.add(waiter);
      signal?.addEventListener('abort', onAbort, { once: true });
      if (queue.size === 1) admitNext();
    });

  return {
    async acquire({ tokens: amount, signal }) {
      if (signal?.aborted === true) throw canceledFault(provider, signal);
      if (queue.size === 0 && delayMs(amount) === 0) return makeAdmission(amount);
      if (queue.size >= limits.queueMax) {
        throw fault('overloaded', `${queue.size} calls already wait for provider ${provider}`, {
          retryAfterMs: 1_000,
          details: { provider },
        });
      }
      return wait(amount, signal);
    },
    inFlight: () => inFlight,
    queued: () => queue.size,
  };
}

function canceledFault(provider: string, signal: AbortSignal | undefined): Fault {
  const reason: unknown = signal?.reason;
  if (reason instanceof Fault) return reason;
  return reason instanceof Error && reason.name === 'TimeoutError'
    ? fault('deadline', `the queue for provider ${provider} did not move in time`)
    : fault('canceled', `the call was canceled while it waited for provider ${provider}`);
}
