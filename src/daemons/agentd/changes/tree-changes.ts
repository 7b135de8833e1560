// Reads the changes of a task tree in its layer, and decides by policy whether a person may write
// them into the directory.
import type { Client } from '../../../platform/link.ts';
import type { PolicyDecision, Request } from '../../../policy/request.ts';
import { fault } from '../../../wire/errors.ts';
import type { Label, TaskId } from '../../../wire/primitives.ts';
import type { LayerChangeView } from '../../../wire/sandboxd/layers.ts';
import type { sandboxdRoutes } from '../../../wire/sandboxd.ts';
import { filterMarks } from '../store/marks.ts';
import { readWorkspaceMode, type TaskRow } from '../store/rows.ts';
import type { AgentdStore } from '../store/store.ts';
import { type ApplyFacts, toApplyContext } from './change-rules.ts';

/** The root task of a tree that works in a layer over this directory. */
export type LayeredRoot = TaskRow & { workspace: string };

export type TreeChangesReader = {
  /** The root of this task's tree; throws if it has no layer. */
  findRoot(id: string): Promise<LayeredRoot>;
  readAll(rootId: string): Promise<LayerChangeView[]>;
  marksOf(rootId: string): Promise<Label[]>;
  /** Throws if policy denies it, and records that. */
  decideApply(
    by: string,
    root: LayeredRoot,
    facts: Pick<ApplyFacts, 'isUndo' | 'counts' | 'kinds'>,
  ): Promise<PolicyDecision>;
};

const PAGE_SIZE = 10_000;
/** More than a person can review. */
const CHANGES_MAX = 200_000;

export function makeTreeChangesReader(deps: {
  store: Pick<AgentdStore, 'taskRow' | 'describeTree' | 'recordDenial'>;
  sandboxd: Pick<Client<typeof sandboxdRoutes>, 'layerChanges'>;
  decide: (request: Request) => Promise<PolicyDecision>;
}): TreeChangesReader {
  const { store, sandboxd, decide } = deps;
  const marksOf = async (rootId: string): Promise<Label[]> =>
    filterMarks((await store.describeTree(rootId)).labels);
  return {
    marksOf,
    async findRoot(id) {
      const { root_task_id: rootId } = await store.taskRow(id);
      const root = await store.taskRow(rootId);
      if (readWorkspaceMode(root) === 'layer') return root as LayeredRoot;
      const why =
        root.workspace === null
          ? 'it has a directory of its own'
          : `it works in ${root.workspace} itself (live)`;
      throw fault('bad_request', `${id} has no layer: ${why}`, {
        hint: 'Only a task that was created for a directory, without --live, has changes to apply.',
      });
    },
    async readAll(rootId) {
      const changes: LayerChangeView[] = [];
      let after: string | undefined;
      do {
        const page = await sandboxd.layerChanges({
          params: { id: rootId as TaskId },
          query: { limit: PAGE_SIZE, ...(after === undefined ? {} : { after }) },
        });
        changes.push(...page.changes);
        after = page.next ?? undefined;
        if (changes.length > CHANGES_MAX)
          throw fault('too_large', `${rootId} has more than ${CHANGES_MAX} changes`, {
            hint: 'Discard them, or let the task remove what it made by mistake.',
          });
      } while (after !== undefined);
      return changes;
    },
    async decideApply(by, root, facts) {
      const { id: rootTaskId, workspace: path } = root;
      const labels = await marksOf(rootTaskId);
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
