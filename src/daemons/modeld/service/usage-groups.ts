// Sums usage by key, agent, person, model or task. Who owns a key is looked up now, because a key's
// owner never changes and its name is never given again.
import type { Sql } from '../../../platform/sql/database.ts';
import type { Usage, UsageBy, UsageGroup } from '../../../wire/modeld.ts';
import { NO_USAGE, readPerson } from '../rules/budget.ts';
import { readKeys } from '../store/api-keys.ts';
import { sumUsage, type UsageFilter, type UsageTotals } from '../store/usage-report.ts';

export const addUsages = (a: Usage, b: Usage): Usage => ({
  input_tokens: a.input_tokens + b.input_tokens,
  output_tokens: a.output_tokens + b.output_tokens,
  cache_read_tokens: a.cache_read_tokens + b.cache_read_tokens,
  cache_write_tokens: a.cache_write_tokens + b.cache_write_tokens,
  reasoning_tokens: a.reasoning_tokens + b.reasoning_tokens,
});

export type UsageCost = Pick<UsageTotals, 'provider' | 'model' | 'cost'>;

type UsageSource = {
  sql: Sql;
  filter: UsageFilter;
  isGuess(sum: UsageCost): boolean;
  /** The sums by agent, already read. */
  byAgent: readonly UsageTotals[];
};

export async function groupUsage(source: UsageSource, by: UsageBy): Promise<UsageGroup[]> {
  const { sums, nameOf } = await readSums(source, by);
  const hasCaller = by === 'key' || by === 'person';
  const groups = new Map<string, UsageGroup>();
  for (const sum of sums) {
    const name = nameOf(sum);
    const isUnknown = hasCaller && sum.name === '';
    const id = JSON.stringify([name, isUnknown]);
    const group = groups.get(id);
    groups.set(id, {
      name,
      is_unknown: isUnknown,
      calls: (group?.calls ?? 0) + sum.calls,
      usage: addUsages(group?.usage ?? NO_USAGE, sum.usage),
      cost_microusd: (group?.cost_microusd ?? 0) + sum.cost,
      cost_is_guess: group?.cost_is_guess === true || source.isGuess(sum),
    });
  }
  return [...groups.values()].sort(
    (a, b) => b.cost_microusd - a.cost_microusd || b.calls - a.calls,
  );
}

async function readSums({ sql, filter, byAgent }: UsageSource, by: UsageBy) {
  const name = (sum: UsageTotals): string | null => sum.name || null;
  if (by === 'model')
    return { sums: byAgent, nameOf: (sum: UsageTotals) => `${sum.provider}/${sum.model}` };
  if (by === 'agent') return { sums: byAgent, nameOf: name };
  if (by === 'task') return { sums: await sumUsage(sql, filter, 'task'), nameOf: name };
  const owners = new Map((await readKeys(sql)).map((key) => [`key:${key.name}`, key.owner]));
  const keyOf = (sum: UsageTotals) => /^key:(.*)$/.exec(sum.name)?.[1] ?? null;
  const personOf = (sum: UsageTotals) => owners.get(sum.name) ?? readPerson(sum.name);
  const nameOf = by === 'key' ? keyOf : personOf;
  return { sums: await sumUsage(sql, filter, 'principal'), nameOf };
}
