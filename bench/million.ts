// Measures a runtime with a million ended tasks: what ended-tasks measures, and pruning and
// verifying as well. It takes 20 minutes and 15 GB in the temporary directory, so it runs only by
// name.
import { taskEnded } from '../test/support/runtime.ts';
import {
  measure,
  measureHistories,
  nextGoal,
  runAgentctl,
  type Site,
  type Sites,
  withSites,
} from './ended-tasks.ts';
import type { Benchmark, Figure } from './figure.ts';
import type { Measure } from './rounds.ts';

const COUNTS = { none: 0, few: 1_000, histories: [1_000_000] };
const ORDER = { rounds: 5, turnsPerRound: 4 };
/** The first passes wait until modeld has counted which parts its calls use. */
const WARM_UP = 4;
/** Tasks that were copied together ended within seconds; a turn prunes those of one copy. */
const TASKS_OF_A_COPY = 20;
const COPY_SPREAD_S = 10;
const POLL_INTERVAL_MS = 5;

/** The time of a pass that prunes the oldest trees and finds no others. */
function timedPrune({ runtime: { agentd }, taskIds }: Site): Measure {
  // The first tasks are real, so they are the youngest.
  let next = 2 * TASKS_OF_A_COPY;
  return async () => {
    const { task } = await agentd.getTask({ params: { id: taskIds[next]! as never } });
    next += TASKS_OF_A_COPY;
    const ageS = Math.floor((Date.now() - Date.parse(task.ended_at!)) / 1_000);
    const older_than_s = ageS + COPY_SPREAD_S;
    const began = performance.now();
    const body = { kinds: ['tasks' as const], older_than_s };
    let { prune } = await agentd.startPrune({ body });
    while (prune.status === 'running') {
      await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL_MS));
      prune = (await agentd.getPrune({ query: {} })).prune!;
    }
    const tookMs = performance.now() - began;
    const pruned = prune.kinds[0]?.pruned;
    if (pruned !== TASKS_OF_A_COPY) throw new Error(`the pass pruned ${pruned} trees`);
    return tookMs;
  };
}

/** The time of `audit verify` after one more task. */
function timedVerify(site: Site): Measure {
  return async () => {
    const { task } = await site.runtime.agentd.createTask({ body: { goal: nextGoal() } });
    await taskEnded(site.runtime, task.id);
    return runAgentctl(site, ['audit', 'verify']);
  };
}

async function measureUpkeep({ none, few, histories }: Sites): Promise<Figure[]> {
  const figures: Figure[] = [];
  const common = { warmUp: WARM_UP, order: ORDER };
  const pruning = { ...common, name: `${TASKS_OF_A_COPY} old tasks pruned, p50,`, max: 2 };
  const verifying = { ...common, name: 'audit verify after one more task, p50,', max: 1.5 };
  for (const site of histories) {
    figures.push(await measure(pruning, [site, timedPrune(site)], [few, timedPrune(few)]));
    figures.push(await measure(verifying, [site, timedVerify(site)], [none, timedVerify(none)]));
  }
  return figures;
}

export const million: Benchmark = {
  name: 'million',
  about: 'working with 1,000,000 ended tasks, compared with none or 1,000',
  isByNameOnly: true,
  run: () =>
    withSites(COUNTS, async (sites) => [
      ...(await measureHistories(sites)),
      ...(await measureUpkeep(sites)),
    ]),
};
