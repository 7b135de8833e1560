// Keeps a run's recent denials and rate-limits their audit events: a few per second at first, later
// a few per minute; further ones are only counted.
import type { Clock, Timer } from '../../platform/clock.ts';
import { toTimestamp } from '../../platform/clock.ts';
import type { EgressDenial } from '../../wire/egressd.ts';
import { type EgressRefusal, makeRefusal } from './rules/refusal.ts';

const RECORDS_MAX = 64;
const WINDOW_MS = { initial: 1_000, reduced: 60_000 } as const;
/** After this many events of a run, the longer window applies. */
const REDUCE_AFTER_EVENTS = 1_000;
/** Different denials in one window that still get an event each. */
const EVENTS_PER_WINDOW_MAX = 20;

type DenialRecord = {
  refusal: EgressRefusal;
  count: number;
  lastMs: number;
  reportedMs: number;
  unreported: number;
};

export type ReportDenial = (refusal: EgressRefusal, repeats: number, callId?: string) => void;

export type Denials = {
  record(refusal: EgressRefusal, callId?: string): void;
  list(): EgressDenial[];
  total(): number;
  /** Reports denials that were only counted so far. */
  flush(): void;
};

export function makeDenials(options: { clock: Clock; report: ReportDenial }): Denials {
  const { clock } = options;
  /** Ordered by last occurrence. */
  const records = new Map<string, DenialRecord>();
  let total = 0;
  let windowMs = -Infinity;
  let inWindow = 0;
  let dropped = 0;
  let timer: Timer | undefined;
  let reportedCount = 0;
  const report: ReportDenial = (...what) => {
    reportedCount++;
    options.report(...what);
  };
  const currentWindowMs = (): number =>
    reportedCount < REDUCE_AFTER_EVENTS ? WINDOW_MS.initial : WINDOW_MS.reduced;

  const fitsInWindow = (nowMs: number): boolean => {
    if (nowMs - windowMs >= currentWindowMs()) {
      windowMs = nowMs;
      inWindow = 0;
    }
    return inWindow++ < EVENTS_PER_WINDOW_MAX;
  };

  const flush = (): void => {
    timer?.cancel();
    timer = undefined;
    const nowMs = clock.nowMs();
    for (const denial of records.values()) {
      if (denial.unreported === 0) continue;
      report(denial.refusal, denial.unreported - 1);
      denial.unreported = 0;
      denial.reportedMs = nowMs;
    }
    if (dropped === 0) return;
    const message = 'many different hosts were denied in a short time';
    report(makeRefusal('host', { host: '(many)', port: 0 }, message), dropped - 1);
    dropped = 0;
  };

  const scheduleFlush = (nowMs: number): void => {
    timer ??= clock.at(nowMs + currentWindowMs(), flush);
  };

  const touch = (key: string, denial: DenialRecord): void => {
    records.delete(key);
    records.set(key, denial);
    if (records.size <= RECORDS_MAX) return;
    const [oldest, evicted] = records.entries().next().value!;
    records.delete(oldest);
    dropped += evicted.unreported;
  };

  return {
    record(refusal, callId) {
      const nowMs = clock.nowMs();
      total++;
      const { reason, host, port, method, path } = refusal;
      const key = [reason, host, port, method, path].join(' ');
      const denial = records.get(key) ?? {
        refusal,
        count: 0,
        lastMs: 0,
        reportedMs: -Infinity,
        unreported: 0,
      };
      denial.count++;
      denial.lastMs = nowMs;
      if (
        nowMs - denial.reportedMs >= currentWindowMs() &&
        denial.unreported === 0 &&
        fitsInWindow(nowMs)
      ) {
        denial.reportedMs = nowMs;
        report(refusal, 0, callId);
      } else {
        denial.unreported++;
        scheduleFlush(nowMs);
      }
      touch(key, denial);
    },
    list: () =>
      [...records.values()]
        .reverse()
        .map(({ refusal, count, lastMs }) => ({ ...refusal, count, last_at: toTimestamp(lastMs) })),
    total: () => total,
    flush,
  };
}
