// The statements of one journal transaction. A budget that many outcomes of it touch is written
// once, and all its events are one row of the outbox.
import type { Outbox } from '../../../platform/outbox.ts';
import type { SqlNow } from '../../../platform/sql/sqlite.ts';
import type { EventDraft } from '../../../wire/events.ts';
import type { Spent } from '../budgets.ts';
import type { BudgetKey } from '../rules/budget.ts';
import { hourOf } from './calls.ts';
import type { Intent, Outcome, Work } from './entries.ts';
import { type Part, PartWriter } from './parts.ts';

/** So many calls may be looked at again after a crash. */
const MARK_EVERY = 1_000;

export class RowWriter {
  readonly #outbox: Outbox;
  readonly #parts = new PartWriter();
  #hour = -1;
  #markedSeq = 0;

  constructor(outbox: Outbox) {
    this.#outbox = outbox;
  }

  /**
   * Gives the number of the last event, 0 when there is none. No call before `openSeq` is without
   * an outcome.
   */
  writeAll(sql: SqlNow, works: readonly Work[], openSeq: number): number {
    const spent = new Map<BudgetKey, Spent>();
    const events: EventDraft[] = [];
    const parts: Part[] = [];
    let nowMs = 0;
    let told = 0;
    for (const work of works) {
      if (work.kind === 'intent') {
        writeIntent(sql, work);
        this.#markHour(sql, work.intent.createdMs, work.seq);
        nowMs = Math.max(nowMs, work.intent.createdMs);
        parts.push(...work.intent.parts);
        if (work.isTold !== true) events.push(work.intent.event);
      } else if (work.kind === 'outcome') {
        writeOutcome(sql, work.outcome);
        nowMs = Math.max(nowMs, work.outcome.endedMs);
        if (work.outcome.response !== null) parts.push(work.outcome.response);
        if (work.outcome.isTold !== true) events.push(work.outcome.event);
        for (const one of work.outcome.spent) addSpent(spent, one);
      } else if (work.kind === 'told') {
        this.#outbox.addTold(sql, work.told);
        told = Math.max(told, work.told.seq);
      } else {
        sql.run(
          'UPDATE model_calls SET reserved_tokens = ?, reserved_cost = ? WHERE seq = ?',
          work.reserved.tokens,
          work.reserved.costMicrousd,
          work.seq,
        );
      }
    }
    this.#parts.writeAll(sql, parts, nowMs);
    this.#markOpen(sql, openSeq);
    for (const one of spent.values()) writeSpent(sql, one);
    return events.length === 0 ? told : this.#outbox.addAll(sql, events);
  }

  /** The first of an hour has the lowest number, also when the clock goes back. */
  #markHour(sql: SqlNow, createdMs: number, seq: number): void {
    const hour = hourOf(createdMs);
    if (hour === this.#hour) return;
    markHour(sql, hour, seq);
    sql.afterCommit(() => {
      this.#hour = hour;
    });
  }

  #markOpen(sql: SqlNow, openSeq: number): void {
    if (openSeq - this.#markedSeq < MARK_EVERY) return;
    sql.run('UPDATE calls_open SET seq = ?', openSeq);
    sql.afterCommit(() => {
      this.#markedSeq = openSeq;
    });
  }
}

export function markHour(sql: SqlNow, hour: number, seq: number): void {
  sql.run('INSERT OR IGNORE INTO call_hours (hour, seq) VALUES (?, ?)', hour, seq);
}

type IntentRow = Omit<Intent, 'needsOutcomes' | 'parts' | 'event'>;

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

type OutcomeRow = Omit<Outcome, 'callId' | 'freed' | 'spent' | 'event' | 'isTold'>;

export function writeOutcome(sql: SqlNow, o: OutcomeRow): void {
  sql.run(
    `UPDATE model_calls SET status = ?, provider = ?, upstream_model = ?, ended_ms = ?,
      stop_reason = ?, response = ?, error = ?, tries = ?, input_tokens = ?, output_tokens = ?,
      cache_read_tokens = ?, cache_write_tokens = ?, reasoning_tokens = ?, charged_tokens = ?,
      cost = ?
     WHERE seq = ?`,
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
}

/** The ledger has one key for all that one budget was charged; another is only written apart. */
function addSpent(all: Map<BudgetKey, Spent>, one: Spent): void {
  const sum = all.get(one.key);
  if (sum === undefined) all.set(one.key, { ...one });
  else {
    sum.tokens += one.tokens;
    sum.costMicrousd += one.costMicrousd;
  }
}

export function writeSpent(sql: SqlNow, { key, tokens, costMicrousd }: Spent): void {
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
