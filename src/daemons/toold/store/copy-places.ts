// Where toold has texts of runs, models and tools, for the removal of forgotten ones.
import type { CopyPlace } from '../../../platform/copies/erase-records.ts';

export const COPY_PLACES: readonly CopyPlace[] = [
  {
    table: 'calls',
    key: ['place'],
    columns: ['purpose', 'arguments', 'result', 'error'],
    hashes: { arguments_hash: 'arguments', outcome_hash: 'result' },
    reads: ['run_id'],
    findRuns: async (_sql, { run_id }) => [run_id as string],
  },
  { table: 'tool_suspensions', key: ['tool'], columns: ['reason'] },
  { table: 'tool_tree_suspensions', key: ['tool', 'root_task_id'], columns: ['reason'] },
];
