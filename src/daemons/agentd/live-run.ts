// Finds the run for which toold reads here, if this activation still holds it.
import { fault } from '../../wire/errors.ts';
import type { RunRow } from './store/rows.ts';
import type { AgentdStore } from './store/store.ts';

export async function findHeldRun(
  store: Pick<AgentdStore, 'runRow'>,
  { run_id, fence }: { run_id: string; fence: number },
): Promise<RunRow> {
  const run = await store.runRow(run_id);
  if (run.status !== 'live' || run.fence !== fence)
    throw fault('stale_fence', `activation ${fence} no longer holds ${run_id}`);
  return run;
}
