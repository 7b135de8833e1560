// Stores limits, providers, aliases and the budgets' spending. Admitted runs are in run-rows.ts.
import type { Sql } from '../../../platform/sql/database.ts';
import type { BudgetPeriod, DialectName, ProviderPrice } from '../../../wire/modeld.ts';
import type { Limit, SetBy, SpentAmount } from '../budgets.ts';
import type { BudgetKey, BudgetSubject } from '../rules/budget.ts';
import type { ModelAlias } from '../rules/model-aliases.ts';

type LimitRow = {
  subject: BudgetSubject;
  name: string;
  tokens_limit: number | null;
  cost_limit: number | null;
  set_by: SetBy;
  period: BudgetPeriod | null;
};
type SpentRow = {
  subject: BudgetSubject;
  name: string;
  period: string;
  tokens: number;
  cost: number;
};

const toLimit = (row: LimitRow): Limit => ({
  subject: row.subject,
  name: row.name,
  tokensLimit: row.tokens_limit,
  costLimitMicrousd: row.cost_limit,
  setBy: row.set_by,
  ...(row.period === null ? {} : { period: row.period }),
});
const toSpent = ({ subject, name, period, tokens, cost }: SpentRow): SpentAmount => ({
  key: { subject, name, period },
  tokens,
  costMicrousd: cost,
});

/** Limits except those of tasks, which are loaded with their runs. */
export async function readStandingLimits(sql: Sql): Promise<Limit[]> {
  const rows = await sql.all<LimitRow>(
    "SELECT * FROM budget_limits WHERE subject IN ('site', 'day', 'agent', 'key', 'person')",
  );
  return rows.map(toLimit);
}

export async function readLimit(
  sql: Sql,
  subject: BudgetSubject,
  name: string,
): Promise<Limit | undefined> {
  const row = await sql.one<LimitRow>(
    'SELECT * FROM budget_limits WHERE subject = ? AND name = ?',
    subject,
    name,
  );
  return row === undefined ? undefined : toLimit(row);
}

/** Resolves to the limits of tasks, newest first. */
export async function readTaskLimits(sql: Sql, count: number): Promise<Limit[]> {
  const rows = await sql.all<LimitRow>(
    `SELECT * FROM budget_limits WHERE subject = 'task' ORDER BY name DESC LIMIT ?`,
    count,
  );
  return rows.map(toLimit);
}

export async function writeLimit(sql: Sql, limit: Limit): Promise<void> {
  await sql.run(
    `INSERT INTO budget_limits (subject, name, tokens_limit, cost_limit, set_by, period)
     VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT (subject, name) DO UPDATE SET tokens_limit = excluded.tokens_limit,
       cost_limit = excluded.cost_limit, set_by = excluded.set_by, period = excluded.period`,
    limit.subject,
    limit.name,
    limit.tokensLimit,
    limit.costLimitMicrousd,
    limit.setBy,
    limit.period ?? null,
  );
}

/** Resolves to the spending of the site, and of this day and month. */
export async function readCurrentSpent(sql: Sql, day: string): Promise<SpentAmount[]> {
  const site = await sql.all<SpentRow>("SELECT * FROM budget_spent WHERE subject = 'site'");
  const ofDay = await sql.all<SpentRow>(
    "SELECT * FROM budget_spent WHERE period IN (?, ?) AND period <> ''",
    day,
    day.slice(0, 'YYYY-MM'.length),
  );
  return [...site, ...ofDay].map(toSpent);
}

export async function readSpent(sql: Sql, key: BudgetKey): Promise<SpentAmount> {
  const row = await sql.one<SpentRow>(
    'SELECT * FROM budget_spent WHERE subject = ? AND name = ? AND period = ?',
    key.subject,
    key.name,
    key.period,
  );
  return row === undefined ? { key, tokens: 0, costMicrousd: 0 } : toSpent(row);
}

export type StoredProvider = {
  name: string;
  dialect: DialectName;
  baseUrl: string;
  models: string[];
  /** The operator's price for all its models. */
  price?: ProviderPrice | undefined;
};

export async function readProviders(sql: Sql): Promise<StoredProvider[]> {
  const rows = await sql.all<{
    name: string;
    dialect: StoredProvider['dialect'];
    base_url: string;
    models: string;
    price: string | null;
  }>('SELECT * FROM providers ORDER BY created_ms, name');
  return rows.map(({ name, dialect, base_url, models, price }) => ({
    name,
    dialect,
    baseUrl: base_url,
    models: JSON.parse(models) as string[],
    price: price === null ? undefined : (JSON.parse(price) as ProviderPrice),
  }));
}

export async function writeProvider(
  sql: Sql,
  provider: StoredProvider,
  nowMs: number,
): Promise<void> {
  await sql.run(
    `INSERT INTO providers (name, dialect, base_url, models, price, created_ms)
     VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT (name) DO UPDATE SET dialect = excluded.dialect, base_url = excluded.base_url,
       models = excluded.models, price = excluded.price`,
    provider.name,
    provider.dialect,
    provider.baseUrl,
    JSON.stringify(provider.models),
    provider.price === undefined ? null : JSON.stringify(provider.price),
    nowMs,
  );
}

export async function deleteProvider(sql: Sql, name: string): Promise<void> {
  await sql.run('DELETE FROM providers WHERE name = ?', name);
}

export async function readAliases(sql: Sql): Promise<ModelAlias[]> {
  return sql.all<ModelAlias>('SELECT pattern, model FROM model_aliases');
}

export async function writeAlias(sql: Sql, pattern: string, model: string | null): Promise<void> {
  if (model === null) await sql.run('DELETE FROM model_aliases WHERE pattern = ?', pattern);
  else
    await sql.run(
      `INSERT INTO model_aliases (pattern, model) VALUES (?, ?)
       ON CONFLICT (pattern) DO UPDATE SET model = excluded.model`,
      pattern,
      model,
    );
}
