// The statements of one journal transaction. Bodies that are known to be stored are not sent again,
// and a budget that many outcomes of one transaction touch is written once.
import type { Outbox } from '../../../platform/outbox.ts';
import type { Sql } from '../../../platform/sql/database.ts';
import type { Spent } from '../budgets.ts';
import { keyText } from '../rules/budget.ts';
import type { Intent, Outcome, Part, Work } from './journal.ts';

const KNOWN_PARTS_MAX = 4_096;

/** Hash → labels of parts that a transaction writes. */
export type FreshParts = Map<string, number>;

export class RowWriter {
  readonly #outbox: Outbox;
  /** Hash → labels of parts that are on the disk. */
  readonly #known = new Map<string, number>();

  constructor(outbox: Outbox) {
    this.#outbox = outbox;
  }

  /** Gives the number of the last event, 0 when there is none. Fills `fresh` with what is new. */
  async writeAll(sql: Sql, works: readonly Work[], fresh: FreshParts): Promise<number> {
    const spent = new Map<string, Spent>();
    let lastEvent = 0;
    for (const work of works) {
      if (work.kind === 'intent') lastEvent = await this.#writeIntent(sql, work, fresh);
      else if (work.kind === 'outcome') {
        lastEvent = await this.#writeOutcome(sql, work.outcome, fresh);
        for (const one of work.outcome.spent) addSpent(spent, one);
      } else {
        await sql.run(
          'UPDATE model_calls SET reserved_tokens = ?, reserved_cost = ? WHERE seq = ?',
          work.reserved.tokens,
          work.reserved.costMicrousd,
          work.seq,
        );
      }
    }
    for (const one of spent.values()) await writeSpent(sql, one);
    return lastEvent;
  }

  /** The transaction is durable: its parts need not be written again. */
  remember(fresh: FreshParts): void {
    for (const [hash, labels] of fresh) this.#known.set(hash, labels);
    let over = this.#known.size - KNOWN_PARTS_MAX;
    if (over <= 0) return;
    for (const hash of this.#known.keys()) {
      this.#known.delete(hash);
      if (--over <= 0) break;
    }
  }

  async #writeIntent(
    sql: Sql,
    { seq, intent: i }: { seq: number; intent: Intent },
    fresh: FreshParts,
  ): Promise<number> {
    for (const part of i.parts) await this.#writePart(sql, part, i.createdMs, fresh);
    await sql.run(
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
    return this.#outbox.add(sql, i.event);
  }

  async #writeOutcome(sql: Sql, o: Outcome, fresh: FreshParts): Promise<number> {
    if (o.response !== null) await this.#writePart(sql, o.response, o.endedMs, fresh);
    await sql.run(
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
    return this.#outbox.add(sql, o.event);
  }

  async #writePart(sql: Sql, part: Part, nowMs: number, fresh: FreshParts): Promise<void> {
    const { hash, labels } = part;
    const known = fresh.get(hash) ?? this.#known.get(hash);
    if (known !== undefined && (labels & ~known) === 0) return;
    // A body that was forgotten stays forgotten when the same text comes again.
    await sql.run(
      `INSERT INTO parts (hash, body, labels, source, created_ms) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT (hash) DO UPDATE SET labels = labels | excluded.labels`,
      hash,
      part.body,
      labels,
      part.source,
      nowMs,
    );
    fresh.set(hash, labels | (known ?? 0));
  }
}

function addSpent(all: Map<string, Spent>, one: Spent): void {
  const at = keyText(one.key);
  const sum = all.get(at);
  if (sum === undefined) all.set(at, { ...one });
  else {
    sum.tokens += one.tokens;
    sum.costMicrousd += one.costMicrousd;
  }
}

export async function writeSpent(sql: Sql, { key, tokens, costMicrousd }: Spent): Promise<void> {
  if (tokens === 0 && costMicrousd === 0) return;
  await sql.run(
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
