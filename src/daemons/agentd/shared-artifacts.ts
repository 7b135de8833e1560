// Shares artifacts with the team and lists them, for runs whose grant has the capability
// team.artifacts.
import type { Handlers } from '../../platform/dispatch.ts';
import type { agentdRoutes } from '../../wire/agentd.ts';
import { grantFor } from './activations.ts';
import { toRunCall } from './calls.ts';
import { findHeldRun } from './live-run.ts';
import { filterMarks } from './store/marks.ts';
import { type TaskRow, toArtifactView } from './store/rows.ts';
import type { AgentdStore } from './store/store.ts';

export type SharedArtifactHandlers = Pick<
  Handlers<typeof agentdRoutes>,
  'toolShareArtifact' | 'toolListShared'
>;

const LISTED_MAX = 50;

export function makeSharedArtifactHandlers({
  store,
}: {
  store: Pick<AgentdStore, 'runRow' | 'shareArtifact' | 'sharedArtifacts'>;
}): SharedArtifactHandlers {
  return {
    async toolShareArtifact({ body }) {
      await store.shareArtifact(toRunCall(body), body.id);
      return { shared: true };
    },
    async toolListShared({ body }) {
      await findHeldRun(store, body);
      const views = (await store.sharedArtifacts(LISTED_MAX)).map(toArtifactView);
      return {
        artifacts: views.map(({ id, name, size_bytes, created_by, created_at, labels }) => ({
          id,
          // A name may be a sentence of a stranger: to read it, get the artifact and its marks.
          name: filterMarks(labels).length === 0 ? name : null,
          by: created_by,
          labels,
          size_bytes,
          created_at,
        })),
      };
    },
  };
}

/** Tells whether a task may read what the team has shared. */
export const makeMayReadShared =
  (store: AgentdStore) =>
  async (task: TaskRow): Promise<boolean> =>
    task.assigned_to !== null &&
    (await grantFor(store, task.assigned_to, task)).tools.includes('artifact.list');
