// The store's methods for runs: claim, renew the lease, park, requeue. Each is one transaction.
import type { BriefedMemories } from '../../../wire/memoryd/for-agentd.ts';
import { type BriefingMembers, saveBriefing } from './briefings.ts';
import { endTask } from './end-task.ts';
import { deliverInbox } from './messages.ts';
import { claimRuns, findLiveRun, findLiveRuns, findRun, requeueRun } from './runs.ts';
import type { AgentdStore } from './store.ts';
import { findTask, runEventIds } from './task-rows.ts';
import type { AgentdTx, AgentdWriteTx } from './tx.ts';
import { parkRun } from './waits.ts';

export function makeRunMethods(
  write: AgentdWriteTx,
): Pick<
  AgentdStore,
  | 'claimRuns'
  | 'saveBriefing'
  | 'renewLease'
  | 'inbox'
  | 'park'
  | 'endActivation'
  | 'recoverRuns'
  | 'breakRun'
> {
  return {
    claimRuns: (options) => write((tx) => claimRuns(tx, options), { mayStart: false }),
    saveBriefing: (runId, briefing) =>
      write(
        async (tx) => {
          if (await saveBriefing(tx.sql, runId, briefing))
            await addBriefedEvent(tx, runId, briefing);
        },
        { mayStart: false },
      ),
    renewLease: (key, leaseMs) =>
      write(
        async (tx) => {
          await findLiveRun(tx, key.runId, key.fence);
          await tx.sql.run(
            'UPDATE runs SET lease_until_ms = ? WHERE id = ?',
            tx.nowMs + leaseMs,
            key.runId,
          );
          return tx.nowMs + leaseMs;
        },
        { mayStart: false },
      ),
    inbox: (key, step) =>
      write(
        async (tx) => {
          const run = await findLiveRun(tx, key.runId, key.fence);
          return deliverInbox(tx, run, await findTask(tx, run.task_id), step);
        },
        { mayStart: false },
      ),
    park: (key, callIds) =>
      write(async (tx) => parkRun(tx, await findLiveRun(tx, key.runId, key.fence), callIds)),
    endActivation: (key, crash) =>
      write(async (tx) => {
        const run = await findRun(tx, key.runId);
        if (run.status === 'live' && run.fence === key.fence) await requeueRun(tx, run, crash);
      }),
    recoverRuns: (reason = 'the runtime ended while it ran') =>
      write(async (tx) => {
        const runs = await findLiveRuns(tx);
        for (const run of runs)
          await requeueRun(tx, run, {
            detail: reason,
            counts: false,
            crashesMax: 0,
          });
        // If the clock was set back, crashed runs must not wait for hours.
        await tx.sql.run(
          "UPDATE runs SET not_before_ms = ? WHERE status = 'queued' AND not_before_ms > ?",
          tx.nowMs + 10_000,
          tx.nowMs + 10_000,
        );
        return runs.length;
      }),
    breakRun: (key, reason) =>
      write(async (tx) => {
        const run = await findRun(tx, key.runId);
        if (run.status !== 'live' || run.fence !== key.fence) return false;
        await tx.event({
          id: `${run.id}.broken.${run.fence}`,
          event: 'run.broken',
          agent: run.agent,
          task_id: run.task_id,
          run_id: run.id,
          data: { reason: reason.slice(0, 500) },
        });
        await endTask(tx, await findTask(tx, run.task_id), {
          status: 'failed',
          reason,
          by: 'service:toold',
          error: {
            code: 'breaker',
            message: reason,
            hint: 'Change the goal or the agent, then agentctl task retry.',
          },
        });
        return true;
      }),
  };
}

/** Only for a run that got something, or did without because memoryd was silent. */
async function addBriefedEvent(tx: AgentdTx, runId: string, briefing: BriefingMembers) {
  const { recall, found } = (briefing.memory ?? { recall: 'off', found: [] }) as BriefedMemories;
  if (recall === 'off' || (recall === 'done' && found.length === 0)) return;
  const run = await findRun(tx, runId);
  const task = await findTask(tx, run.task_id);
  const listIds = (isShown: boolean) =>
    found
      .filter(({ text }) => (text !== null) === isShown)
      .map(({ id }) => id)
      .join(' ');
  await tx.event({
    id: `${runId}.briefed`,
    event: 'memory.briefed',
    principal: `agent:${run.agent}`,
    ...runEventIds(task, run),
    status: recall,
    data: { memories: listIds(true), named: listIds(false) },
  });
}
