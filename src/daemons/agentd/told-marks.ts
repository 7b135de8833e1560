// Modeld decides by labels which provider may see a text. So it is told of a mark before what
// brought the mark is handed to the run: as long as modeld has not taken it, nothing is handed out.
import type { Client } from '../../platform/link.ts';
import type { modeldRoutes } from '../../wire/modeld.ts';
import type { Label, RunId } from '../../wire/words.ts';
import { spreading } from './store/marks.ts';
import type { Store } from './store/store.ts';

export type ToldMarks = {
  /** Resolves when modeld knows every mark of the run's task, and gives all labels of the task. */
  tell(runId: string): Promise<Label[]>;
};

/** Whoever was forgotten is told once more. */
const RUNS_KEPT_MAX = 10_000;

export function makeToldMarks(options: {
  store: Pick<Store, 'runRow' | 'taskRow'>;
  modeld: Pick<Client<typeof modeldRoutes>, 'markRun'>;
}): ToldMarks {
  const { store, modeld } = options;
  /** How many marks modeld has of a run; they only grow. */
  const told = new Map<string, number>();

  return {
    async tell(runId) {
      const { task_id: taskId } = await store.runRow(runId);
      const labels = JSON.parse((await store.taskRow(taskId)).labels) as Label[];
      const marks = spreading(labels);
      if (marks.length > (told.get(runId) ?? 0)) {
        await modeld.markRun({ params: { id: runId as RunId }, body: { labels: marks } });
        if (told.size >= RUNS_KEPT_MAX) told.clear();
        told.set(runId, marks.length);
      }
      return labels;
    },
  };
}
