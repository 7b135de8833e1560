// Claims runs with a lease and a fence, and requeues them, within a transaction.
import { fault } from '../../../wire/errors.ts';
import { type DeclaredAgent, hashPersona } from '../manifests/read-manifest.ts';
import { crashBackoffMs, isEnded, type TaskLimits } from '../rules.ts';
import { endTask } from './end-task.ts';
import { RUN_COLUMNS, type RunRow, type TaskRow } from './rows.ts';
import { findTask, runEventIds, setTaskStatus } from './task-rows.ts';
import { missingFault } from './tombstones.ts';
import type { AgentdTx } from './tx.ts';

export async function findRun(tx: Pick<AgentdTx, 'sql'>, id: string): Promise<RunRow> {
  const row = await tx.sql.one<RunRow>('SELECT * FROM runs WHERE id = ?', id);
  if (row === undefined) throw await missingFault(tx.sql, { name: 'run', id });
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

export function findLiveRuns(tx: Pick<AgentdTx, 'sql'>): Promise<RunRow[]> {
  return tx.sql.all<RunRow>(`SELECT ${RUN_COLUMNS} FROM runs WHERE status = 'live'`);
}

/** `counts` if the run itself is at fault; more than `crashesMax` of those fail its task. */
export type Crash = { detail: string; counts: boolean; crashesMax: number; pauseMs?: number };

/** `persona` is that of the agent at this moment; a run that has a briefing keeps its own. */
export type Claim = { run: RunRow; task: TaskRow; first: boolean; persona: string };

/** Steps from agent to agent in the index, so that queued runs are not read one by one. */
const AGENTS_WITH_QUEUED_RUNS = `
WITH RECURSIVE queued (agent) AS (
  SELECT MIN(agent) FROM runs WHERE status = 'queued'
  UNION ALL
  SELECT (SELECT MIN(r.agent) FROM runs r WHERE r.status = 'queued' AND r.agent > queued.agent)
  FROM queued WHERE queued.agent IS NOT NULL
)
SELECT a.name, a.spec FROM queued JOIN agents a ON a.name = queued.agent
WHERE a.status = 'active'`;

const FIRST_QUEUED_RUNS = `
SELECT ${RUN_COLUMNS} FROM runs WHERE status = 'queued' AND agent = ? AND not_before_ms <= ?
ORDER BY priority DESC, id LIMIT ?`;

export type ClaimOptions = {
  slots: number;
  leaseMs: number;
  maxTimeS: (task: TaskRow, agent: TaskLimits) => number | undefined;
};

export async function claimRuns(tx: AgentdTx, options: ClaimOptions): Promise<Claim[]> {
  if (options.slots <= 0) return [];
  if ((await tx.sql.one('SELECT id FROM halt')) !== undefined) return [];
  const candidates = await findCandidates(tx, options.slots);
  candidates.sort((a, b) => b.run.priority - a.run.priority || (a.run.id < b.run.id ? -1 : 1));
  const claims: Claim[] = [];
  for (const candidate of candidates.slice(0, options.slots))
    claims.push(await claimRun(tx, candidate, options));
  return claims;
}

type Candidate = {
  run: RunRow;
  limits: TaskLimits;
  persona: string;
  /** Null for programs, which have none. */
  personaHash: string | null;
};

/** Returns, for each active agent, as many of its first queued runs as it has free replicas. */
async function findCandidates(tx: AgentdTx, slots: number): Promise<Candidate[]> {
  const agents = await tx.sql.all<{ name: string; spec: string }>(AGENTS_WITH_QUEUED_RUNS);
  if (agents.length === 0) return [];
  const live = new Map<string, number>();
  for (const row of await tx.sql.all<{ agent: string; n: number }>(
    "SELECT agent, COUNT(*) AS n FROM runs WHERE status = 'live' AND program = 0 GROUP BY agent",
  ))
    live.set(row.agent, Number(row.n));
  const candidates: Candidate[] = [];
  for (const { name, spec } of agents) {
    const agent = JSON.parse(spec) as DeclaredAgent;
    const { replicas, limits, persona } = agent;
    const personaHash = hashPersona(agent);
    const free = Math.min(slots, replicas - (live.get(name) ?? 0));
    if (free <= 0) continue;
    const runs = await tx.sql.all<RunRow>(FIRST_QUEUED_RUNS, name, tx.nowMs, free);
    for (const run of runs) candidates.push({ run, limits, persona, personaHash });
  }
  return candidates;
}

async function claimRun(
  tx: AgentdTx,
  { run, limits: agent, persona, personaHash }: Candidate,
  options: Omit<ClaimOptions, 'slots'>,
): Promise<Claim> {
  const first = run.activations === 0;
  // The end of its wait sets 0; a crash or a release sets when it may start again.
  const isWoken = Number(run.not_before_ms) === 0;
  Object.assign(run, {
    fence: run.fence + 1,
    status: 'live',
    activations: run.activations + 1,
    lease_until_ms: tx.nowMs + options.leaseMs,
    persona_hash: run.briefing === null ? personaHash : run.persona_hash,
  });
  await tx.sql.run(
    `UPDATE runs SET fence = ?, status = 'live', activations = ?, lease_until_ms = ?,
     persona_hash = ? WHERE id = ?`,
    run.fence,
    run.activations,
    run.lease_until_ms,
    run.persona_hash,
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
    event: first ? 'run.started' : isWoken ? 'run.woken' : 'run.restarted',
    ...ids,
    data: {
      fence: run.fence,
      ...(run.persona_hash === null ? {} : { persona_sha256: run.persona_hash }),
    },
  });
  return { run, task, first, persona };
}

/**
 * Claims the run of a task that was just created, whatever its agent's replicas: the person who
 * started the program waits for it.
 */
export async function claimProgram(
  tx: AgentdTx,
  taskId: string,
  agent: TaskLimits,
  options: Omit<ClaimOptions, 'slots'>,
): Promise<Claim> {
  if ((await tx.sql.one('SELECT id FROM halt')) !== undefined)
    throw fault('halted', 'the runtime is halted');
  const run = await tx.sql.one<RunRow>(`SELECT ${RUN_COLUMNS} FROM runs WHERE task_id = ?`, taskId);
  if (run === undefined) throw fault('internal', `${taskId} has no run`);
  return claimRun(tx, { run, limits: agent, persona: '', personaHash: null }, options);
}

/** `reason`: set when it did not exit by itself. */
export type ProgramEnd = { code: number | null; signal: string | null; reason?: string };

/** Fails the task of a program that did not end by itself. */
export function failProgram(tx: AgentdTx, task: TaskRow, reason: string): Promise<void> {
  return endTask(tx, task, {
    status: 'failed',
    reason,
    by: 'service:agentd',
    error: {
      code: 'canceled',
      message: `the program was ended: ${reason}`,
      hint: 'Start it again: agentctl box run … -- COMMAND',
    },
  });
}

/** Requeues a run whose activation ended without parking or ending it, or fails its task. */
export async function requeueRun(tx: AgentdTx, run: RunRow, crash: Crash): Promise<void> {
  const task = await findTask(tx, run.task_id);
  // Its client is attached to this process: there is nothing to resume.
  if (task.program != null) return failProgram(tx, task, crash.detail);
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
    `UPDATE runs SET status = 'queued', lease_until_ms = NULL, crashes = ?, not_before_ms = ?,
       queued_ms = ? WHERE id = ?`,
    crashes,
    notBefore,
    tx.nowMs,
    run.id,
  );
  if (!isEnded(task.status))
    await setTaskStatus(tx, task, 'ready', crash.counts ? 'its runner crashed; restarting' : null);
}
