// The files of task trees: what there is, how much, and their removal.
import * as z from 'zod';
import { TaskId, Timestamp } from '../primitives.ts';
import { route, routes } from '../route.ts';

/** Workspaces that an operator's directory serves are not among them. */
export const FileKind = z.enum(['workspaces', 'homes']);
export type FileKind = z.infer<typeof FileKind>;

export const treeFileRoutes = routes({
  /** Trees that have files of this kind, oldest first, after this one. */
  listTreeFiles: route({
    method: 'GET',
    path: '/v1/workspaces/files',
    callers: ['agentd'],
    query: z.strictObject({
      kind: FileKind,
      after: TaskId.optional(),
      limit: z.coerce.number().int().min(1).max(1_000),
    }),
    output: z.object({
      trees: z.array(
        z.object({
          root_task_id: TaskId,
          created_at: Timestamp,
          /** As last measured; 0 before that. */
          bytes: z.int(),
        }),
      ),
    }),
  }),
  /**
   * Removes the files of a tree whose tasks have all ended, and frees its group when nothing is
   * left. `left`: one of its boxes is still open.
   */
  pruneTreeFiles: route({
    method: 'DELETE',
    path: '/v1/workspaces/{id}/files',
    callers: ['agentd'],
    params: z.strictObject({ id: TaskId }),
    query: z.strictObject({ kind: FileKind }),
    output: z.object({ bytes: z.int(), entries: z.int(), left: z.int() }),
    streams: true,
  }),
  fileSizes: route({
    method: 'GET',
    path: '/v1/workspaces/sizes',
    callers: ['agentd'],
    output: z.object({
      sizes: z.array(
        z.object({ kind: FileKind, agent: z.string(), trees: z.int(), bytes: z.int() }),
      ),
    }),
  }),
});
