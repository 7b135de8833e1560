// The changes of a task tree whose workspace is a layer over a person's directory, and what people
// do with them: apply, discard, undo. Any task of the tree names it.
import * as z from 'zod';
import { ApprovalId, Label, Sha256, TaskId } from '../primitives.ts';
import { route, routes } from '../route.ts';
import { ApplyId, LayerChanges, LeftBranch, layerRoutes, MovedRef } from '../sandboxd/layers.ts';

export const ChangeCounts = z.object({
  added: z.int(),
  modified: z.int(),
  deleted: z.int(),
  replaced: z.int(),
  mode: z.int(),
});
export type ChangeCounts = z.infer<typeof ChangeCounts>;

export const TreeChanges = LayerChanges.extend({
  root_task_id: TaskId,
  /** The directory. */
  path: z.string(),
  /** The subtask whose layer of its own it is; absent: it is that of the tree. */
  layer_task_id: TaskId.optional(),
  /** The marks that the directory gets when anything is applied. */
  labels: z.array(Label),
  /**
   * Why changes of a kind are refused, for the kinds on this page; `left_out` ones do not stop an
   * apply, and `never` ones cannot be allowed.
   */
  refusals: z.record(
    z.string(),
    z.object({ reason: z.string(), handling: z.enum(['refused', 'left_out', 'never']) }),
  ),
});
export type TreeChanges = z.infer<typeof TreeChanges>;

export const ApplyView = z.object({
  apply_id: ApplyId,
  root_task_id: TaskId,
  path: z.string(),
  /** The subtask whose layer it was; then it was applied to the layer of its parent. */
  layer_task_id: TaskId.optional(),
  /** `waiting`: for the approval. It is applied as soon as a person approves it. */
  status: z.enum(['applied', 'waiting']),
  approval_id: ApprovalId.nullable(),
  change_sha256: Sha256,
  counts: ChangeCounts,
  /** The kinds that were allowed by name. */
  allowed: z.array(z.string()),
  applied: z.array(z.string()),
  /** The files among these that were merged with the person's text. */
  merged: z.array(z.string()),
  commits: z.array(MovedRef),
  /** Not brought over: the directory has no git repository. */
  commits_left: z.array(LeftBranch),
});
export type ApplyView = z.infer<typeof ApplyView>;

const taskParam = z.strictObject({ id: TaskId });
const { layerChanges, layerTexts, applyLayer, undoApply } = layerRoutes;
const { paths, allow, expect, overwrite } = applyLayer.body!.shape;

export const changeRoutes = routes({
  listChanges: route({
    method: 'GET',
    path: '/v1/tasks/{id}/changes',
    callers: ['operator'],
    params: taskParam,
    query: layerChanges.query!,
    output: TreeChanges,
    streams: true,
  }),
  /** Both sides of changed files, for a diff. */
  readChangeTexts: route({
    method: 'POST',
    role: 'reader',
    path: '/v1/tasks/{id}/changes/texts',
    callers: ['operator'],
    params: taskParam,
    body: layerTexts.body!,
    output: layerTexts.output,
    streams: true,
  }),
  /**
   * Writes changes into the directory: all, or those at and below `paths`. Nothing is applied when
   * one of them is refused (`denied`, `details.refused`) or conflicts (`conflict`,
   * `details.conflicts`; not with `overwrite`, which needs `paths`), or when policy denies it.
   */
  applyChanges: route({
    method: 'POST',
    path: '/v1/tasks/{id}/apply',
    callers: ['operator'],
    params: taskParam,
    body: z.strictObject({ paths, allow: allow.optional(), expect, overwrite }),
    output: z.object({ apply: ApplyView }),
    creates: true,
    streams: true,
    bodySizeBytesMax: 10_000_000,
  }),
  /** Drops what was not applied. */
  discardChanges: route({
    method: 'POST',
    path: '/v1/tasks/{id}/discard',
    callers: ['operator'],
    params: taskParam,
    body: z.strictObject({}),
    output: z.object({ discard: z.object({ root_task_id: TaskId, discarded: z.int() }) }),
    streams: true,
  }),
  /** Restores what an apply has overwritten: the last one, unless another is named. */
  undoChanges: route({
    method: 'POST',
    path: '/v1/tasks/{id}/undo',
    callers: ['operator'],
    params: taskParam,
    body: undoApply.body!,
    output: z.object({
      undo: z.object({ root_task_id: TaskId, ...undoApply.output.shape }),
    }),
    streams: true,
  }),
});
