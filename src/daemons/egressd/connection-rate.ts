// How fast a run may open connections. Each is written down twice, so that opening ever new ones
// would fill the log: many at once are nothing, as many for days are.
import type { Clock } from '../../platform/clock.ts';

export type ConnectionRateLimit = {
  /** 0: one more may be opened, and is counted. Else how long to wait for that. */
  tryAcquire(): number;
};

const BURST = { most: 256, perSecond: 64 } as const;
const LONG = { most: 10_000, perSecond: 2 } as const;

export function makePace(clock: Pick<Clock, 'nowMs'>): ConnectionRateLimit {
  const all = [BURST, LONG].map((limit) => ({ ...limit, left: limit.most as number }));
  let atMs = clock.nowMs();
  return {
    tryAcquire() {
      const nowMs = clock.nowMs();
      const passedS = Math.max(0, nowMs - atMs) / 1_000;
      atMs = nowMs;
      for (const one of all) one.left = Math.min(one.most, one.left + passedS * one.perSecond);
      const waitsS = all.map(({ left, perSecond }) => (left < 1 ? (1 - left) / perSecond : 0));
      const waitMs = Math.ceil(Math.max(...waitsS) * 1_000);
      if (waitMs === 0) for (const one of all) one.left--;
      return waitMs;
    },
  };
}
