// The store's methods for runs whose process is a person's program. Each is one transaction.
import type { DeclaredAgent } from '../manifests/read-manifest.ts';
import { endTask } from './end-task.ts';
import type { AgentRow } from './rows.ts';
import { claimProgram, failProgram, findRun } from './runs.ts';
import type { AgentdStore } from './store.ts';
import { insertCheckedTask } from './task-methods.ts';
import { findTask } from './task-rows.ts';
import type { AgentdWriteTx } from './tx.ts';

export function makeProgramMethods(
  write: AgentdWriteTx,
): Pick<AgentdStore, 'createProgram' | 'endProgram'> {
  return {
    createProgram: (task, options) =>
      write(
        async (tx) => {
          await insertCheckedTask(tx, task);
          const sql = 'SELECT spec FROM agents WHERE name = ?';
          const { spec } = (await tx.sql.one<Pick<AgentRow, 'spec'>>(sql, task.agent))!;
          return claimProgram(tx, task.id, (JSON.parse(spec) as DeclaredAgent).limits, options);
        },
        { mayStart: false },
      ),
    endProgram: (key, { code, signal, reason }) =>
      write(async (tx) => {
        const run = await findRun(tx, key.runId);
        if (run.status !== 'live' || run.fence !== key.fence) return;
        const task = await findTask(tx, run.task_id);
        if (reason !== undefined) return failProgram(tx, task, reason);
        const how = signal === null ? `exited with status ${code}` : `was ended by ${signal}`;
        const isDone = code === 0;
        await endTask(tx, task, {
          status: isDone ? 'completed' : 'failed',
          reason: isDone ? null : `the program ${how}`,
          result: isDone ? `The program ${how}.` : null,
          error: isDone
            ? null
            : {
                code: 'program_failed',
                message: `the program ${how}`,
                hint: 'Its output went to the terminal that started it.',
              },
          winner: run.id,
          by: `agent:${run.agent}`,
        });
      }),
  };
}
