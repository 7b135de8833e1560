// Modeld decides by labels which provider may see a text, toold what a command that runs now may
// send out. So both are told of a mark before what brought the mark is handed to the run: as long
// as one of them has not taken it, nothing is handed out.
import type { Client } from '../../platform/link.ts';
import type { modeldRoutes } from '../../wire/modeld.ts';
import type { Label, RunId } from '../../wire/primitives.ts';
import type { tooldRoutes } from '../../wire/toold.ts';
import { spreading } from './store/marks.ts';
import type { AgentdStore } from './store/store.ts';

export type MarkSync = {
  /** Resolves when both know every mark of the run's task, and gives all labels of the task. */
  sync(runId: string): Promise<Label[]>;
};

/** Whoever was forgotten is told once more. */
const RUNS_KEPT_MAX = 10_000;

export function makeMarkSync(options: {
  store: Pick<AgentdStore, 'runRow' | 'taskRow'>;
  modeld: Pick<Client<typeof modeldRoutes>, 'markRun'>;
  toold: Pick<Client<typeof tooldRoutes>, 'markRun'>;
}): MarkSync {
  const { store, modeld, toold } = options;
  /** How many marks they have of a run; they only grow. */
  const told = new Map<string, number>();

  return {
    async sync(runId) {
      const { task_id: taskId } = await store.runRow(runId);
      const labels = JSON.parse((await store.taskRow(taskId)).labels) as Label[];
      const marks = spreading(labels);
      if (marks.length > (told.get(runId) ?? 0)) {
        const asked = { params: { id: runId as RunId }, body: { labels: marks } };
        await Promise.all([modeld.markRun(asked), toold.markRun(asked)]);
        if (told.size >= RUNS_KEPT_MAX) told.clear();
        told.set(runId, marks.length);
      }
      return labels;
    },
  };
}
