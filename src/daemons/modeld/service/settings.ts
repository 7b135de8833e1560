// Changes settings: budgets, providers, aliases, and parts to forget.
import type { Clock } from '../../../platform/clock.ts';
import type { NewId } from '../../../platform/ids.ts';
import type { Outbox } from '../../../platform/outbox.ts';
import type { Database } from '../../../platform/sql/database.ts';
import { fault } from '../../../wire/errors.ts';
import type {
  BudgetPeriod,
  BudgetView,
  DialectName,
  ProviderPrice,
  ProviderView,
} from '../../../wire/modeld.ts';
import type { Budgets, Limit } from '../budgets.ts';
import {
  type BudgetKey,
  type BudgetSubject,
  makeBudgetKey,
  makePayerKey,
  type Payer,
  toDay,
} from '../rules/budget.ts';
import type { Journal } from '../store/journal.ts';
import type { Keys } from '../store/keys.ts';
import { forgetBody } from '../store/parts.ts';
import {
  deleteProvider,
  readLimit,
  readSpent,
  readTaskLimits,
  writeAlias,
  writeLimit,
  writeProvider,
} from '../store/settings.ts';
import type { Providers } from './providers.ts';

const TASKS_LISTED_MAX = 200;

export type SettingsDeps = {
  db: Database;
  outbox: Outbox;
  journal: Journal;
  budgets: Budgets;
  providers: Providers;
  keys: Keys;
  clock: Clock;
  newId: NewId;
};

export type BudgetChange = {
  subject: BudgetSubject;
  name?: string | undefined;
  tokens_limit?: number | null | undefined;
  cost_limit_microusd?: number | null | undefined;
  period?: BudgetPeriod | undefined;
};

export type ProviderChange = {
  dialect: DialectName;
  base_url: string;
  key?: string | undefined;
  models?: string[] | undefined;
  price?: ProviderPrice | undefined;
};

export class Settings {
  readonly #deps: SettingsDeps;

  constructor(parts: SettingsDeps) {
    this.#deps = parts;
  }

  async setBudget(by: { principal: string; setBy: Limit['setBy'] }, ask: BudgetChange) {
    const { db, outbox, budgets, newId } = this.#deps;
    const { subject } = ask;
    const name = readName(ask);
    if (ask.period !== undefined && !isPayer(subject))
      throw fault('bad_request', `period: the ${subject} budget has its own period`);
    await db.write(async (sql) => {
      const found = await readLimit(sql, subject, name);
      if (found?.setBy === 'operator' && by.setBy !== 'operator') return;
      // An absent limit keeps its current value, also a default.
      const before =
        found ?? (subject === 'task' ? undefined : this.#readCurrentLimit(subject, name));
      const { tokens_limit: tokens, cost_limit_microusd: cost } = ask;
      const limit: Limit = {
        subject,
        name,
        tokensLimit: tokens === undefined ? (before?.tokensLimit ?? null) : tokens,
        costLimitMicrousd: cost === undefined ? (before?.costLimitMicrousd ?? null) : cost,
        setBy: by.setBy,
        ...(isPayer(subject) ? { period: ask.period ?? found?.period ?? 'total' } : {}),
      };
      const isSame =
        found?.tokensLimit === limit.tokensLimit &&
        found.costLimitMicrousd === limit.costLimitMicrousd &&
        found.setBy === limit.setBy &&
        found.period === limit.period;
      if (isSame) return;
      await writeLimit(sql, limit);
      await outbox.add(sql, {
        id: newId('budget'),
        event: 'budget.set',
        principal: by.principal,
        data: {
          subject,
          name,
          tokens_limit: limit.tokensLimit,
          cost_limit_microusd: limit.costLimitMicrousd,
          ...(limit.period === undefined ? {} : { period: limit.period }),
        },
      });
    });
    outbox.wake();
    // A task's limit is in memory only while one of its runs is admitted.
    const now = await db.read((sql) => readLimit(sql, subject, name));
    // The spending under an earlier limit of the same period counts.
    if (now !== undefined && isPayer(subject)) await this.#loadSpent(subject, name, now);
    const isInMemory = subject !== 'task' || budgets.has(makeBudgetKey('task', name, ''));
    if (now !== undefined && isInMemory) budgets.setLimit(now);
    return this.viewBudget(subject, name);
  }

  async #loadSpent(subject: Payer['subject'], name: string, { period }: Limit): Promise<void> {
    const { budgets, clock, db, journal } = this.#deps;
    const key = makePayerKey({ subject, name }, period ?? 'total', toDay(clock.nowMs()));
    if (budgets.has(key)) return;
    await journal.flush();
    budgets.load(await db.read((sql) => readSpent(sql, key)));
  }

  /** The ledger's key of a budget as of now. */
  #keyOf(subject: BudgetSubject, name: string): BudgetKey {
    const { budgets, clock } = this.#deps;
    const day = toDay(clock.nowMs());
    if (!isPayer(subject)) return makeBudgetKey(subject, name, day);
    return makePayerKey({ subject, name }, budgets.getLimit(subject, name)?.period ?? 'total', day);
  }

  #readCurrentLimit(subject: BudgetSubject, name: string) {
    const view = this.#deps.budgets.view(this.#keyOf(subject, name));
    return { tokensLimit: view.tokens_limit, costLimitMicrousd: view.cost_limit_microusd };
  }

  async viewBudget(subject: BudgetSubject, name: string): Promise<BudgetView> {
    const { budgets, db } = this.#deps;
    const key = this.#keyOf(subject, name);
    if (subject !== 'task' || budgets.has(key)) return budgets.view(key);
    const [spent, limit] = await db.read(async (sql) => [
      await readSpent(sql, key),
      await readLimit(sql, subject, name),
    ]);
    return {
      ...budgets.view(key),
      tokens_limit: limit?.tokensLimit ?? null,
      tokens_spent: spent.tokens,
      cost_limit_microusd: limit?.costLimitMicrousd ?? null,
      cost_spent_microusd: spent.costMicrousd,
    };
  }

  /** Lists site, day, agents with a limit or spending today, and the newest limited tasks. */
  async listBudgets(): Promise<BudgetView[]> {
    const { budgets, clock, db } = this.#deps;
    const day = toDay(clock.nowMs());
    const agents = new Set<string>();
    for (const key of budgets.listKeys())
      if (key.subject === 'agent' && key.period === day) agents.add(key.name);
    for (const limit of budgets.listLimits()) if (limit.subject === 'agent') agents.add(limit.name);
    const tasks = await db.read((sql) => readTaskLimits(sql, TASKS_LISTED_MAX));
    const views = [
      budgets.view(makeBudgetKey('site', '', day)),
      budgets.view(makeBudgetKey('day', '', day)),
      ...[...agents].sort().map((name) => budgets.view(makeBudgetKey('agent', name, day))),
    ];
    for (const { subject, name } of budgets.listLimits())
      if (isPayer(subject)) views.push(budgets.view(this.#keyOf(subject, name)));
    for (const { name } of tasks) views.push(await this.viewBudget('task', name));
    return views;
  }

  async addProvider(principal: string, name: string, ask: ProviderChange): Promise<ProviderView> {
    const { db, outbox, providers, keys, clock, newId } = this.#deps;
    providers.assertCanAdd(name, { dialect: ask.dialect, base_url: ask.base_url });
    const key = ask.key?.trim();
    if (key !== undefined && (key === '' || !/^[\x21-\x7e]+$/.test(key)))
      throw fault('bad_request', 'key must be visible ASCII characters on one line');
    const stored = {
      name,
      dialect: ask.dialect,
      baseUrl: ask.base_url,
      models: ask.models ?? [...providers.getModels(name)],
      price: ask.price ?? providers.getPrice(name),
    };
    // The key first: a provider stored without its key would fail after the next restart.
    if (key !== undefined) keys.write(name, key);
    await db.write(async (sql) => {
      await writeProvider(sql, stored, clock.nowMs());
      await outbox.add(sql, {
        id: newId('provider'),
        event: 'provider.set',
        principal,
        data: {
          provider: name,
          dialect: stored.dialect,
          base_url: stored.baseUrl,
          models: stored.models.length,
          price_input_usd: stored.price?.input ?? null,
          price_output_usd: stored.price?.output ?? null,
          key_changed: key !== undefined,
        },
      });
    });
    outbox.wake();
    return providers.add(stored);
  }

  /** Removes an operator's provider with its key, or one of its models. */
  async removeProvider(
    principal: string,
    name: string,
    model: string | undefined,
  ): Promise<ProviderView | null> {
    const { db, outbox, providers, keys, newId } = this.#deps;
    if (model !== undefined) return this.#removeModel(principal, name, model);
    providers.readAdded(name);
    providers.assertNotRouted(name);
    await db.write(async (sql) => {
      await deleteProvider(sql, name);
      const data = { provider: name };
      await outbox.add(sql, { id: newId('provider'), event: 'provider.removed', principal, data });
    });
    outbox.wake();
    providers.remove(name);
    // The key last: a provider stored without its key would fail after the next restart.
    keys.remove(name);
    return null;
  }

  #removeModel(principal: string, name: string, model: string): Promise<ProviderView> {
    const { providers } = this.#deps;
    const { dialect, baseUrl: base_url, models } = providers.readAdded(name);
    if (!models.includes(model))
      throw fault('not_found', `provider ${name} has no model ${model}`, {
        hint: 'List the models: agentctl model list.',
      });
    const left = models.filter((one) => one !== model);
    return this.addProvider(principal, name, { dialect, base_url, models: left });
  }

  async setAlias(principal: string, pattern: string, model: string | null): Promise<void> {
    const { db, outbox, providers, newId } = this.#deps;
    providers.assertCanAlias(pattern, model);
    await db.write(async (sql) => {
      await writeAlias(sql, pattern, model);
      const data = { pattern, model };
      await outbox.add(sql, { id: newId('alias'), event: 'alias.set', principal, data });
    });
    outbox.wake();
    providers.setAlias(pattern, model);
  }

  /** Deletes the body. The hash stays, so that the record stays verifiable. */
  async forgetPart(principal: string, hash: string): Promise<boolean> {
    const { db, outbox, journal, newId } = this.#deps;
    await journal.flush();
    const forgotten = await db.write(async (sql) => {
      if (!(await forgetBody(sql, hash))) return false;
      await outbox.add(sql, {
        id: newId('forgotten'),
        event: 'model.part.forgotten',
        principal,
        data: { hash },
      });
      return true;
    });
    outbox.wake();
    return forgotten;
  }
}

const isPayer = (subject: BudgetSubject): subject is Payer['subject'] =>
  subject === 'key' || subject === 'person';

function readName({ subject, name = '' }: BudgetChange): string {
  if (subject === 'site' || subject === 'day') {
    if (name !== '') throw fault('bad_request', `the ${subject} budget has no name`);
    return '';
  }
  if (name === '') throw fault('bad_request', `name: the budget needs the name of its ${subject}`);
  return name.replace(/^agent:/, '');
}
