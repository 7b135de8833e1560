// Reads the changes of a task tree in its layer, and decides by policy whether a person may write
// them into the directory.
import type { Client } from '../../../platform/link.ts';
import type { PolicyDecision, Request } from '../../../policy/request.ts';
import { fault } from '../../../wire/errors.ts';
import type { Label, TaskId } from '../../../wire/primitives.ts';
import type { LayerChangeView } from '../../../wire/sandboxd/layers.ts';
import type { sandboxdRoutes } from '../../../wire/sandboxd.ts';
import { filterMarks } from '../store/marks.ts';
import { readLayers, readWorkspaceMode, type TaskRow } from '../store/rows.ts';
import type { AgentdStore } from '../store/store.ts';
import { type ApplyFacts, toApplyContext } from './change-rules.ts';

/** The root task of a tree that works in a layer over this directory. */
export type LayeredRoot = TaskRow & { workspace: string };

/** A layer of a task tree. */
export type TaskLayer = {
  root: LayeredRoot;
  /** The task that has it: the root, or a subtask that has it for itself. */
  id: TaskId;
  /** Its changes are applied to the layer of this task; null: to the directory. */
  parentId: TaskId | null;
};

export type TreeChangesReader = {
  /** The layer that this task works on; throws if it has none. */
  findLayer(id: string): Promise<TaskLayer>;
  readAll(layerId: string): Promise<LayerChangeView[]>;
  marksOf(layer: TaskLayer): Promise<Label[]>;
  /**
   * Throws if policy denies it, and records that. The layer of a parent is no directory of a
   * person: what comes there is decided on when that one is applied.
   */
  decideApply(
    by: string,
    layer: TaskLayer,
    facts: Pick<ApplyFacts, 'isUndo' | 'counts' | 'kinds'>,
  ): Promise<PolicyDecision>;
};

const PAGE_SIZE = 10_000;
/** More than a person can review. */
const CHANGES_MAX = 200_000;

export function makeTreeChangesReader(deps: {
  store: Pick<AgentdStore, 'taskRow' | 'describeTree' | 'listLayerLabels' | 'recordDenial'>;
  sandboxd: Pick<Client<typeof sandboxdRoutes>, 'layerChanges'>;
  decide: (request: Request) => Promise<PolicyDecision>;
}): TreeChangesReader {
  const { store, sandboxd, decide } = deps;
  const marksOf = async ({ root, id, parentId }: TaskLayer): Promise<Label[]> =>
    filterMarks(
      parentId === null
        ? (await store.describeTree(root.id)).labels
        : await store.listLayerLabels(root.id, id),
    );
  return {
    marksOf,
    async findLayer(id) {
      const task = await store.taskRow(id);
      const root = await store.taskRow(task.root_task_id);
      const chain = [task.root_task_id, ...readLayers(task)] as TaskId[];
      if (readWorkspaceMode(root) === 'layer')
        return { root: root as LayeredRoot, id: chain.at(-1)!, parentId: chain.at(-2) ?? null };
      const why =
        root.workspace === null
          ? 'it has a directory of its own'
          : `it works in ${root.workspace} itself (live)`;
      throw fault('bad_request', `${id} has no layer: ${why}`, {
        hint: 'Only a task that was created for a directory, without --live, has changes to apply.',
      });
    },
    async readAll(layerId) {
      const changes: LayerChangeView[] = [];
      let after: string | undefined;
      do {
        const page = await sandboxd.layerChanges({
          params: { id: layerId as TaskId },
          query: { limit: PAGE_SIZE, ...(after === undefined ? {} : { after }) },
        });
        changes.push(...page.changes);
        after = page.next ?? undefined;
        if (changes.length > CHANGES_MAX)
          throw fault('too_large', `${layerId} has more than ${CHANGES_MAX} changes`, {
            hint: 'Discard them, or let the task remove what it made by mistake.',
          });
      } while (after !== undefined);
      return changes;
    },
    async decideApply(by, layer, facts) {
      const { id: rootTaskId, workspace: path } = layer.root;
      if (layer.parentId !== null) return { answer: 'allow', rules: [], reason: '', version: 0 };
      const labels = await marksOf(layer);
      const decision = await decide({
        principal: by,
        action: 'workspace.apply',
        resource: { type: 'Path', id: path },
        context: toApplyContext({ path, rootTaskId, labels, ...facts }),
      });
      if (decision.answer !== 'deny') return decision;
      await store.recordDenial({
        action: 'workspace.apply',
        principal: by,
        rules: decision.rules,
        rootTaskId,
        data: { ...facts.counts, undo: facts.isUndo },
      });
      throw fault('denied', `${by} may not apply changes to ${path}: ${decision.reason}`, {
        details: { rules: decision.rules },
      });
    },
  };
}
