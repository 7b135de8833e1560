// Runs that agentd might admit to a daemon.
import { deriveId } from '../../src/platform/ids.ts';
import type { RunId, TaskId } from '../../src/wire/primitives.ts';

let made = 0;

export const freshRun = () => deriveId<RunId>('run', 'wire', made++);
export const admission = () => {
  const task_id = deriveId<TaskId>('task', 'wire', made++);
  return { fence: 1, mode: 'live', agent: 'worker', task_id, root_task_id: task_id, labels: [] };
};
