// Layers that subtasks have for themselves: makes one before its task is created, and lets the task
// that delegated the work apply or discard what was changed there.
import type { Client } from '../../platform/link.ts';
import { Fault, fault } from '../../wire/errors.ts';
import type { TaskId } from '../../wire/primitives.ts';
import type { sandboxdRoutes } from '../../wire/sandboxd.ts';
import type { Changes } from './changes/changes.ts';
import { isEnded } from './rules.ts';
import { findLayerTask, readLayers, readWorkspaceMode, type TaskRow } from './store/rows.ts';
import type { AgentdStore } from './store/store.ts';

/** Makes a layer for a subtask that is about to be created. Without the task it is never used. */
export type ForkLayer = (parent: TaskRow, childId: string) => Promise<void>;

export function makeForkLayer(
  sandboxd: Pick<Client<typeof sandboxdRoutes>, 'forkLayer'>,
): ForkLayer {
  return async (parent, childId) => {
    if (readWorkspaceMode(parent) !== 'layer')
      throw fault('bad_request', 'a task has a layer of its own only in a tree that works in one', {
        hint: 'Use the workspace of the parent task: omit workspace, or give shared.',
      });
    const body = {
      root_task_id: parent.root_task_id as TaskId,
      parent_id: findLayerTask(parent) as TaskId,
      path: parent.workspace!,
    };
    await sandboxd.forkLayer({ params: { id: childId as TaskId }, body });
  };
}

export type ChildChange = { action: 'apply' | 'discard'; childId: string; paths?: string[] };
export type ChildChanged = {
  applied: string[];
  commits: Awaited<ReturnType<Changes['apply']>>['commits'];
  discarded: number;
};

/** Applies or discards the changes of a subtask for its parent. `key` names the request. */
export type ChangeForParent = (
  parent: TaskRow,
  change: ChildChange,
  by: { principal: string; key: string; requestHash: string },
) => Promise<ChildChanged>;

export function makeChangeForParent(deps: {
  store: Pick<AgentdStore, 'taskRow'>;
  changes: Pick<Changes, 'apply' | 'discard'>;
}): ChangeForParent {
  return async (parent, { action, childId, paths }, { principal, key, requestHash }) => {
    const child = await deps.store.taskRow(childId);
    if (child.parent_task_id !== parent.id)
      throw fault('denied', `${childId} is not a subtask of ${parent.id}`);
    if (readLayers(child).at(-1) !== child.id)
      throw fault('bad_request', `${childId} has no layer of its own`, {
        hint: 'It worked in the same files: what it changed is there.',
      });
    if (!isEnded(child.status))
      throw fault('conflict', `${childId} has not ended`, {
        hint: 'Wait for its result first.',
      });
    if (action === 'discard') {
      const { discarded } = await deps.changes.discard(childId, principal);
      return { applied: [], commits: [], discarded };
    }
    const once = { scope: `${principal} toolChanges`, key, requestHash };
    const asked = paths === undefined ? {} : { paths };
    const { applied, commits } = await deps.changes
      .apply(childId, asked, principal, once)
      .catch(namePaths);
    return { applied, commits, discarded: 0 };
  };
}

const NAMED_MAX = 20;

/** An agent reads the message alone. */
function namePaths(error: unknown): never {
  if (!(error instanceof Fault)) throw error;
  const { refused = [], conflicts = [] } = (error.details ?? {}) as {
    refused?: { path: string; kinds: string[] }[];
    conflicts?: { path: string; reason: string }[];
  };
  const named = [
    ...conflicts.map(({ path, reason }) => `${path} (${reason})`),
    ...refused.map(({ path, kinds }) => `${path} (${kinds.join(', ')})`),
  ];
  if (named.length === 0) throw error;
  const more = named.length > NAMED_MAX ? ` and ${named.length - NAMED_MAX} more` : '';
  throw fault(error.code, `${error.message}: ${named.slice(0, NAMED_MAX).join(', ')}${more}`, {
    hint:
      refused.length > 0
        ? 'Name the other paths. Only a person can apply these.'
        : 'Name the other paths, or discard the changes and make them here.',
    details: error.details,
  });
}
