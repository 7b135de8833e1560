// The denials of one run: the most recent ones for whoever asks, and their events, of which a run
// that tries for ever makes only a few, a second at first and a minute later: the rest are counted.
import type { Clock, Timer } from '../../platform/clock.ts';
import { toTimestamp } from '../../platform/clock.ts';
import type { EgressDenial } from '../../wire/egressd.ts';
import { type EgressRefusal, refuse } from './rules/refusal.ts';

const KEPT_MAX = 64;
const QUIET_MS = { usual: 1_000, tired: 60_000 } as const;
/** After so many events nobody reads each of them. */
const TIRED_AFTER = 1_000;
/** Different ones in that time that still have an event each. */
const AT_ONCE_MAX = 20;

type DenialRecord = {
  refused: EgressRefusal;
  count: number;
  lastMs: number;
  saidMs: number;
  unsaid: number;
};

export type DenialText = (refused: EgressRefusal, repeats: number, callId?: string) => void;

export type Denials = {
  note(refused: EgressRefusal, callId?: string): void;
  list(): EgressDenial[];
  total(): number;
  /** Says what was only counted so far. */
  flush(): void;
};

export function makeDenials(options: { clock: Clock; say: DenialText }): Denials {
  const { clock } = options;
  /** In the order of the last time. */
  const kept = new Map<string, DenialRecord>();
  let total = 0;
  let windowMs = -Infinity;
  let inWindow = 0;
  let others = 0;
  let timer: Timer | undefined;
  let said = 0;
  const say: DenialText = (...what) => {
    said++;
    options.say(...what);
  };
  const quietMs = (): number => (said < TIRED_AFTER ? QUIET_MS.usual : QUIET_MS.tired);

  const mayStillSay = (nowMs: number): boolean => {
    if (nowMs - windowMs >= quietMs()) {
      windowMs = nowMs;
      inWindow = 0;
    }
    return inWindow++ < AT_ONCE_MAX;
  };

  const flush = (): void => {
    timer?.cancel();
    timer = undefined;
    const nowMs = clock.nowMs();
    for (const one of kept.values()) {
      if (one.unsaid === 0) continue;
      say(one.refused, one.unsaid - 1);
      one.unsaid = 0;
      one.saidMs = nowMs;
    }
    if (others === 0) return;
    const message = 'many different places were refused in a short time';
    say(refuse('host', { host: '(many)', port: 0 }, message), others - 1);
    others = 0;
  };

  const sayLater = (nowMs: number): void => {
    timer ??= clock.at(nowMs + quietMs(), flush);
  };

  const remember = (key: string, one: DenialRecord): void => {
    kept.delete(key);
    kept.set(key, one);
    if (kept.size <= KEPT_MAX) return;
    const [oldest, gone] = kept.entries().next().value!;
    kept.delete(oldest);
    others += gone.unsaid;
  };

  return {
    note(refused, callId) {
      const nowMs = clock.nowMs();
      total++;
      const { reason, host, port, method, path } = refused;
      const key = [reason, host, port, method, path].join(' ');
      const one = kept.get(key) ?? { refused, count: 0, lastMs: 0, saidMs: -Infinity, unsaid: 0 };
      one.count++;
      one.lastMs = nowMs;
      if (nowMs - one.saidMs >= quietMs() && one.unsaid === 0 && mayStillSay(nowMs)) {
        one.saidMs = nowMs;
        say(refused, 0, callId);
      } else {
        one.unsaid++;
        sayLater(nowMs);
      }
      remember(key, one);
    },
    list: () =>
      [...kept.values()]
        .reverse()
        .map(({ refused, count, lastMs }) => ({ ...refused, count, last_at: toTimestamp(lastMs) })),
    total: () => total,
    flush,
  };
}
