// Directories that agents change in place: what was removed from them because git would run or
// follow it for the person who owns the directory.
import * as z from 'zod';
import { Sha256, TaskId, Timestamp } from '../primitives.ts';
import { route, routes } from '../route.ts';

export const DisarmedFile = z.object({
  id: z.string(),
  task_id: TaskId,
  agent: z.string(),
  /** In the directory. */
  path: z.string(),
  /** As an apply would name it. */
  kind: z.string(),
  sha256: Sha256.nullable(),
  mode: z.int(),
  /** A link has this instead of content. */
  link_target: z.string().nullable(),
  /** The file of the state directory with the content; null: a link, or too large to keep. */
  kept_at: z.string().nullable(),
  disarmed_at: Timestamp,
});
export type DisarmedFile = z.infer<typeof DisarmedFile>;

export const liveRoutes = routes({
  /** Newest first. */
  listDisarmed: route({
    method: 'GET',
    path: '/v1/sandboxes/disarmed',
    callers: ['operator'],
    query: z.strictObject({
      root_task_id: TaskId,
      limit: z.coerce.number().int().min(1).max(1_000).default(100),
    }),
    output: z.object({ disarmed: z.array(DisarmedFile) }),
  }),
});
