// After a loss of power, or a crash just before a commit. A call is durable in the audit log before
// it is in the journal's own file, so what the file has not is written again from the log: that the
// call was made, for whom, and what it was charged. What was said in it is gone.
import type { Log } from '../../../platform/log.ts';
import type { LateDatabase } from '../../../platform/sql/late-sync.ts';
import type { SqlNow } from '../../../platform/sql/sqlite.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { NewEvent } from '../../../wire/events.ts';
import { REHEARSAL } from '../rules/models.ts';
import type { CallRow } from '../store/calls.ts';
import type { Intent } from '../store/entries.ts';
import { writeIntent, writeOutcome, writeSpent } from '../store/rows.ts';
import { budgetsOfRow } from './recover.ts';

/** The events of this store that the log has beyond a number, in order; some of them suffice. */
export type AskLog = (after: number) => Promise<readonly NewEvent[]>;

const WAIT = { betweenMs: 100, mostMs: 10_000 };

/** What the log has and the store lost. */
export async function lostEvents(ask: AskLog, after: number, log: Log): Promise<NewEvent[]> {
  const lost: NewEvent[] = [];
  for (let last = after; ; ) {
    const page = await askPatiently(() => ask(last), log);
    if (page.length === 0) return lost;
    lost.push(...page);
    last = page.at(-1)!.source_seq;
  }
}

async function askPatiently<T>(ask: () => Promise<T>, log: Log): Promise<T> {
  const end = performance.now() + WAIT.mostMs;
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await ask();
    } catch (error) {
      const isAway = error instanceof Fault && error.code === 'unavailable';
      if (!isAway || performance.now() > end) throw error;
      if (isFirst) log.warn('the audit log does not answer yet; waiting for it', { error });
      await new Promise((resolve) => setTimeout(resolve, WAIT.betweenMs));
    }
  }
}

/** Gives how many calls and outcomes were lost. Those that are here already stay as they are. */
export async function regainCalls(
  db: LateDatabase,
  events: readonly NewEvent[],
): Promise<{ calls: number; outcomes: number }> {
  if (events.length === 0) return { calls: 0, outcomes: 0 };
  const { value, syncNow } = await db.commit((sql) => {
    const count = { calls: 0, outcomes: 0 };
    for (const event of events) {
      if (event.event === 'model.call.attempted' && regainIntent(sql, event)) count.calls++;
      if (event.event === 'model.call.ended' && regainOutcome(sql, event)) count.outcomes++;
    }
    return count;
  });
  await syncNow();
  return value;
}

function regainIntent(sql: SqlNow, event: NewEvent): boolean {
  if (find(sql, event) !== undefined) return false;
  const last = sql.one<{ seq: number }>('SELECT COALESCE(MAX(seq), 0) AS seq FROM model_calls')!;
  writeIntent(sql, { seq: last.seq + 1, intent: intentOf(event) });
  return true;
}

function intentOf(event: NewEvent): Parameters<typeof writeIntent>[1]['intent'] {
  const data = event.data ?? {};
  // Earlier versions did not say to whom.
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

/** Its answer is gone with it, so whoever asks again is answered anew; the charge is known. */
function regainOutcome(sql: SqlNow, event: NewEvent): boolean {
  const row = find(sql, event);
  if (row?.status !== 'running') return false;
  const data = event.data ?? {};
  const count = (name: string): number => Number(data[name] ?? 0);
  const charged = { tokens: count('charged_tokens'), costMicrousd: count('cost_microusd') };
  const reason = fault('unavailable', `the answer of ${row.call_id} was lost with the power`);
  writeOutcome(sql, {
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
  });
  for (const key of budgetsOfRow(row)) writeSpent(sql, { key, ...charged });
  return true;
}

function find(sql: SqlNow, { call_id, data }: NewEvent): CallRow | undefined {
  return sql.one<CallRow>(
    'SELECT * FROM model_calls WHERE call_id = ? AND attempt = ?',
    call_id!,
    Number(data?.attempt),
  );
}
