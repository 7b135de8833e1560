// The layers of task trees: what agents changed in a person's directory, before a person applies
// it. Ids are those of root tasks, and of subtasks with a layer of their own, whose changes are
// applied to the layer of their parent; paths are relative to the directory.
import * as z from 'zod';
import { Sha256, TaskId, Timestamp } from '../primitives.ts';
import { route, routes } from '../route.ts';

/** `layer`: agents write beside the directory. `live`: they write in it. */
export const WorkspaceMode = z.enum(['layer', 'live']);
export type WorkspaceMode = z.infer<typeof WorkspaceMode>;

/** A path in the directory, without `.`, `..` and empty parts. */
const LayerPath = z
  .string()
  .max(4_095)
  .regex(
    /^(?!\.{1,2}(\/|$))[^/\0]+(\/(?!\.{1,2}(\/|$))[^/\0]+)*$/,
    'must be a plain relative path',
  );

/** Names one apply. The caller makes it, so that a repeated request is recognized. */
export const ApplyId = z.string().regex(/^[a-z0-9_-]{1,64}$/, 'must be a short lowercase id');
export type ApplyId = z.infer<typeof ApplyId>;

const Side = z.object({
  type: z.enum(['file', 'directory', 'link', 'other']),
  /** The permission bits. */
  mode: z.int(),
  size_bytes: z.int(),
  /** The hash of a file, unless it is too large. */
  sha256: Sha256.nullable(),
  link_target: z.string().nullable(),
});
export type LayerSide = z.infer<typeof Side>;

/**
 * The state of a changed path in the directory, where a person has changed it too since the layer
 * was opened. `changed`: it cannot be merged, because what both began from was not kept.
 * `overlaps`: both have changed the same lines. `appeared`: at a path that the agent made. `moved`:
 * another directory has come in place of one above it.
 */
export const LayerConflict = z.enum(['changed', 'overlaps', 'removed', 'appeared', 'moved']);
export type LayerConflict = z.infer<typeof LayerConflict>;

export const LayerChangeView = z.object({
  path: z.string(),
  /** `replaced`: by another type of file. `mode`: only its permissions differ. */
  kind: z.enum(['added', 'modified', 'deleted', 'replaced', 'mode']),
  /** Null: it did not exist. */
  before: Side.nullable(),
  /** Null: it does not exist any more. */
  after: Side.nullable(),
  /** Kinds that are applied only when they are allowed by name. */
  refused: z.array(z.string()),
  conflict: LayerConflict.nullable(),
  /** `after` has the person's lines and the agents', which were changed in different places. */
  merged: z.boolean(),
});
export type LayerChangeView = z.infer<typeof LayerChangeView>;

export const MovedRef = z.object({
  ref: z.string(),
  /** Null: it is new. */
  from: z.string().nullable(),
  to: z.string(),
  /** The commits that it has got. */
  count: z.int(),
});

/** A branch of a repository that agents have made themselves, where the directory has none. */
export const LeftBranch = z.object({ ref: z.string(), count: z.int() });

export const LayerApply = z.object({ apply_id: ApplyId, at: Timestamp, undone: z.boolean() });
export type LayerApply = z.infer<typeof LayerApply>;

export const LayerChanges = z.object({
  /** Null: no box of the tree has opened one, so nothing was changed. */
  layer: z
    .object({
      path: z.string(),
      /** Agents work on a copy: no overlay can be mounted there. */
      is_copy: z.boolean(),
      opened_at: Timestamp,
      /** Newest first. */
      applied: z.array(LayerApply),
    })
    .nullable(),
  /** Sorted by path; what is in a directory comes directly behind it. */
  changes: z.array(LayerChangeView),
  /** The `after` of the next page. */
  next: z.string().nullable(),
});
export type LayerChanges = z.infer<typeof LayerChanges>;

/** How agents work on a directory without changing it. `reason`: why not on an overlay. */
export const LayerMechanism = z.object({
  mechanism: z.enum(['overlay', 'copy', 'none']),
  reason: z.string().nullable(),
});
export type LayerMechanism = z.infer<typeof LayerMechanism>;

const treeParam = z.strictObject({ id: TaskId });

export const layerRoutes = routes({
  /** Tries, and changes nothing. The directory has to be granted. */
  probeLayer: route({
    method: 'GET',
    path: '/v1/sandboxes/layers',
    callers: ['operator'],
    query: z.strictObject({ path: z.string().regex(/^\//, 'must be an absolute path').max(4_095) }),
    output: LayerMechanism,
  }),
  /**
   * Gives a subtask, which need not exist yet, a layer of its own, above what the layer of
   * `parent_id` is now. `overloaded` while a command runs there; `limit` where that layer has too
   * many parts. A repeated request changes nothing.
   */
  forkLayer: route({
    method: 'PUT',
    path: '/v1/layers/{id}',
    callers: ['agentd'],
    params: treeParam,
    body: z.strictObject({
      root_task_id: TaskId,
      /** The root task, or a subtask with a layer of its own. */
      parent_id: TaskId,
      path: z.string().max(4_095),
    }),
    output: z.object({ id: TaskId }),
    streams: true,
  }),
  layerChanges: route({
    method: 'GET',
    path: '/v1/layers/{id}/changes',
    callers: ['agentd'],
    params: treeParam,
    query: z.strictObject({
      after: LayerPath.optional(),
      limit: z.coerce.number().int().min(1).max(10_000).default(1_000),
    }),
    output: LayerChanges,
    streams: true,
  }),
  /** Both sides of changed files, for a diff: what is there, and what an apply would write. */
  layerTexts: route({
    method: 'POST',
    path: '/v1/layers/{id}/texts',
    callers: ['agentd'],
    params: treeParam,
    body: z.strictObject({
      paths: z.array(LayerPath).min(1).max(200),
      /** The limit for each side; the rest is cut. */
      bytes_max: z.int().min(1).max(1_048_576),
    }),
    output: z.object({
      texts: z.array(
        z.object({
          path: z.string(),
          /** Null: there is no file on this side. */
          before_base64: z.base64().nullable(),
          after_base64: z.base64().nullable(),
          is_cut: z.boolean(),
        }),
      ),
    }),
    streams: true,
  }),
  /**
   * Writes changes into the directory: all, or those at and below `paths`. Nothing is applied when
   * one of them is refused (`denied`, `details.refused`) or conflicts (`conflict`,
   * `details.conflicts`), unless `overwrite` is set. A repeated `apply_id` is answered from the
   * record.
   */
  applyLayer: route({
    method: 'POST',
    path: '/v1/layers/{id}/apply',
    callers: ['agentd'],
    params: treeParam,
    body: z.strictObject({
      apply_id: ApplyId,
      paths: z.array(LayerPath).min(1).max(10_000).optional(),
      /** Kinds of changes that are refused otherwise. */
      allow: z.array(z.string().min(1).max(64)).max(32),
      /** The hash of the changes that a person has seen; `conflict` when they differ. */
      expect: Sha256.optional(),
      /** Writes what the agents have where it conflicts with what the person has. */
      overwrite: z.boolean().optional(),
    }),
    output: z.object({
      apply_id: ApplyId,
      change_sha256: Sha256,
      applied: z.array(z.string()),
      /** The files among these that were merged with the person's text. */
      merged: z.array(z.string()),
      /** Refs of the directory's git repository that were moved. */
      commits: z.array(MovedRef),
      /** Not brought over: the directory has no git repository. */
      commits_left: z.array(LeftBranch),
    }),
    streams: true,
    bodySizeBytesMax: 10_000_000,
  }),
  /** Drops what was not applied. Closes the tree's boxes; `overloaded` while a command runs. */
  discardLayer: route({
    method: 'POST',
    path: '/v1/layers/{id}/discard',
    callers: ['agentd'],
    params: treeParam,
    body: z.strictObject({}),
    output: z.object({ discarded: z.int() }),
    streams: true,
  }),
  /** Restores what an apply has overwritten: the last one, unless another is named. */
  undoApply: route({
    method: 'POST',
    path: '/v1/layers/{id}/undo',
    callers: ['agentd'],
    params: treeParam,
    body: z.strictObject({ apply_id: ApplyId.optional() }),
    output: z.object({
      apply_id: ApplyId,
      restored: z.array(z.string()),
      /** The changes can be applied again. False: the layer has newer ones, or was discarded. */
      is_in_layer: z.boolean(),
      /** The host directory that keeps them if they are not, until the next apply or discard. */
      kept_at: z.string().nullable(),
    }),
    streams: true,
  }),
});
