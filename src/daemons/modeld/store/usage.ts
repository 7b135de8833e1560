// Keeps the sums of usage for reports. Ended calls are summed per hour, and over all time, in the
// transaction of their outcome: a report reads the hours since a time, or the totals, however many
// calls there were.
import type { Value } from '../../../platform/sql/database.ts';
import type { SqlNow } from '../../../platform/sql/sqlite.ts';
import type { CallOutcome, Intent } from './entries.ts';

export const HOUR_MS = 3_600_000;

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

/** Adds who made the calls; of those summed before nobody knows. */
export const USAGE_PRINCIPALS = ['hours', 'totals']
  .map((which) => {
    const hour = which === 'hours' ? 'hour, ' : '';
    return `
ALTER TABLE usage_${which} RENAME TO usage_${which}_old;
CREATE TABLE usage_${which} (${hour === '' ? '' : '\n  hour INTEGER NOT NULL,'}
  principal TEXT NOT NULL,
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
  PRIMARY KEY (${hour}principal, agent, upstream_model, provider)
) WITHOUT ROWID;
INSERT INTO usage_${which}
  SELECT ${hour}'', agent, upstream_model, provider, calls, input_tokens, output_tokens,
    cache_read_tokens, cache_write_tokens, reasoning_tokens, cost
  FROM usage_${which}_old;
DROP TABLE usage_${which}_old;`;
  })
  .join('');

export type EndedCall = Pick<CallOutcome, 'provider' | 'upstreamModel' | 'usage' | 'charged'> &
  Pick<Intent, 'principal' | 'agent' | 'createdMs'>;

type UsageSum = { key: Value[]; counts: number[] };

/** Adds calls that have just ended to the sums; those with the same key in one statement. */
export function addUsage(sql: SqlNow, ended: readonly EndedCall[]): void {
  const groupOf = ({ principal, agent, upstreamModel, provider }: EndedCall) => [
    principal,
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
