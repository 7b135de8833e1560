// Claims runs with a lease and a fence, and requeues them, within a transaction.
import { fault } from '../../../wire/errors.ts';
import type { DeclaredAgent } from '../manifests/read-manifest.ts';
import { crashBackoffMs, isEnded, type TaskLimits } from '../rules.ts';
import type { RunRow, TaskRow } from './rows.ts';
import { findTask, runEventIds, setTaskStatus } from './task-rows.ts';
import { endTask } from './tasks.ts';
import type { AgentdTx } from './tx.ts';

export async function findRun(tx: Pick<AgentdTx, 'sql'>, id: string): Promise<RunRow> {
  const row = await tx.sql.one<RunRow>('SELECT * FROM runs WHERE id = ?', id);
  if (row === undefined) throw fault('not_found', `run ${id} not found`);
  return row;
}

/** Throws unless this activation holds the run. */
export async function findLiveRun(
  tx: Pick<AgentdTx, 'sql'>,
  id: string,
  fence: number,
): Promise<RunRow> {
  const run = await findRun(tx, id);
  if (run.status !== 'live' || run.fence !== fence)
    throw fault('stale_fence', `activation ${fence} no longer holds ${id}`);
  return run;
}

/** `counts` if the run itself is at fault; more than `crashesMax` of those fail its task. */
export type Crash = { detail: string; counts: boolean; crashesMax: number; pauseMs?: number };

export type Claim = { run: RunRow; task: TaskRow; first: boolean };

/** Limited per agent, so that a busy agent does not hide others. Briefings are not read. */
const CANDIDATES = `
SELECT * FROM (
  SELECT r.id, r.task_id, r.agent, r.priority, r.fence, r.status, r.outcome, r.activations, r.crashes,
    r.not_before_ms, r.lease_until_ms, r.created_ms, r.ended_ms, a.spec AS agent_spec,
    CASE WHEN r.briefing IS NULL THEN NULL ELSE '' END AS briefing,
    ROW_NUMBER() OVER (PARTITION BY r.agent ORDER BY r.priority DESC, r.id) AS place
  FROM runs r JOIN agents a ON a.name = r.agent
  WHERE r.status = 'queued' AND a.status = 'active' AND r.not_before_ms <= ?
) AS queued WHERE place <= 100 ORDER BY priority DESC, id LIMIT 2000`;

export type ClaimOptions = {
  slots: number;
  leaseMs: number;
  maxTimeS: (task: TaskRow, agent: TaskLimits) => number | undefined;
};

export async function claimRuns(tx: AgentdTx, options: ClaimOptions): Promise<Claim[]> {
  if (options.slots <= 0) return [];
  if ((await tx.sql.one('SELECT id FROM halt')) !== undefined) return [];
  const candidates = await tx.sql.all<RunRow & { agent_spec: string; place: number }>(
    CANDIDATES,
    tx.nowMs,
  );
  if (candidates.length === 0) return [];
  const live = new Map<string, number>();
  for (const row of await tx.sql.all<{ agent: string; n: number }>(
    "SELECT agent, COUNT(*) AS n FROM runs WHERE status = 'live' GROUP BY agent",
  ))
    live.set(row.agent, Number(row.n));
  const claims: Claim[] = [];
  for (const { agent_spec, place: _, ...run } of candidates) {
    if (claims.length >= options.slots) break;
    const busy = live.get(run.agent) ?? 0;
    const { replicas, limits } = JSON.parse(agent_spec) as DeclaredAgent;
    if (busy >= replicas) continue;
    live.set(run.agent, busy + 1);
    claims.push(await claimRun(tx, run, limits, options));
  }
  return claims;
}

async function claimRun(
  tx: AgentdTx,
  run: RunRow,
  agent: TaskLimits,
  options: ClaimOptions,
): Promise<Claim> {
  const first = run.activations === 0;
  Object.assign(run, {
    fence: run.fence + 1,
    status: 'live',
    activations: run.activations + 1,
    lease_until_ms: tx.nowMs + options.leaseMs,
  });
  await tx.sql.run(
    "UPDATE runs SET fence = ?, status = 'live', activations = ?, lease_until_ms = ? WHERE id = ?",
    run.fence,
    run.activations,
    run.lease_until_ms,
    run.id,
  );
  const task = await findTask(tx, run.task_id);
  const maxTimeS = options.maxTimeS(task, agent);
  if (first && maxTimeS !== undefined) {
    // A second run of the task gets no more time than the first one left.
    task.expires_ms = Math.min(
      task.expires_ms ?? Number.MAX_SAFE_INTEGER,
      tx.nowMs + maxTimeS * 1000,
    );
    await tx.sql.run('UPDATE tasks SET expires_ms = ? WHERE id = ?', task.expires_ms, task.id);
  }
  await setTaskStatus(tx, task, 'working', null);
  const ids = runEventIds(task, run);
  if (first) await tx.event({ id: `${task.id}.started.${run.id}`, event: 'task.started', ...ids });
  await tx.event({
    id: `${run.id}.started.${run.fence}`,
    event: first ? 'run.started' : 'run.restarted',
    ...ids,
    data: { fence: run.fence },
  });
  return { run, task, first };
}

/** Requeues a run whose activation ended without parking or ending it, or fails its task. */
export async function requeueRun(tx: AgentdTx, run: RunRow, crash: Crash): Promise<void> {
  const task = await findTask(tx, run.task_id);
  const crashes = run.crashes + (crash.counts ? 1 : 0);
  await tx.event({
    id: `${run.id}.${crash.counts ? 'crashed' : 'released'}.${run.fence}`,
    event: crash.counts ? 'run.crashed' : 'run.released',
    ...runEventIds(task, run),
    data: { fence: run.fence, detail: crash.detail.slice(0, 500) },
  });
  if (crash.counts && crashes > crash.crashesMax) {
    await endTask(tx, task, {
      status: 'failed',
      reason: `its runner crashed ${crashes} times`,
      by: 'service:agentd',
      error: {
        code: 'internal',
        message: `the runner crashed ${crashes} times: ${crash.detail.slice(0, 500)}`,
        hint: 'See agentctl logs for the agent, then agentctl task retry.',
      },
    });
    return;
  }
  const notBefore = tx.nowMs + (crash.counts ? crashBackoffMs(crashes) : (crash.pauseMs ?? 0));
  await tx.sql.run(
    "UPDATE runs SET status = 'queued', lease_until_ms = NULL, crashes = ?, not_before_ms = ? WHERE id = ?",
    crashes,
    notBefore,
    run.id,
  );
  if (!isEnded(task.status))
    await setTaskStatus(tx, task, 'ready', crash.counts ? 'its runner crashed; restarting' : null);
}
