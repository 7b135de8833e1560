// Collects what a pass pruned and kept, by kind.
import { type Clock, toTimestamp } from '../../../platform/clock.ts';
import {
  KEPT_EXAMPLES_MAX,
  type KeptItems,
  type KeptReason,
  type PruneKindReport,
  type PruneReport,
  type RetentionKind,
} from '../../../wire/agentd/retention.ts';

export type KeptItem = {
  id: string;
  reason: KeptReason;
  detail: string;
  rules?: readonly string[];
};

export type KindDenial = { kind: RetentionKind; count: number; rules: string[] };

export type PassReport = {
  addPruned(kind: RetentionKind, bytes: number, count?: number): void;
  addBytes(kind: RetentionKind, bytes: number): void;
  addKept(kind: RetentionKind, item: KeptItem): void;
  /** Counts by kind what rules kept, and lists those rules. */
  denials(): KindDenial[];
  end(status: 'completed' | 'canceled', open: number): void;
  view(): PruneReport;
};

export function makePassReport(options: {
  by: string;
  dryRun: boolean;
  kinds: readonly RetentionKind[];
  clock: Clock;
}): PassReport {
  const { by, dryRun, clock } = options;
  const startedAt = toTimestamp(clock.nowMs());
  let ended: { status: 'completed' | 'canceled'; at: string; open: number } | undefined;
  const kinds = new Map<RetentionKind, PruneKindReport>(
    options.kinds.map((kind) => [kind, { kind, pruned: 0, bytes: 0, kept: [] }]),
  );
  const denied = new Map<RetentionKind, { count: number; rules: Set<string> }>();
  return {
    addPruned(kind, bytes, count = 1) {
      const found = kinds.get(kind)!;
      found.pruned += count;
      found.bytes += bytes;
    },
    addBytes(kind, bytes) {
      const found = kinds.get(kind);
      if (found !== undefined) found.bytes += bytes;
    },
    addKept(kind, { id, reason, detail, rules = [] }) {
      const { kept } = kinds.get(kind)!;
      if (reason === 'policy') {
        const denial = denied.get(kind) ?? { count: 0, rules: new Set() };
        denial.count++;
        for (const rule of rules) denial.rules.add(rule);
        denied.set(kind, denial);
      }
      const known = kept.find((other) => other.reason === reason);
      const items: KeptItems = known ?? { reason, count: 0, examples: [] };
      if (known === undefined) kept.push(items);
      items.count++;
      if (items.examples.length < KEPT_EXAMPLES_MAX)
        items.examples.push({ id, detail, rules: [...rules] });
    },
    denials: () =>
      [...denied].map(([kind, { count, rules }]) => ({ kind, count, rules: [...rules].sort() })),
    end(status, open) {
      ended ??= { status, at: toTimestamp(clock.nowMs()), open };
    },
    view: () => ({
      by,
      dry_run: dryRun,
      status: ended?.status ?? 'running',
      started_at: startedAt,
      ended_at: ended?.at ?? null,
      kinds: [...kinds.values()].map((kind) => structuredClone(kind)),
      open: ended?.open ?? 0,
    }),
  };
}
