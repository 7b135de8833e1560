// The ledger of money and tokens: each budget's limit, spending and reservations. It decides in
// memory without awaiting, so that concurrent callers cannot both reserve the last of a budget; the
// journal writes every change in the transaction of its call.
import type { BudgetPeriod, BudgetView } from '../../wire/modeld.ts';
import {
  type Amount,
  type BudgetKey,
  type BudgetRefusal,
  type BudgetRemaining,
  type BudgetSubject,
  type CostBound,
  computeRenewal,
  fitToBudgets,
  formatKey,
  isOver,
  makePayerKey,
  OUTPUT_TOKENS_COMFORTABLE,
  type Payer,
  readPeriod,
} from './rules/budget.ts';

/** Sources of a limit, in ascending precedence. */
export const SET_BY = ['config', 'agentd', 'operator'] as const;
export type SetBy = (typeof SET_BY)[number];

export type Limit = {
  subject: BudgetSubject;
  name: string;
  tokensLimit: number | null;
  costLimitMicrousd: number | null;
  setBy: SetBy;
  /** Set for a key or a person; the other subjects have a period of their own. */
  period?: BudgetPeriod | undefined;
};
export type SpentAmount = { key: BudgetKey } & Amount;

type Entry = {
  key: BudgetKey;
  spent: Amount;
  reserved: Amount;
  /** Number of runs that need it in memory. */
  holders: number;
};
type BudgetLimits = { tokensLimit: number | null; costLimitMicrousd: number | null };

/** One attempt's reservation, until it is settled. */
export type Reservation = { amount: Amount; outputTokensMax: number; entries: Entry[] };

function newEntry(key: BudgetKey, spent: Amount): Entry {
  return { key, spent, reserved: { tokens: 0, costMicrousd: 0 }, holders: 0 };
}

const makeLimitKey = (subject: string, name: string): string => `${subject} ${name}`;

function computeLeft(limit: number | null, used: number): number | null {
  return limit === null ? null : Math.max(0, limit - used);
}

/** The rest if nothing that is under way costs anything. */
function withoutReservations(budget: BudgetRemaining): BudgetRemaining {
  return { ...budget, ...budget.unreserved };
}

export class Budgets {
  readonly #limits = new Map<string, Limit>();
  readonly #entries = new Map<string, Entry>();
  #period = '';
  /** Called when more may be left than before. */
  onReleased: () => void = () => {};
  #agentDefault: { tokens: number | null; costMicrousd: number | null };

  constructor(start: {
    limits: readonly Limit[];
    spent: readonly SpentAmount[];
    agentDefault: { tokens: number | null; costMicrousd: number | null };
  }) {
    this.#agentDefault = start.agentDefault;
    for (const limit of start.limits) this.setLimit(limit);
    for (const spent of start.spent) this.load(spent);
  }

  /** Returns false when the current limit has higher precedence and stays. */
  setAgentDefault(limit: { tokens: number | null; costMicrousd: number | null }): void {
    this.#agentDefault = limit;
    this.onReleased();
  }

  setLimit(limit: Limit): boolean {
    const at = makeLimitKey(limit.subject, limit.name);
    const found = this.#limits.get(at);
    if (found !== undefined && SET_BY.indexOf(found.setBy) > SET_BY.indexOf(limit.setBy))
      return false;
    this.#limits.set(at, limit);
    this.onReleased();
    return true;
  }

  getLimit(subject: BudgetSubject, name: string): Limit | undefined {
    return this.#limits.get(makeLimitKey(subject, name));
  }

  /** Adds a budget from the store, unless it is in memory. */
  load(spent: SpentAmount): void {
    const at = formatKey(spent.key);
    if (this.#entries.has(at)) return;
    const { tokens, costMicrousd } = spent;
    this.#entries.set(at, newEntry(spent.key, { tokens, costMicrousd }));
  }

  /** The budget of one of these that have a limit; without one, nothing is counted. */
  listPayerKeys(payers: readonly Payer[], day: string): BudgetKey[] {
    return payers.flatMap((payer) => {
      const limit = this.getLimit(payer.subject, payer.name);
      return limit === undefined ? [] : [makePayerKey(payer, limit.period ?? 'total', day)];
    });
  }

  has(key: BudgetKey): boolean {
    return this.#entries.has(formatKey(key));
  }

  hold(key: BudgetKey): void {
    this.#getEntry(key).holders++;
  }

  release(keys: readonly BudgetKey[]): void {
    for (const key of keys) {
      const entry = this.#entries.get(formatKey(key));
      if (entry !== undefined) entry.holders = Math.max(0, entry.holders - 1);
    }
  }

  /** Drops tasks that no run needs. Call it only while all their spending is in the store. */
  sweep(): void {
    for (const [at, { key, reserved, holders }] of this.#entries) {
      if (key.subject !== 'task' || holders > 0) continue;
      if (reserved.tokens !== 0 || reserved.costMicrousd !== 0) continue;
      this.#entries.delete(at);
      this.#limits.delete(makeLimitKey(key.subject, key.name));
    }
  }

  /**
   * Reserves in every budget or in none. The output is clamped to the tightest budget. If it may
   * wait, it does so rather than be clamped to little by what others have reserved.
   */
  reserve(
    keys: readonly BudgetKey[],
    bound: CostBound,
    { mayWait = false } = {},
  ): Reservation | BudgetRefusal | { blockedBy: BudgetKey } {
    const entries = keys.map((key) => this.#getEntry(key));
    const left = entries.map((entry) => this.#computeRemaining(entry));
    let comfort = 0;
    if (mayWait) {
      const later = fitToBudgets(left.map(withoutReservations), bound);
      if ('budget' in later) return later;
      comfort = Math.min(later.outputTokensMax, OUTPUT_TOKENS_COMFORTABLE);
    }
    const outputTokensMin = Math.max(bound.outputTokensMin ?? 0, comfort);
    const fit = fitToBudgets(left, { ...bound, outputTokensMin });
    if ('budget' in fit) return mayWait ? { blockedBy: fit.budget.key } : fit;
    const amount = { tokens: fit.tokens, costMicrousd: fit.costMicrousd };
    for (const { reserved } of entries) {
      reserved.tokens += amount.tokens;
      reserved.costMicrousd += amount.costMicrousd;
    }
    return { amount, outputTokensMax: fit.outputTokensMax, entries };
  }

  /** Releases the reservation and books the actual usage. Call it once. */
  settle(reservation: Reservation, actual: Amount): SpentAmount[] {
    const booked: SpentAmount[] = [];
    for (const { key, spent, reserved } of reservation.entries) {
      reserved.tokens -= reservation.amount.tokens;
      reserved.costMicrousd -= reservation.amount.costMicrousd;
      spent.tokens += actual.tokens;
      spent.costMicrousd += actual.costMicrousd;
      booked.push({ key, ...actual });
    }
    reservation.entries = [];
    this.onReleased();
    return booked;
  }

  /** Returns false when none of its budgets has a limit. */
  isLimited({ entries }: Reservation): boolean {
    return entries.some(({ key }) => {
      const { tokensLimit, costLimitMicrousd } = this.#findLimit(key);
      return tokensLimit !== null || costLimitMicrousd !== null;
    });
  }

  view(key: BudgetKey): BudgetView {
    const entry = this.#entries.get(formatKey(key));
    const { tokensLimit, costLimitMicrousd } = this.#findLimit(key);
    return {
      subject: key.subject,
      name: key.name,
      period: readPeriod(key),
      tokens_limit: tokensLimit,
      tokens_spent: entry?.spent.tokens ?? 0,
      tokens_reserved: entry?.reserved.tokens ?? 0,
      cost_limit_microusd: costLimitMicrousd,
      cost_spent_microusd: entry?.spent.costMicrousd ?? 0,
      cost_reserved_microusd: entry?.reserved.costMicrousd ?? 0,
      renews_at: computeRenewal(key),
    };
  }

  listKeys(): BudgetKey[] {
    return [...this.#entries.values()].map((entry) => entry.key);
  }

  listLimits(): Limit[] {
    return [...this.#limits.values()];
  }

  #getEntry(key: BudgetKey): Entry {
    const at = formatKey(key);
    const found = this.#entries.get(at);
    if (found !== undefined) return found;
    if (key.period > this.#period) this.#renew(key.period);
    const entry = newEntry(key, { tokens: 0, costMicrousd: 0 });
    this.#entries.set(at, entry);
    return entry;
  }

  /** Drops budgets of earlier days and months from memory, except those with calls in flight. */
  #renew(period: string): void {
    this.#period = period;
    for (const [at, { key, reserved, holders }] of this.#entries) {
      if (
        isOver(key, period) &&
        holders === 0 &&
        reserved.tokens === 0 &&
        reserved.costMicrousd === 0
      )
        this.#entries.delete(at);
    }
  }

  #findLimit(key: BudgetKey): BudgetLimits {
    const found = this.#limits.get(makeLimitKey(key.subject, key.name));
    if (found !== undefined) return found;
    if (key.subject !== 'agent') return { tokensLimit: null, costLimitMicrousd: null };
    const { tokens, costMicrousd } = this.#agentDefault;
    return { tokensLimit: tokens, costLimitMicrousd: costMicrousd };
  }

  #computeRemaining({ key, spent, reserved }: Entry): BudgetRemaining {
    const { tokensLimit, costLimitMicrousd } = this.#findLimit(key);
    return {
      key,
      tokens: computeLeft(tokensLimit, spent.tokens + reserved.tokens),
      costMicrousd: computeLeft(costLimitMicrousd, spent.costMicrousd + reserved.costMicrousd),
      tokensLimit,
      costLimitMicrousd,
      unreserved: {
        tokens: computeLeft(tokensLimit, spent.tokens),
        costMicrousd: computeLeft(costLimitMicrousd, spent.costMicrousd),
      },
    };
  }
}
