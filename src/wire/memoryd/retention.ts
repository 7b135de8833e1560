// The routes by which agentd prunes episodes, and asks what memories take.
import * as z from 'zod';
import { Label, Principal, TaskId, Timestamp } from '../primitives.ts';
import { route } from '../route.ts';
import { MemoryId } from './records.ts';

/** A memory that a task left by rule, and that no person has edited since. */
export const KeptEpisode = z.object({
  id: MemoryId,
  scope: z.string(),
  root_task_id: TaskId,
  labels: z.array(Label),
  recorded_at: Timestamp,
  /** Includes its rows, about. */
  bytes: z.int(),
});
export type KeptEpisode = z.infer<typeof KeptEpisode>;

export const retentionRoutesOfMemory = {
  /** The oldest first. */
  listEpisodes: route({
    method: 'GET',
    path: '/v1/memory/episodes',
    callers: ['agentd'],
    query: z.strictObject({
      recorded_before: Timestamp,
      after: MemoryId.optional(),
      until: MemoryId.optional(),
      scope: z.string().max(200).optional(),
      root_task_id: TaskId.optional(),
      limit: z.coerce.number().int().min(1).max(100),
    }),
    output: z.object({ episodes: z.array(KeptEpisode) }),
  }),
  /** The scopes with more episodes than this, and the newest of those that are too many. */
  listFullScopes: route({
    method: 'GET',
    path: '/v1/memory/full-scopes',
    callers: ['agentd'],
    query: z.strictObject({ episodes_max: z.coerce.number().int().min(1) }),
    output: z.object({ scopes: z.array(z.object({ scope: z.string(), until: MemoryId })) }),
  }),
  /** Those that are no episodes, or are pruned already, stay as they are. */
  pruneEpisodes: route({
    method: 'POST',
    path: '/v1/memory/episodes/prune',
    callers: ['agentd'],
    body: z.strictObject({
      ids: z.array(MemoryId).min(1).max(100),
      by: Principal,
      cause: z.string().min(1).max(500),
    }),
    output: z.object({ pruned: z.int(), bytes: z.int() }),
  }),
  /** Takes what is pruned out of the journal, one day at a time. */
  compactMemory: route({
    method: 'POST',
    path: '/v1/memory/compact',
    callers: ['agentd'],
    output: z.object({ compacted: z.boolean() }),
    streams: true,
  }),
  memorySizes: route({
    method: 'GET',
    path: '/v1/memory/sizes',
    callers: ['agentd'],
    output: z.object({
      scopes: z.array(
        z.object({
          scope: z.string(),
          memories: z.int(),
          bytes: z.int(),
          /** Texts that are objects. */
          object_bytes: z.int(),
          episodes: z.int(),
          episode_bytes: z.int(),
        }),
      ),
    }),
  }),
};
