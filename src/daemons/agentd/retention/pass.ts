// One pass over one kind of data: walks items from the oldest, asks policy, prunes what may go, and
// reports the rest with its reason.
import type { RetentionRule } from '../../../platform/retention-config.ts';
import type { KeptReason, RetentionKind } from '../../../wire/agentd/retention.ts';
import type { DataItem, DataPolicy } from './may-delete.ts';
import { CanceledPassError, type Pace } from './pace.ts';
import type { PassReport } from './report.ts';
import { AGE_MS_MIN, computeLimits } from './rules.ts';

export type Pass = {
  nowMs: number;
  by: string;
  isDryRun: boolean;
  /** Prunes also what a rule asks a person about. */
  isApproved: boolean;
  olderThanMs: number | undefined;
  /** Only what belongs to these trees; undefined: everything. */
  only: ReadonlySet<string> | undefined;
  report: PassReport;
  pace: Pace;
};

/** An item of one kind; `policy` reads what rules need, only if it may go. */
export type Candidate = {
  id: string;
  endedMs: number;
  policy: () => Promise<DataItem>;
  /** Its size, where that is known beforehand. */
  bytes?: number;
  rootTaskId?: string;
  /** Only a tombstone is left of its tree. */
  isPruned?: boolean;
};
export type PruneOrder = {
  /** All of it must have ended before. */
  endedBeforeMs: number;
  cause: string;
  rules: readonly string[];
};
export type PruneOutcome =
  | { bytes: number }
  | { kept: { reason: KeptReason; detail: string } }
  /** It is neither pruned nor kept: it belongs to what is not old enough. */
  | 'skipped';

export type KindPruner = {
  kind: RetentionKind;
  rule: RetentionRule;
  /** How much there is now; asked only where a size is set. */
  sizeBytes(): Promise<number>;
  /** Candidates that ended before, oldest first. Pages are read as they are needed. */
  candidates(
    endedBeforeMs: number,
    only: ReadonlySet<string> | undefined,
  ): AsyncIterable<Candidate>;
  /** Candidates that are too many, whatever their age; before the others. */
  excess?(recordedBeforeMs: number): AsyncIterable<{ candidate: Candidate; cause: string }>;
  prune(candidate: Candidate, order: PruneOrder, pass: Pass): Promise<PruneOutcome>;
};

export async function prunePass(pruner: KindPruner, pass: Pass, policy: DataPolicy): Promise<void> {
  const { kind, rule } = pruner;
  const { nowMs, by, olderThanMs, report, pace } = pass;
  const request = olderThanMs === undefined ? undefined : { olderThanMs, by };
  const limits = computeLimits({ kind, rule, nowMs, request });
  let excessBytes =
    limits.sizeMax === undefined ? 0 : Math.max(0, (await pruner.sizeBytes()) - limits.sizeMax);
  const hasRetainRules = await policy.limitsRetaining();
  const looksAtAll = excessBytes > 0 || hasRetainRules;
  const latestMs = nowMs - AGE_MS_MIN;
  const endedBeforeMs = looksAtAll
    ? Math.max(latestMs, limits.endedBeforeMs ?? 0)
    : limits.endedBeforeMs;
  const isTooOld = ({ endedMs }: Candidate): boolean =>
    limits.endedBeforeMs !== undefined && endedMs < limits.endedBeforeMs;
  /** Once enough was pruned by size, the rest needs no step. */
  const mayBeDue = (candidate: Candidate): boolean =>
    isTooOld(candidate) || excessBytes > 0 || hasRetainRules;

  /** Resolves to undefined when the item is not due. */
  const findCause = async (candidate: Candidate): Promise<PruneOrder | undefined> => {
    if (isTooOld(candidate))
      return { endedBeforeMs: limits.endedBeforeMs!, cause: limits.ageCause, rules: [] };
    if (excessBytes > 0) return { endedBeforeMs: latestMs, cause: limits.sizeCause, rules: [] };
    const retain = await policy.mayRetain(by, await candidate.policy());
    if (retain.answer !== 'deny') return undefined;
    const cause = `${retain.reason} (${retain.rules.join(', ')})`;
    return { endedBeforeMs: latestMs, cause, rules: retain.rules };
  };

  const pruneOne = async (candidate: Candidate, due: PruneOrder | undefined): Promise<void> => {
    const { id } = candidate;
    if (due === undefined) return;
    const decision = await policy.mayDelete(by, await candidate.policy());
    const { rules, reason: detail } = decision;
    if (decision.answer === 'deny')
      return report.addKept(kind, { id, reason: 'policy', detail, rules });
    if (decision.answer === 'ask' && !pass.isApproved)
      return report.addKept(kind, { id, reason: 'needs_approval', detail, rules });
    const order = { ...due, rules: [...due.rules, ...rules] };
    const outcome = await pruner.prune(candidate, order, pass);
    if (outcome === 'skipped') return;
    if ('kept' in outcome) return report.addKept(kind, { id, ...outcome.kept });
    report.addPruned(kind, outcome.bytes);
    excessBytes -= outcome.bytes;
  };

  const step = (candidate: Candidate, find: () => Promise<PruneOrder | undefined>) =>
    pace.step(async () => {
      try {
        await pruneOne(candidate, await find());
      } catch (error) {
        if (error instanceof CanceledPassError) throw error;
        const detail = (error as Error).message;
        report.addKept(kind, { id: candidate.id, reason: 'failed', detail });
      }
    });

  const seen = new Set<string>();
  if (request === undefined && pass.only === undefined && pruner.excess !== undefined)
    for await (const { candidate, cause } of pruner.excess(latestMs)) {
      seen.add(candidate.id);
      await step(candidate, async () => ({ endedBeforeMs: latestMs, cause, rules: [] }));
    }
  if (endedBeforeMs === undefined) return;
  for await (const candidate of pruner.candidates(endedBeforeMs, pass.only))
    if (mayBeDue(candidate) && !seen.has(candidate.id))
      await step(candidate, () => findCause(candidate));
}
