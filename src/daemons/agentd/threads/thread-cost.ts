// Computes what a thread has cost since a person last wrote there: recorded costs of its ended
// tasks, and modeld's sums of the others.
import { toTimestamp } from '../../../platform/clock.ts';
import type { Client } from '../../../platform/link.ts';
import type { modeldRoutes } from '../../../wire/modeld.ts';
import type { TaskId } from '../../../wire/primitives.ts';
import type { AgentdStore } from '../store/store.ts';

export type ThreadCost = (contextId: string) => Promise<number>;

export function makeThreadCost(deps: {
  store: Pick<AgentdStore, 'threadCost'>;
  modeld: Pick<Client<typeof modeldRoutes>, 'usage'>;
}): ThreadCost {
  return async (contextId) => {
    const { recordedMicrousd, unrecorded, sinceMs } = await deps.store.threadCost(contextId);
    const since = toTimestamp(sinceMs);
    const sums = await Promise.all(
      unrecorded.map((id) => deps.modeld.usage({ query: { task_id: id as TaskId, since } })),
    );
    return sums.reduce((sum, { total }) => sum + total.cost_microusd, recordedMicrousd);
  };
}
