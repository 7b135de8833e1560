// Restores at startup what a crash lost from the journal. A call is durable in the audit log before
// it is in the journal's file, so after a power failure missing rows are rewritten from the log,
// without texts. Calls without an outcome are charged in full: they may have reached a model.

import { retryWithBackoff } from '../../../platform/backoff.ts';
import type { Log } from '../../../platform/log.ts';
import type { Database } from '../../../platform/sql/database.ts';
import type { DeferredSyncDatabase } from '../../../platform/sql/deferred-sync.ts';
import type { SqlNow } from '../../../platform/sql/sqlite.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { NewEvent } from '../../../wire/events.ts';
import {
  type BudgetKey,
  listBudgets,
  listPayers,
  makePayerKey,
  readPerson,
  toDay,
} from '../rules/budget.ts';
import { REHEARSAL } from '../rules/models.ts';
import { readKeys } from '../store/api-keys.ts';
import { LAST_COUNTED, LAST_SEQ, type ModelCallRow, readRunningCalls } from '../store/calls.ts';
import type { CallOutcome, Intent } from '../store/entries.ts';
import type { Journal } from '../store/journal.ts';
import { writeIntent, writeOutcome, writeSpent } from '../store/rows.ts';
import { readStandingLimits } from '../store/settings.ts';
import { addUsage } from '../store/usage.ts';
import { makeUnknownEvent } from './events.ts';

/** Fetches a page of this store's events after a number, in order; an empty page is the end. */
export type FetchEvents = (after: number) => Promise<readonly NewEvent[]>;

/** Returns the budgets of the API key and the person that pay for a principal's calls. */
export type ListOwnBudgets = (principal: string, day: string) => BudgetKey[];

/** Reads once what does not change while nothing runs: limits, and the owners of keys. */
export async function readOwnBudgets(db: Database): Promise<ListOwnBudgets> {
  const [limits, keys] = await db.read(async (sql) => [
    await readStandingLimits(sql),
    await readKeys(sql),
  ]);
  const owners = new Map(keys.map(({ name, owner }) => [`key:${name}`, owner]));
  return (principal, day) => {
    const owner = owners.get(principal) ?? readPerson(principal);
    return listPayers({ principal, owner }).flatMap((payer) => {
      const limit = limits.find((one) => one.subject === payer.subject && one.name === payer.name);
      return limit === undefined ? [] : [makePayerKey(payer, limit.period ?? 'total', day)];
    });
  };
}

const BACKOFF_MS_MAX = 500;
const OUTAGE_MS_MAX = 10_000;

/** Resolves to the events that the audit log has and this store lost. */
export async function fetchLostEvents(
  fetchPage: FetchEvents,
  after: number,
  log: Log,
): Promise<NewEvent[]> {
  let isLogged = false;
  const isUnavailable = (error: unknown): boolean => {
    if (!(error instanceof Fault) || error.code !== 'unavailable') return false;
    if (!isLogged) log.warn('waiting for the audit log', { error });
    isLogged = true;
    return true;
  };
  const lost: NewEvent[] = [];
  for (let last = after; ; ) {
    const page = await retryWithBackoff(() => fetchPage(last), {
      isTransient: isUnavailable,
      backoffMsMax: BACKOFF_MS_MAX,
      timeoutMs: OUTAGE_MS_MAX,
    });
    if (page.length === 0) return lost;
    lost.push(...page);
    last = page.at(-1)!.source_seq;
  }
}

/** Resolves to how many calls and outcomes were restored. Existing rows stay as they are. */
export async function restoreFromAudit(
  db: DeferredSyncDatabase,
  events: readonly NewEvent[],
  listOwnBudgets: ListOwnBudgets,
): Promise<{ calls: number; outcomes: number }> {
  if (events.length === 0) return { calls: 0, outcomes: 0 };
  const { value, syncNow } = await db.commit((sql) => {
    const count = { calls: 0, outcomes: 0 };
    for (const event of events) {
      if (event.event === 'model.call.attempted' && restoreIntent(sql, event)) count.calls++;
      if (event.event === 'model.call.ended' && restoreOutcome(sql, event, listOwnBudgets))
        count.outcomes++;
    }
    return count;
  });
  await syncNow();
  return value;
}

/** Ends calls without an outcome as unknown, at the reserved charge. Resolves to their number. */
export async function settleLeftCalls(options: {
  db: Database;
  journal: Journal;
  nowMs: () => number;
  listOwnBudgets: ListOwnBudgets;
}): Promise<number> {
  const { db, journal, nowMs, listOwnBudgets } = options;
  const rows = await db.read(readRunningCalls);
  await Promise.all(
    rows.map((row) => journal.outcome(makeUnknownOutcome(row, nowMs(), listOwnBudgets))),
  );
  return rows.length;
}

function restoreIntent(sql: SqlNow, event: NewEvent): boolean {
  if (findAttempt(sql, event) !== undefined) return false;
  const found = sql.one<{ seq: number | null }>(LAST_SEQ)?.seq ?? 0;
  const seq = Math.max(found, sql.one<{ seq: number }>(LAST_COUNTED)!.seq) + 1;
  writeIntent(sql, { seq, intent: readIntent(event) });
  return true;
}

function readIntent(event: NewEvent): Parameters<typeof writeIntent>[1]['intent'] {
  const data = event.data ?? {};
  // Events of earlier versions do not name the provider.
  const provider = String(data.provider ?? '');
  return {
    callId: event.call_id!,
    attempt: Number(data.attempt),
    runId: event.run_id ?? null,
    fence: null,
    principal: event.principal!,
    agent: event.agent ?? '',
    taskId: event.task_id ?? null,
    rootTaskId: event.root_task_id ?? null,
    via: data.via as Intent['via'],
    model: event.model!,
    provider,
    upstreamModel: String(data.upstream_model ?? event.model),
    rehearsal: provider === REHEARSAL,
    purpose: '',
    requestHash: String(data.request_hash),
    context: '',
    params: '',
    reserved: {
      tokens: Number(data.reserved_tokens),
      costMicrousd: Number(data.reserved_microusd),
    },
    createdMs: Date.parse(event.ts),
  };
}

/** The response was lost, so a repeated call makes a new attempt; the charge is known. */
function restoreOutcome(sql: SqlNow, event: NewEvent, listOwnBudgets: ListOwnBudgets): boolean {
  const row = findAttempt(sql, event);
  if (row?.status !== 'running') return false;
  const data = event.data ?? {};
  const count = (name: string): number => Number(data[name] ?? 0);
  const charged = { tokens: count('charged_tokens'), costMicrousd: count('cost_microusd') };
  const reason = fault(
    'unavailable',
    `the response of ${row.call_id} was lost in a power failure or crash`,
  );
  const outcome = {
    seq: row.seq,
    status: 'unknown',
    provider: String(data.provider),
    upstreamModel: String(data.upstream_model),
    stopReason: null,
    usage:
      data.input_tokens === undefined
        ? null
        : {
            input_tokens: count('input_tokens'),
            output_tokens: count('output_tokens'),
            cache_read_tokens: count('cache_read_tokens'),
            cache_write_tokens: count('cache_write_tokens'),
            reasoning_tokens: count('reasoning_tokens'),
          },
    charged,
    response: null,
    error: reason.toBody(),
    tries: count('tries'),
    endedMs: Date.parse(event.ts),
  } as const;
  writeOutcome(sql, outcome);
  const { principal, agent, created_ms: createdMs } = row;
  addUsage(sql, [{ ...outcome, principal, agent, createdMs }]);
  for (const key of listBudgetsOfRow(row, listOwnBudgets)) writeSpent(sql, { key, ...charged });
  return true;
}

function findAttempt(sql: SqlNow, { call_id, data }: NewEvent): ModelCallRow | undefined {
  return sql.one<ModelCallRow>(
    'SELECT * FROM model_calls WHERE call_id = ? AND attempt = ?',
    call_id!,
    Number(data?.attempt),
  );
}

function makeUnknownOutcome(
  row: ModelCallRow,
  nowMs: number,
  listOwnBudgets: ListOwnBudgets,
): CallOutcome {
  const charged = { tokens: row.reserved_tokens, costMicrousd: row.reserved_cost };
  const reason = fault('unavailable', `modeld stopped while ${row.call_id} was running`);
  return {
    seq: row.seq,
    callId: row.call_id,
    principal: row.principal,
    agent: row.agent,
    createdMs: row.created_ms,
    status: 'unknown',
    provider: row.provider,
    upstreamModel: row.upstream_model,
    stopReason: null,
    usage: null,
    charged,
    response: null,
    error: reason.toBody(),
    tries: row.tries,
    endedMs: nowMs,
    spent: listBudgetsOfRow(row, listOwnBudgets).map((key) => ({ key, ...charged })),
    event: makeUnknownEvent(row),
  };
}

function listBudgetsOfRow(row: ModelCallRow, listOwnBudgets: ListOwnBudgets): BudgetKey[] {
  const day = toDay(row.created_ms);
  const { run_id: runId, agent, task_id: taskId, root_task_id: rootTaskId, principal } = row;
  const ofTask = listBudgets({ runId, agent, taskId, rootTaskId, day });
  return [...ofTask, ...listOwnBudgets(principal, day)];
}
