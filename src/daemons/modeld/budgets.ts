// The ledger of money and tokens: what each budget may spend, has spent and holds in reserve. It
// lives in memory and decides without waiting, so that callers at the same moment cannot both take
// the last of it; every change it allows is written by the journal in the transaction of the call
// it belongs to.
import type { BudgetView } from '../../wire/modeld.ts';
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
} from './rules/budget.ts';

/** Who said a limit. A later one in this list is not overruled by an earlier one. */
export const SET_BY = ['config', 'agentd', 'operator'] as const;
export type SetBy = (typeof SET_BY)[number];

export type Limit = {
  subject: BudgetSubject;
  name: string;
  tokensLimit: number | null;
  costLimitMicrousd: number | null;
  setBy: SetBy;
};
export type SpentAmount = { key: BudgetKey } & Amount;

type Entry = {
  key: BudgetKey;
  spent: Amount;
  reserved: Amount;
  /** Runs that still need it in memory. */
  holders: number;
};
type BudgetLimits = { tokensLimit: number | null; costLimitMicrousd: number | null };

/** What one attempt holds until it is settled. */
export type Reservation = { amount: Amount; outputTokensMax: number; entries: Entry[] };

function newEntry(key: BudgetKey, spent: Amount): Entry {
  return { key, spent, reserved: { tokens: 0, costMicrousd: 0 }, holders: 0 };
}

const makeLimitKey = (subject: string, name: string): string => `${subject} ${name}`;

export class Budgets {
  readonly #limits = new Map<string, Limit>();
  readonly #entries = new Map<string, Entry>();
  #period = '';
  readonly #agentDefault: { tokens: number | null; costMicrousd: number | null };

  constructor(start: {
    limits: readonly Limit[];
    spent: readonly SpentAmount[];
    agentDefault: { tokens: number | null; costMicrousd: number | null };
  }) {
    this.#agentDefault = start.agentDefault;
    for (const limit of start.limits) this.setLimit(limit);
    for (const spent of start.spent) this.load(spent);
  }

  /**
   * A limit said by somebody of lower standing than the present one is not taken; false says so.
   */
  setLimit(limit: Limit): boolean {
    const at = makeLimitKey(limit.subject, limit.name);
    const found = this.#limits.get(at);
    if (found !== undefined && SET_BY.indexOf(found.setBy) > SET_BY.indexOf(limit.setBy))
      return false;
    this.#limits.set(at, limit);
    return true;
  }

  getLimit(subject: BudgetSubject, name: string): Limit | undefined {
    return this.#limits.get(makeLimitKey(subject, name));
  }

  /** What the store remembers of a budget that is not in memory yet. */
  load(spent: SpentAmount): void {
    const at = formatKey(spent.key);
    if (this.#entries.has(at)) return;
    const { tokens, costMicrousd } = spent;
    this.#entries.set(at, newEntry(spent.key, { tokens, costMicrousd }));
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

  /** Drops the tasks nobody needs in memory. Only while everything they spent is in the store. */
  sweep(): void {
    for (const [at, { key, reserved, holders }] of this.#entries) {
      if (key.subject !== 'task' || holders > 0) continue;
      if (reserved.tokens !== 0 || reserved.costMicrousd !== 0) continue;
      this.#entries.delete(at);
      this.#limits.delete(makeLimitKey(key.subject, key.name));
    }
  }

  /**
   * Takes the bound from every budget or from none. The output is cut to what the tightest one has
   * left.
   */
  reserve(keys: readonly BudgetKey[], bound: CostBound): Reservation | BudgetRefusal {
    const entries = keys.map((key) => this.#getEntry(key));
    const fit = fitToBudgets(
      entries.map((entry) => this.#computeRemaining(entry)),
      bound,
    );
    if ('budget' in fit) return fit;
    const amount = { tokens: fit.tokens, costMicrousd: fit.costMicrousd };
    for (const { reserved } of entries) {
      reserved.tokens += amount.tokens;
      reserved.costMicrousd += amount.costMicrousd;
    }
    return { amount, outputTokensMax: fit.outputTokensMax, entries };
  }

  /** Gives the reservation back and books what was really used. To be called once. */
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
    return booked;
  }

  /** False when no budget of it could ever refuse. */
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
      tokens_limit: tokensLimit,
      tokens_spent: entry?.spent.tokens ?? 0,
      tokens_reserved: entry?.reserved.tokens ?? 0,
      cost_limit_microusd: costLimitMicrousd,
      cost_spent_microusd: entry?.spent.costMicrousd ?? 0,
      cost_reserved_microusd: entry?.reserved.costMicrousd ?? 0,
      renews_at: computeRenewal(key),
    };
  }

  /** Everything in memory of these periods, and every subject with a limit. */
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

  /**
   * A new day: what is left of the days before is in the store only, but for calls still running.
   */
  #renew(period: string): void {
    this.#period = period;
    for (const [at, { key, reserved, holders }] of this.#entries) {
      const isOld = key.period !== '' && key.period < period;
      if (isOld && holders === 0 && reserved.tokens === 0 && reserved.costMicrousd === 0)
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
    const left = (limit: number | null, used: number): number | null =>
      limit === null ? null : Math.max(0, limit - used);
    return {
      key,
      tokens: left(tokensLimit, spent.tokens + reserved.tokens),
      costMicrousd: left(costLimitMicrousd, spent.costMicrousd + reserved.costMicrousd),
      tokensLimit,
      costLimitMicrousd,
    };
  }
}
