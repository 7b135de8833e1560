// Writes the rows of one journal transaction. A budget that several of its outcomes charge is
// written once, so are the sums of an hour and a part that several of its calls have, and all its
// events are one row of the outbox.
import type { Outbox } from '../../../platform/outbox.ts';
import type { SqlNow } from '../../../platform/sql/sqlite.ts';
import type { EventDraft } from '../../../wire/events.ts';
import type { SpentAmount } from '../budgets.ts';
import type { BudgetKey } from '../rules/budget.ts';
import type { CallOutcome, Intent, Work } from './entries.ts';
import { type ContextPart, writePart } from './parts.ts';
import { addUsage } from './usage.ts';

export class RowWriter {
  readonly #outbox: Outbox;

  constructor(outbox: Outbox) {
    this.#outbox = outbox;
  }

  /** Returns the last event's number, 0 when there is none. */
  writeAll(sql: SqlNow, works: readonly Work[]): number {
    const spent = new Map<BudgetKey, SpentAmount>();
    const events: EventDraft[] = [];
    const parts = new Map<string, ContextPart>();
    const ended: CallOutcome[] = [];
    let nowMs = 0;
    for (const work of works) {
      if (work.kind === 'intent') {
        writeIntent(sql, work);
        nowMs = Math.max(nowMs, work.intent.createdMs);
        for (const part of work.intent.parts) addPart(parts, part);
        events.push(work.intent.event);
      } else if (work.kind === 'outcome') {
        if (writeOutcome(sql, work.outcome)) ended.push(work.outcome);
        nowMs = Math.max(nowMs, work.outcome.endedMs);
        if (work.outcome.response !== null) addPart(parts, work.outcome.response);
        events.push(work.outcome.event);
        for (const amount of work.outcome.spent) addSpent(spent, amount);
      } else if (work.kind === 'raise') {
        sql.run(
          'UPDATE model_calls SET reserved_tokens = ?, reserved_cost = ? WHERE seq = ?',
          work.reserved.tokens,
          work.reserved.costMicrousd,
          work.seq,
        );
      }
    }
    addUsage(sql, ended);
    for (const part of parts.values()) writePart(sql, part, nowMs);
    for (const amount of spent.values()) writeSpent(sql, amount);
    return events.length === 0 ? 0 : this.#outbox.addAll(sql, events);
  }
}

type IntentRow = Omit<Intent, 'parts' | 'event'>;

export function writeIntent(
  sql: SqlNow,
  { seq, intent: i }: { seq: number; intent: IntentRow },
): void {
  sql.run(
    `INSERT INTO model_calls (seq, call_id, attempt, status, run_id, fence, principal, agent,
      task_id, root_task_id, via, model, provider, upstream_model, rehearsal, purpose,
      request_hash, context, params, reserved_tokens, reserved_cost, created_ms)
     VALUES (?, ?, ?, 'running', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    seq,
    i.callId,
    i.attempt,
    i.runId,
    i.fence,
    i.principal,
    i.agent,
    i.taskId,
    i.rootTaskId,
    i.via,
    i.model,
    i.provider,
    i.upstreamModel,
    i.rehearsal ? 1 : 0,
    i.purpose,
    i.requestHash,
    Buffer.from(i.context, 'hex'),
    i.params,
    i.reserved.tokens,
    i.reserved.costMicrousd,
    i.createdMs,
  );
}

type OutcomeRow = Omit<
  CallOutcome,
  'callId' | 'principal' | 'agent' | 'createdMs' | 'spent' | 'event'
>;

/** Returns false, and writes nothing, when the call had an outcome already. */
export function writeOutcome(sql: SqlNow, o: OutcomeRow): boolean {
  const written = sql.change(
    `UPDATE model_calls SET status = ?, provider = ?, upstream_model = ?, ended_ms = ?,
      stop_reason = ?, response = ?, error = ?, tries = ?, input_tokens = ?, output_tokens = ?,
      cache_read_tokens = ?, cache_write_tokens = ?, reasoning_tokens = ?, charged_tokens = ?,
      cost = ?
     WHERE seq = ? AND status = 'running'`,
    o.status,
    o.provider,
    o.upstreamModel,
    o.endedMs,
    o.stopReason,
    o.response?.hash ?? null,
    o.error === null ? null : JSON.stringify(o.error),
    o.tries,
    o.usage?.input_tokens ?? null,
    o.usage?.output_tokens ?? 0,
    o.usage?.cache_read_tokens ?? 0,
    o.usage?.cache_write_tokens ?? 0,
    o.usage?.reasoning_tokens ?? 0,
    o.charged.tokens,
    o.charged.costMicrousd,
    o.seq,
  );
  return written > 0;
}

/** The first source is kept, as in the table; labels only grow. */
function addPart(parts: Map<string, ContextPart>, part: ContextPart): void {
  const found = parts.get(part.hash);
  if (found === undefined) parts.set(part.hash, part);
  else if ((part.labels & ~found.labels) !== 0)
    parts.set(part.hash, { ...found, labels: found.labels | part.labels });
}

/** The ledger uses one key object per budget; an equal key is written as a row of its own. */
function addSpent(sums: Map<BudgetKey, SpentAmount>, amount: SpentAmount): void {
  const sum = sums.get(amount.key);
  if (sum === undefined) sums.set(amount.key, { ...amount });
  else {
    sum.tokens += amount.tokens;
    sum.costMicrousd += amount.costMicrousd;
  }
}

export function writeSpent(sql: SqlNow, { key, tokens, costMicrousd }: SpentAmount): void {
  if (tokens === 0 && costMicrousd === 0) return;
  sql.run(
    `INSERT INTO budget_spent (subject, name, period, tokens, cost) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (subject, name, period)
     DO UPDATE SET tokens = tokens + excluded.tokens, cost = cost + excluded.cost`,
    key.subject,
    key.name,
    key.period,
    tokens,
    costMicrousd,
  );
}
