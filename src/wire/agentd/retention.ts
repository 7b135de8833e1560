// Retention: what was pruned, what was kept and why, holds, and how much each kind of data takes.
import * as z from 'zod';
import { Principal, TaskId, Timestamp } from '../primitives.ts';
import { route, routes } from '../route.ts';
import { TaskView } from './tasks.ts';

/** The kinds of data that have a retention of their own, in the order in which they are shown. */
export const RETENTION_KINDS = [
  'tasks',
  'artifacts',
  'workspaces',
  'homes',
  'model_contexts',
  'memories',
] as const;
export const RetentionKind = z.enum(RETENTION_KINDS);
export type RetentionKind = z.infer<typeof RetentionKind>;

/**
 * `live`, `used`: a task that has not ended is or needs it. `held`: a person holds it. `policy`: a
 * rule forbids it. `needs_approval`: a rule asks for a person. `unapplied`: nobody has applied or
 * discarded its changes of a directory. `failed`: it is tried again.
 */
export const KeptReason = z.enum([
  'live',
  'recent',
  'used',
  'held',
  'unapplied',
  'policy',
  'needs_approval',
  'failed',
]);
export type KeptReason = z.infer<typeof KeptReason>;

/** Up to this many examples for each reason. */
export const KEPT_EXAMPLES_MAX = 20;

export const KeptItems = z.object({
  reason: KeptReason,
  count: z.int(),
  examples: z.array(z.object({ id: z.string(), detail: z.string(), rules: z.array(z.string()) })),
});
export type KeptItems = z.infer<typeof KeptItems>;

export const PruneKindReport = z.object({
  kind: RetentionKind,
  /** With `dry_run`: what would be pruned. */
  pruned: z.int(),
  /** Estimated for tasks. */
  bytes: z.int(),
  kept: z.array(KeptItems),
});
export type PruneKindReport = z.infer<typeof PruneKindReport>;

export const PruneReport = z.object({
  by: Principal,
  dry_run: z.boolean(),
  status: z.enum(['running', 'completed', 'canceled']),
  started_at: Timestamp,
  ended_at: Timestamp.nullable(),
  kinds: z.array(PruneKindReport),
  /** Pruned trees of which another daemon still has data; it is removed with the next pass. */
  open: z.int(),
});
export type PruneReport = z.infer<typeof PruneReport>;

export const StartPrune = z.strictObject({
  /** Only what belongs to these task trees; without `older_than_s`, whatever its age. */
  root_task_ids: z.array(TaskId).min(1).max(100).optional(),
  /** Instead of the ages and sizes of the configuration. */
  older_than_s: z.int().min(0).max(3_153_600_000).optional(),
  kinds: z.array(RetentionKind).max(RETENTION_KINDS.length).optional(),
  dry_run: z.boolean().optional(),
  /** Also prunes what a rule with @ask asks a person about: the caller is that person. */
  approve: z.boolean().optional(),
});
export type StartPrune = z.infer<typeof StartPrune>;

export const TombstoneView = z.object({
  id: z.string(),
  kind: RetentionKind,
  root_task_id: TaskId.nullable(),
  pruned_at: Timestamp,
  cause: z.string(),
});

export const retentionRoutes = routes({
  /** Starts pruning and returns at once; `getPrune` shows the progress. */
  startPrune: route({
    method: 'POST',
    path: '/v1/prune',
    callers: ['operator'],
    body: StartPrune,
    output: z.object({ prune: PruneReport }),
  }),
  getPrune: route({
    method: 'GET',
    path: '/v1/prune',
    callers: ['operator'],
    query: z.strictObject({
      /** The pass that started then; without it, the one that started last. */
      started_at: Timestamp.optional(),
    }),
    output: z.object({
      /** Null if this process does not know it. */
      prune: PruneReport.nullable(),
      next_at: Timestamp.nullable(),
      /** Backups that are being made; nothing is removed until they end. */
      backups: z.array(z.string()),
    }),
  }),
  /** Holds the task's whole tree, or releases it. */
  keepTask: route({
    method: 'PUT',
    path: '/v1/tasks/{id}/kept',
    callers: ['operator'],
    params: z.strictObject({ id: TaskId }),
    body: z.strictObject({ kept: z.boolean(), reason: z.string().max(1_000).optional() }),
    output: z.object({ task: TaskView }),
  }),
  /** For any id of agentd: a task, run, wait, message or artifact that was pruned. */
  getTombstone: route({
    method: 'GET',
    path: '/v1/tombstones/{id}',
    callers: ['operator'],
    params: z.strictObject({ id: z.string().regex(/^[a-z]+_[0-9a-z]{26}$/) }),
    output: z.object({ tombstone: TombstoneView }),
  }),
});
