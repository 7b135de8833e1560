// The store's methods for due times, halt and runtime events.
import { endTask } from './end-task.ts';
import { insertHalt } from './halt-rows.ts';
import { recordRestore } from './restores.ts';
import { RUN_COLUMNS, type RunRow, type TaskRow, type WaitRow } from './rows.ts';
import { findLiveRuns, requeueRun } from './runs.ts';
import type { AgentdStore } from './store.ts';
import { findTask } from './task-rows.ts';

import type { AgentdWriteTx } from './tx.ts';
import { endWait } from './waits.ts';

export function makeTimeMethods(
  write: AgentdWriteTx,
): Pick<
  AgentdStore,
  'processDue' | 'setHalt' | 'liftHalt' | 'recordRuntimeEvent' | 'recordBackup' | 'recordRestore'
> {
  return {
    processDue: () =>
      write(async (tx) => {
        const waits = await tx.sql.all<WaitRow>(
          // The wait is open: an ended one has no next_ms.
          'SELECT * FROM waits WHERE next_ms IS NOT NULL AND next_ms <= ? ORDER BY next_ms LIMIT 500',
          tx.nowMs,
        );
        for (const wait of waits) {
          const due = wait.due_ms !== null && Number(wait.due_ms) <= tx.nowMs;
          await endWait(tx, wait, {
            outcome: due ? 'completed' : 'expired',
            answer: null,
            by: 'service:agentd',
          });
        }
        const tasks = await tx.sql.all<TaskRow>(
          'SELECT * FROM tasks WHERE ended_ms IS NULL AND expires_ms IS NOT NULL AND expires_ms <= ? LIMIT 500',
          tx.nowMs,
        );
        for (const task of tasks) {
          const byDeadline = task.deadline_ms !== null && Number(task.deadline_ms) <= tx.nowMs;
          const message = byDeadline ? 'deadline passed' : 'time limit reached';
          await endTask(tx, await findTask(tx, task.id), {
            status: 'failed',
            reason: message,
            by: 'service:agentd',
            error: {
              code: 'limit',
              message,
              hint: 'Create it again with more time: agentctl task create … --max-time.',
            },
          });
        }
        return tx.sql.all<RunRow>(
          `SELECT ${RUN_COLUMNS} FROM runs WHERE status = 'live' AND lease_until_ms <= ?`,
          tx.nowMs,
        );
      }),
    setHalt: (reason, by) =>
      write(async (tx) => {
        // A task's failure policy may have recorded it before; its runs are still to be requeued.
        await insertHalt(tx, reason, by);
        const runs = await findLiveRuns(tx);
        for (const run of runs) {
          tx.endedRuns.push({ runId: run.id, fence: run.fence });
          await requeueRun(tx, run, { detail: 'halted', counts: false, crashesMax: 0 });
        }
        return runs.length;
      }),
    liftHalt: (by) =>
      write(async (tx) => {
        if ((await tx.sql.run('DELETE FROM halt')) > 0)
          await tx.event({ id: tx.newId('halt'), event: 'halt.lifted', principal: by });
      }),
    recordRuntimeEvent: (event, data) =>
      write(async (tx) => {
        await tx.event({ id: tx.newId('rt'), event, principal: 'service:agentd', data });
      }),
    recordRestore: (restore) => write((tx) => recordRestore(tx, restore)),
    recordBackup: (event) => write((tx) => tx.event({ id: tx.newId('rt'), ...event })),
  };
}
