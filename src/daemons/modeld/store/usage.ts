// Sums the usage of calls for reports. Ended calls are summed per hour, and over all time, in the
// transaction of their outcome: a report reads the hours since a time, or the totals, however many
// calls there were.
import type { Sql, Value } from '../../../platform/sql/database.ts';
import type { SqlNow } from '../../../platform/sql/sqlite.ts';
import type { Usage } from '../../../wire/modeld.ts';
import type { CallOutcome, Intent } from './entries.ts';

const HOUR_MS = 3_600_000;

/** Only calls that run have no part in the sums yet. */
export const USAGE_HOURS = `
CREATE TABLE usage_hours (
  hour INTEGER NOT NULL,
  agent TEXT NOT NULL,
  upstream_model TEXT NOT NULL,
  provider TEXT NOT NULL,
  calls INTEGER NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cache_read_tokens INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  reasoning_tokens INTEGER NOT NULL,
  cost INTEGER NOT NULL,
  PRIMARY KEY (hour, agent, upstream_model, provider)
) WITHOUT ROWID;
INSERT INTO usage_hours
  SELECT created_ms / ${HOUR_MS} AS hour, agent, upstream_model, provider, COUNT(*),
    COALESCE(SUM(input_tokens), 0), SUM(output_tokens), SUM(cache_read_tokens),
    SUM(cache_write_tokens), SUM(reasoning_tokens), SUM(cost)
  FROM model_calls WHERE status <> 'running' GROUP BY hour, agent, upstream_model, provider;`;

/** The hours do not end with retention, so a report over all time has sums of its own. */
export const USAGE_TOTALS = `
CREATE TABLE usage_totals (
  agent TEXT NOT NULL,
  upstream_model TEXT NOT NULL,
  provider TEXT NOT NULL,
  calls INTEGER NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cache_read_tokens INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  reasoning_tokens INTEGER NOT NULL,
  cost INTEGER NOT NULL,
  PRIMARY KEY (agent, upstream_model, provider)
) WITHOUT ROWID;
INSERT INTO usage_totals
  SELECT agent, upstream_model, provider, SUM(calls), SUM(input_tokens), SUM(output_tokens),
    SUM(cache_read_tokens), SUM(cache_write_tokens), SUM(reasoning_tokens), SUM(cost)
  FROM usage_hours GROUP BY agent, upstream_model, provider;`;

export type EndedCall = Pick<CallOutcome, 'provider' | 'upstreamModel' | 'usage' | 'charged'> &
  Pick<Intent, 'agent' | 'createdMs'>;

type UsageSum = { key: Value[]; counts: number[] };

/** Adds calls that have just ended to the sums; those with the same key in one statement. */
export function addUsage(sql: SqlNow, ended: readonly EndedCall[]): void {
  const groupOf = ({ agent, upstreamModel, provider }: EndedCall) => [
    agent,
    upstreamModel,
    provider,
  ];
  const hourOf = ({ createdMs }: EndedCall) => Math.floor(createdMs / HOUR_MS);
  const hours = sumBy(ended, (call) => [hourOf(call), ...groupOf(call)]);
  for (const sum of hours) addSum(sql, 'usage_hours', sum);
  for (const sum of sumBy(ended, groupOf)) addSum(sql, 'usage_totals', sum);
}

function sumBy(
  ended: readonly EndedCall[],
  keyOf: (call: EndedCall) => Value[],
): Iterable<UsageSum> {
  const sums = new Map<string, UsageSum>();
  for (const call of ended) {
    const { usage, charged } = call;
    const key = keyOf(call);
    const counts = [
      1,
      usage?.input_tokens ?? 0,
      usage?.output_tokens ?? 0,
      usage?.cache_read_tokens ?? 0,
      usage?.cache_write_tokens ?? 0,
      usage?.reasoning_tokens ?? 0,
      charged.costMicrousd,
    ];
    const name = JSON.stringify(key);
    const sum = sums.get(name);
    if (sum === undefined) sums.set(name, { key, counts });
    else for (const [i, count] of counts.entries()) sum.counts[i]! += count;
  }
  return sums.values();
}

function addSum(
  sql: SqlNow,
  table: 'usage_hours' | 'usage_totals',
  { key, counts }: UsageSum,
): void {
  const values = [...key, ...counts];
  sql.run(
    `INSERT INTO ${table} VALUES (${values.map(() => '?').join(', ')})
     ON CONFLICT DO UPDATE SET calls = calls + excluded.calls,
       input_tokens = input_tokens + excluded.input_tokens,
       output_tokens = output_tokens + excluded.output_tokens,
       cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
       cache_write_tokens = cache_write_tokens + excluded.cache_write_tokens,
       reasoning_tokens = reasoning_tokens + excluded.reasoning_tokens,
       cost = cost + excluded.cost`,
    ...values,
  );
}

export type UsageTotals = {
  agent: string;
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
  agent: string;
  upstream_model: string;
  provider: string;
  calls: number;
  cost: number;
};

/** Resolves to the sums by agent, model and provider, the most expensive first. */
export async function sumUsage(sql: Sql, filter: UsageFilter): Promise<UsageTotals[]> {
  const sources =
    filter.taskId === undefined ? selectByTime(filter) : [selectByTask(filter, filter.taskId)];
  const rows = await sql.all<UsageSumRow>(
    `SELECT agent, upstream_model, provider, SUM(calls) AS calls,
       SUM(input_tokens) AS input_tokens, SUM(output_tokens) AS output_tokens,
       SUM(cache_read_tokens) AS cache_read_tokens, SUM(cache_write_tokens) AS cache_write_tokens,
       SUM(reasoning_tokens) AS reasoning_tokens, SUM(cost) AS cost
     FROM (${sources.map(({ text }) => text).join(' UNION ALL ')})
     GROUP BY agent, upstream_model, provider
     ORDER BY SUM(cost) DESC, SUM(calls) DESC, agent, upstream_model, provider LIMIT 1000`,
    ...sources.flatMap(({ values }) => values),
  );
  return rows.map(({ agent, upstream_model, provider, calls, cost, ...usage }) => ({
    agent,
    model: upstream_model,
    provider,
    calls,
    usage,
    cost,
  }));
}

const GROUP = 'agent, upstream_model, provider';
const AMOUNTS = 'output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost';
const CALLS = `SELECT ${GROUP}, 1 AS calls, COALESCE(input_tokens, 0) AS input_tokens, ${AMOUNTS}
  FROM model_calls`;
const SUMS = `SELECT ${GROUP}, calls, input_tokens, ${AMOUNTS} FROM`;

type UsageSource = { text: string; values: Value[] };

/** A task has few calls, and no sums of its own. */
function selectByTask({ agent, sinceMs = 0 }: UsageFilter, taskId: string): UsageSource {
  const by = byAgent(agent);
  return {
    text: `${CALLS} WHERE task_id = ? AND created_ms >= ?${by.text}`,
    values: [taskId, sinceMs, ...by.values],
  };
}

/** The calls that have ended since a time, or ever, and those that run. */
function selectByTime({ agent, sinceMs }: UsageFilter): UsageSource[] {
  const by = byAgent(agent);
  const running = {
    // The plus hides the column from the planner, which would read all calls since then.
    text: `${CALLS} WHERE status = 'running' AND +created_ms >= ?${by.text}`,
    values: [sinceMs ?? 0, ...by.values],
  };
  if (sinceMs === undefined)
    return [{ text: `${SUMS} usage_totals WHERE 1${by.text}`, values: by.values }, running];
  const hour = Math.ceil(sinceMs / HOUR_MS);
  return [
    { text: `${SUMS} usage_hours WHERE hour >= ?${by.text}`, values: [hour, ...by.values] },
    {
      // From before the first whole hour.
      text: `${CALLS} WHERE status <> 'running' AND created_ms >= ? AND created_ms < ?${by.text}`,
      values: [sinceMs, hour * HOUR_MS, ...by.values],
    },
    running,
  ];
}

const byAgent = (agent: string | undefined): UsageSource =>
  agent === undefined ? { text: '', values: [] } : { text: ' AND agent = ?', values: [agent] };
