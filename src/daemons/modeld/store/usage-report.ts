// Reads the sums of usage for reports: of the calls since a time, or ever, or of one task, by
// agent, by principal or by task. None reads all recorded calls.
import type { Sql, Value } from '../../../platform/sql/database.ts';
import type { Usage } from '../../../wire/modeld.ts';
import { HOUR_MS } from './usage.ts';

/** Tasks have no sums: a report by task reads at most so many calls, the newest. */
export const TASK_CALLS_MAX = 10_000;

export type UsageColumn = 'agent' | 'principal' | 'task';
export type UsageTotals = {
  /** The agent, principal or task; '' when there is none, or none is known. */
  name: string;
  model: string;
  provider: string;
  calls: number;
  usage: Usage;
  cost: number;
};
export type UsageFilter = {
  agent: string | undefined;
  taskId: string | undefined;
  sinceMs: number | undefined;
};
type UsageSumRow = Usage & {
  name: string;
  upstream_model: string;
  provider: string;
  calls: number;
  cost: number;
};

/** Resolves to the sums by name, model and provider, the most expensive first. */
export async function sumUsage(
  sql: Sql,
  filter: UsageFilter,
  by: UsageColumn = 'agent',
): Promise<UsageTotals[]> {
  const sources = listSources(filter, by);
  const rows = await sql.all<UsageSumRow>(
    `SELECT ${by} AS name, upstream_model, provider, SUM(calls) AS calls,
       SUM(input_tokens) AS input_tokens, SUM(output_tokens) AS output_tokens,
       SUM(cache_read_tokens) AS cache_read_tokens, SUM(cache_write_tokens) AS cache_write_tokens,
       SUM(reasoning_tokens) AS reasoning_tokens, SUM(cost) AS cost
     FROM (${sources.map(({ text }) => text).join(' UNION ALL ')})
     GROUP BY name, upstream_model, provider
     ORDER BY SUM(cost) DESC, SUM(calls) DESC, name, upstream_model, provider LIMIT 1000`,
    ...sources.flatMap(({ values }) => values),
  );
  return rows.map(({ name, upstream_model, provider, calls, cost, ...usage }) => ({
    name,
    model: upstream_model,
    provider,
    calls,
    usage,
    cost,
  }));
}

/** Resolves to the time of the newest call that a report by task since then leaves out. */
export async function findLeftOut(sql: Sql, sinceMs = 0): Promise<number | undefined> {
  const row = await sql.one<{ created_ms: number }>(
    `SELECT created_ms FROM model_calls WHERE created_ms >= ?
     ORDER BY created_ms DESC LIMIT 1 OFFSET ${TASK_CALLS_MAX}`,
    sinceMs,
  );
  return row?.created_ms;
}

const GROUP = 'agent, upstream_model, provider';
const AMOUNTS = 'output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost';
const CALL = `principal, ${GROUP}, 1 AS calls, COALESCE(input_tokens, 0) AS input_tokens, ${AMOUNTS}`;
const TASK = "COALESCE(root_task_id, task_id, '') AS task";
const SUMS = `SELECT principal, ${GROUP}, calls, input_tokens, ${AMOUNTS} FROM`;

type UsageSource = { text: string; values: Value[] };

function listSources(filter: UsageFilter, by: UsageColumn): UsageSource[] {
  if (filter.taskId !== undefined) return [selectByTask(filter, filter.taskId)];
  return by === 'task' ? [selectNewest(filter)] : selectByTime(filter);
}

/** A task has few calls, and no sums of its own. */
function selectByTask({ agent, sinceMs = 0 }: UsageFilter, taskId: string): UsageSource {
  const by = byAgent(agent);
  return {
    text: `SELECT ${CALL}, ${TASK} FROM model_calls
      WHERE task_id = ? AND created_ms >= ?${by.text}`,
    values: [taskId, sinceMs, ...by.values],
  };
}

function selectNewest({ agent, sinceMs = 0 }: UsageFilter): UsageSource {
  const by = byAgent(agent);
  return {
    text: `SELECT * FROM (SELECT ${CALL}, ${TASK} FROM model_calls WHERE created_ms >= ?
      ORDER BY created_ms DESC LIMIT ${TASK_CALLS_MAX}) WHERE 1${by.text}`,
    values: [sinceMs, ...by.values],
  };
}

/** The calls that have ended since a time, or ever, and those that run. */
function selectByTime({ agent, sinceMs }: UsageFilter): UsageSource[] {
  const by = byAgent(agent);
  const running = {
    // The plus hides the column from the planner, which would read all calls since then.
    text: `SELECT ${CALL} FROM model_calls
      WHERE status = 'running' AND +created_ms >= ?${by.text}`,
    values: [sinceMs ?? 0, ...by.values],
  };
  if (sinceMs === undefined)
    return [{ text: `${SUMS} usage_totals WHERE 1${by.text}`, values: by.values }, running];
  const hour = Math.ceil(sinceMs / HOUR_MS);
  return [
    { text: `${SUMS} usage_hours WHERE hour >= ?${by.text}`, values: [hour, ...by.values] },
    {
      // From before the first whole hour.
      text: `SELECT ${CALL} FROM model_calls
        WHERE status <> 'running' AND created_ms >= ? AND created_ms < ?${by.text}`,
      values: [sinceMs, hour * HOUR_MS, ...by.values],
    },
    running,
  ];
}

const byAgent = (agent: string | undefined): UsageSource =>
  agent === undefined ? { text: '', values: [] } : { text: ' AND agent = ?', values: [agent] };
