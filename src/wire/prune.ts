// The route by which agentd has a daemon remove what it keeps of a pruned task tree. Each request
// may be repeated: after a crash agentd sends it again.
import * as z from 'zod';
import { RunId, TaskId, Timestamp } from './primitives.ts';
import { type CallerKind, route } from './route.ts';

/** The largest number of ids of one kind in a request; larger trees are sent in parts. */
export const PRUNE_IDS_MAX = 500;

export const PruneBody = z.strictObject({
  root_task_id: TaskId,
  task_ids: z.array(TaskId).max(PRUNE_IDS_MAX),
  run_ids: z.array(RunId).max(PRUNE_IDS_MAX),
});
export type PruneBody = z.infer<typeof PruneBody>;

/** `left`: records that something live still needs; agentd asks again later. */
export const PruneAnswer = z.object({ rows: z.int(), bytes: z.int(), left: z.int() });
export type PruneAnswer = z.infer<typeof PruneAnswer>;

export const pruneRoute = (path: string, callers: readonly CallerKind[] = ['agentd']) =>
  route({ method: 'POST', path, callers, body: PruneBody, output: PruneAnswer });

/** Forgets that anything was pruned before this time: its ids are then `not_found`. */
export const expireRoute = (path: string, callers: readonly CallerKind[] = ['agentd']) =>
  route({
    method: 'POST',
    path,
    callers,
    body: z.strictObject({ before: Timestamp }),
    output: z.object({ expired: z.int() }),
  });
