// Rules of budgets: which ones a call is charged to, how much it may reserve so that none is
// overspent, and the fault of a refusal. The ledger is budgets.ts.
import { type Fault, fault } from '../../../wire/errors.ts';
import type { BudgetPeriod, BudgetView, Usage } from '../../../wire/modeld.ts';

export type BudgetSubject = BudgetView['subject'];
export type Amount = { tokens: number; costMicrousd: number };
/** `period` is the day or month for budgets that renew, '' for the others. */
export type BudgetKey = { subject: BudgetSubject; name: string; period: string };

/** A call that cannot write this much output is not worth its input. */
const OUTPUT_TOKENS_USEFUL = 16;
/** A call waits for others rather than be cut to less than this. */
export const OUTPUT_TOKENS_COMFORTABLE = 4_096;

export function formatKey(key: BudgetKey): string {
  return `${key.subject} ${key.name} ${key.period}`;
}

const DAY_MS = 86_400_000;

/** The day asked for last: every call asks, nearly always for the same one. */
let known = { number: Number.NaN, day: '' };

export function toDay(ms: number): string {
  const number = Math.floor(ms / DAY_MS);
  if (number !== known.number) known = { number, day: new Date(ms).toISOString().slice(0, 10) };
  return known.day;
}

const MONTH_CHARS = 'YYYY-MM'.length;

export function readPeriod({ period }: BudgetKey): BudgetPeriod {
  if (period === '') return 'total';
  return period.length === MONTH_CHARS ? 'month' : 'day';
}

/** Returns true for a budget of a day or month before this day. */
export function isOver({ period }: BudgetKey, day: string): boolean {
  return period !== '' && period < day.slice(0, period.length);
}

export function computeRenewal(key: BudgetKey): string | null {
  if (key.period === '') return null;
  if (readPeriod(key) === 'month') {
    const [year, month] = key.period.split('-').map(Number);
    return new Date(Date.UTC(year!, month!)).toISOString();
  }
  return new Date(Date.parse(`${key.period}T00:00:00.000Z`) + DAY_MS).toISOString();
}

export function makeBudgetKey(subject: BudgetSubject, name: string, day: string): BudgetKey {
  return { subject, name, period: subject === 'day' || subject === 'agent' ? day : '' };
}

export type Payer = { subject: 'key' | 'person'; name: string };

/** Returns who pays for a call apart from tasks: an API key and its owner, or a person. */
export function listPayers({
  principal,
  owner,
}: {
  principal: string;
  owner: string | null;
}): Payer[] {
  const payers: Payer[] = [];
  if (principal.startsWith('key:')) payers.push({ subject: 'key', name: principal.slice(4) });
  if (owner !== null) payers.push({ subject: 'person', name: owner });
  return payers;
}

/** Returns the person who makes a call without an API key; a run acts for nobody here. */
export function readPerson(principal: string): string | null {
  return principal.startsWith('person:') ? principal.slice('person:'.length) : null;
}

export function makePayerKey(
  { subject, name }: Payer,
  period: BudgetPeriod,
  day: string,
): BudgetKey {
  const periods = { day, month: day.slice(0, MONTH_CHARS), total: '' };
  return { subject, name, period: periods[period] };
}

/** Returns the budgets that a call is charged to. Only runs have an agent and a task. */
export function listBudgets(call: {
  runId: string | null;
  agent: string;
  taskId: string | null;
  rootTaskId: string | null;
  day: string;
}): BudgetKey[] {
  const keys = [makeBudgetKey('site', '', call.day), makeBudgetKey('day', '', call.day)];
  if (call.runId === null) return keys;
  keys.push(makeBudgetKey('agent', call.agent, call.day));
  if (call.rootTaskId !== null) keys.push(makeBudgetKey('task', call.rootTaskId, call.day));
  if (call.taskId !== null && call.taskId !== call.rootTaskId)
    keys.push(makeBudgetKey('task', call.taskId, call.day));
  return keys;
}

/** The most a call can use. `costOf` grows with the output tokens. */
export type CostBound = {
  inputTokens: number;
  outputTokensWanted: number;
  /** With less it fails at the provider, or is useless to the caller. */
  outputTokensMin?: number | undefined;
  computeCost: (outputTokens: number) => number;
};
export type BudgetRemaining = {
  key: BudgetKey;
  tokens: number | null;
  costMicrousd: number | null;
  tokensLimit: number | null;
  costLimitMicrousd: number | null;
  /** The rest without the calls that are under way. */
  unreserved?: { tokens: number | null; costMicrousd: number | null };
};
export type BudgetFit = Amount & { outputTokensMax: number };
export type BudgetRefusal = { budget: BudgetRemaining; unit: 'tokens' | 'cost'; needed: number };

function fitOutput(
  left: BudgetRemaining,
  bound: CostBound,
): { tokens: number; unit: 'tokens' | 'cost' } {
  const byTokens = (left.tokens ?? Number.POSITIVE_INFINITY) - bound.inputTokens;
  const byCost =
    left.costMicrousd === null ? Number.POSITIVE_INFINITY : outputForCost(left.costMicrousd, bound);
  return byTokens <= byCost
    ? { tokens: byTokens, unit: 'tokens' }
    : { tokens: byCost, unit: 'cost' };
}

/** Returns the maximum output for this cost; -1 when the input alone costs more. */
function outputForCost(costMicrousd: number, bound: CostBound): number {
  if (bound.computeCost(bound.outputTokensWanted) <= costMicrousd) return bound.outputTokensWanted;
  if (bound.computeCost(0) > costMicrousd) return -1;
  let low = 0;
  let high = bound.outputTokensWanted;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (bound.computeCost(middle) <= costMicrousd) low = middle;
    else high = middle;
  }
  return low;
}

/** Returns how much the call may use without overspending a budget, or the budget that refuses. */
export function fitToBudgets(
  budgets: readonly BudgetRemaining[],
  bound: CostBound,
): BudgetFit | BudgetRefusal {
  let outputTokensMax = bound.outputTokensWanted;
  const least = Math.max(OUTPUT_TOKENS_USEFUL, bound.outputTokensMin ?? 0);
  const useful = Math.min(bound.outputTokensWanted, least);
  for (const budget of budgets) {
    const within = fitOutput(budget, bound);
    if (within.tokens < useful) {
      const needed =
        within.unit === 'tokens' ? bound.inputTokens + useful : bound.computeCost(useful);
      return { budget, unit: within.unit, needed };
    }
    outputTokensMax = Math.min(outputTokensMax, within.tokens);
  }
  return {
    outputTokensMax,
    tokens: bound.inputTokens + outputTokensMax,
    costMicrousd: bound.computeCost(outputTokensMax),
  };
}

export function formatUsd(microusd: number): string {
  return `$${(microusd / 1_000_000).toFixed(6).replace(/(\.\d\d\d*?)0+$/, '$1')}`;
}

function describeBudget(key: BudgetKey): string {
  if (key.subject === 'site') return 'the site budget';
  if (key.subject === 'day') return 'the daily budget';
  return `the budget of ${key.subject} ${key.name}`;
}

/** Calls that are under way explain why there is less than the spending shows. */
function describeReserved({ tokens, costMicrousd, unreserved }: BudgetRemaining, unit: string) {
  const reserved =
    unit === 'tokens'
      ? (unreserved?.tokens ?? 0) - (tokens ?? 0)
      : (unreserved?.costMicrousd ?? 0) - (costMicrousd ?? 0);
  if (reserved <= 0) return '';
  const amount = unit === 'tokens' ? `${reserved} tokens` : formatUsd(reserved);
  return ` (calls under way may use ${amount})`;
}

export function budgetFault({ budget, unit, needed }: BudgetRefusal): Fault {
  const { key } = budget;
  const renews = computeRenewal(key);
  const left = unit === 'tokens' ? `${budget.tokens} tokens` : formatUsd(budget.costMicrousd ?? 0);
  const limit =
    unit === 'tokens' ? `${budget.tokensLimit} tokens` : formatUsd(budget.costLimitMicrousd ?? 0);
  const need = unit === 'tokens' ? `${needed} tokens` : formatUsd(needed);
  const who = key.name === '' ? '' : ` ${key.name}`;
  const option = unit === 'tokens' ? '--tokens N' : '--cost USD';
  const command = `agentctl model budget ${key.subject}${who} ${option}`;
  const wait = renews === null ? '' : ` It renews at ${renews}.`;
  const held = describeReserved(budget, unit);
  return fault(
    'budget',
    `${describeBudget(key)} has ${left} left of ${limit}${held}; this call may need ${need}`,
    {
      hint: `An operator can raise it: ${command}.${wait}`,
      details: {
        subject: key.subject,
        name: key.name,
        unit: unit === 'tokens' ? 'tokens' : 'microusd',
        left: unit === 'tokens' ? budget.tokens : budget.costMicrousd,
        limit: unit === 'tokens' ? budget.tokensLimit : budget.costLimitMicrousd,
        needed,
        renews_at: renews,
        raised_by: 'operator',
      },
    },
  );
}

export function sumTokens(usage: Usage): number {
  return (
    usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens
  );
}

export const NO_USAGE: Usage = {
  input_tokens: 0,
  output_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  reasoning_tokens: 0,
};
