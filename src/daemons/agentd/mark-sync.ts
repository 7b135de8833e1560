// Sends a run's marks to modeld, which chooses providers by label, and to toold, which limits what
// running commands may send out. Text that brings a mark reaches the run only after both have
// accepted the mark.
import type { Client } from '../../platform/link.ts';
import type { modeldRoutes } from '../../wire/modeld.ts';
import type { Label, RunId } from '../../wire/primitives.ts';
import type { tooldRoutes } from '../../wire/toold.ts';
import { filterMarks } from './store/marks.ts';
import type { AgentdStore } from './store/store.ts';

export type MarkSync = {
  /** Resolves, when both have every mark of the run's task, to all labels of the task. */
  sync(runId: string): Promise<Label[]>;
};

/** Past this size the cache is cleared; marks are then sent once more. */
const CACHE_SIZE_MAX = 10_000;

export function makeMarkSync(options: {
  store: Pick<AgentdStore, 'runRow' | 'taskRow'>;
  modeld: Pick<Client<typeof modeldRoutes>, 'markRun'>;
  toold: Pick<Client<typeof tooldRoutes>, 'markRun'>;
}): MarkSync {
  const { store, modeld, toold } = options;
  /** The number of marks already sent for a run; marks are only ever added. */
  const syncedCounts = new Map<string, number>();

  return {
    async sync(runId) {
      const { task_id: taskId } = await store.runRow(runId);
      const labels = JSON.parse((await store.taskRow(taskId)).labels) as Label[];
      const marks = filterMarks(labels);
      if (marks.length > (syncedCounts.get(runId) ?? 0)) {
        const request = { params: { id: runId as RunId }, body: { labels: marks } };
        await Promise.all([modeld.markRun(request), toold.markRun(request)]);
        if (syncedCounts.size >= CACHE_SIZE_MAX) syncedCounts.clear();
        syncedCounts.set(runId, marks.length);
      }
      return labels;
    },
  };
}
