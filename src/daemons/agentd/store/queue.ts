// Reads how many runs of each agent are queued and live, and since when the first one waits. The
// scheduler's own query is in runs.ts.
import type { Sql } from '../../../platform/sql/database.ts';

export type RunCounts = ReadonlyMap<string, { queued: number; live: number }>;

/** Counts by agent. A run that waits after a crash is not counted until it may start again. */
export async function countRunsByAgent(sql: Sql, nowMs: number): Promise<RunCounts> {
  const counts = new Map<string, { queued: number; live: number }>();
  const rows = await sql.all<{ agent: string; status: 'queued' | 'live'; n: number }>(
    `SELECT agent, 'queued' AS status, COUNT(*) AS n FROM runs
     WHERE status = 'queued' AND not_before_ms <= ? GROUP BY agent
     UNION ALL
     SELECT agent, 'live' AS status, COUNT(*) AS n FROM runs WHERE status = 'live' GROUP BY agent`,
    nowMs,
  );
  for (const { agent, status, n } of rows)
    counts.set(agent, { queued: 0, live: 0, ...counts.get(agent), [status]: Number(n) });
  return counts;
}

/** Returns when the run that has waited longest was queued, or undefined when none is. */
export async function readQueuedSince(sql: Sql): Promise<number | undefined> {
  const row = await sql.one<{ at: number | null }>(
    "SELECT MIN(queued_ms) AS at FROM runs WHERE status = 'queued'",
  );
  return row === undefined || row.at === null ? undefined : Number(row.at);
}
