// Limits how fast a run may open connections. Each adds two events to the log, so the sustained
// rate is low, while bursts are allowed.
import type { Clock } from '../../platform/clock.ts';

export type ConnectionRateLimit = {
  /** Returns 0 and counts the connection, or the milliseconds to wait before the next one. */
  tryAcquire(): number;
};

const BURST = { max: 256, perSecond: 64 } as const;
const SUSTAINED = { max: 10_000, perSecond: 2 } as const;

export function makeConnectionRateLimit(clock: Pick<Clock, 'nowMs'>): ConnectionRateLimit {
  const buckets = [BURST, SUSTAINED].map((limit) => ({ ...limit, tokens: limit.max as number }));
  let atMs = clock.nowMs();
  return {
    tryAcquire() {
      const nowMs = clock.nowMs();
      const passedS = Math.max(0, nowMs - atMs) / 1_000;
      atMs = nowMs;
      for (const bucket of buckets)
        bucket.tokens = Math.min(bucket.max, bucket.tokens + passedS * bucket.perSecond);
      const waitsS = buckets.map(({ tokens, perSecond }) =>
        tokens < 1 ? (1 - tokens) / perSecond : 0,
      );
      const waitMs = Math.ceil(Math.max(...waitsS) * 1_000);
      if (waitMs === 0) for (const bucket of buckets) bucket.tokens--;
      return waitMs;
    },
  };
}
