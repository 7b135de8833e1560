// Runs that agentd might admit to a daemon.
import { derivedId } from '../../src/platform/ids.ts';
import type { RunId, TaskId } from '../../src/wire/primitives.ts';

let made = 0;

export const freshRun = () => derivedId<RunId>('run', 'wire', made++);
export const admission = () => {
  const task_id = derivedId<TaskId>('task', 'wire', made++);
  return { fence: 1, mode: 'live', agent: 'worker', task_id, root_task_id: task_id, labels: [] };
};
