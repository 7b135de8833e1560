// Reads recorded calls.

import { toTimestamp } from '../../../platform/clock.ts';
import type { Sql, Value } from '../../../platform/sql/database.ts';
import type { FaultBody, FaultCode } from '../../../wire/errors.ts';
import type { DialectName, ModelCallView, StopReason, Usage } from '../../../wire/modeld.ts';
import type { RecordedAttempt } from '../rules/record.ts';

export type ModelCallRow = {
  seq: number;
  call_id: string;
  attempt: number;
  status: ModelCallView['status'];
  run_id: string | null;
  fence: number | null;
  principal: string;
  agent: string;
  task_id: string | null;
  root_task_id: string | null;
  via: 'neutral' | DialectName | 'count' | 'embed';
  model: string;
  provider: string;
  upstream_model: string;
  rehearsal: number;
  purpose: string;
  request_hash: string;
  context: Uint8Array;
  params: string;
  reserved_tokens: number;
  reserved_cost: number;
  charged_tokens: number;
  created_ms: number;
  ended_ms: number | null;
  stop_reason: StopReason | null;
  response: string | null;
  error: string | null;
  tries: number;
  input_tokens: number | null;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  reasoning_tokens: number;
  cost: number;
};

export function readHashes(context: Uint8Array): string[] {
  const hex = Buffer.from(context).toString('hex');
  return hex.match(/.{64}/g) ?? [];
}

export function readUsage(row: ModelCallRow): Usage | null {
  if (row.input_tokens === null) return null;
  return {
    input_tokens: row.input_tokens,
    output_tokens: row.output_tokens,
    cache_read_tokens: row.cache_read_tokens,
    cache_write_tokens: row.cache_write_tokens,
    reasoning_tokens: row.reasoning_tokens,
  };
}

export function readError(row: ModelCallRow): FaultBody | null {
  return row.error === null ? null : (JSON.parse(row.error) as FaultBody);
}

export function toCallView(row: ModelCallRow): ModelCallView {
  return {
    call_id: row.call_id as ModelCallView['call_id'],
    attempt: row.attempt,
    run_id: row.run_id as ModelCallView['run_id'],
    fence: row.fence,
    agent: row.agent,
    task_id: row.task_id as ModelCallView['task_id'],
    model: row.model,
    provider: row.provider,
    status: row.status,
    purpose: row.purpose,
    request_hash: row.request_hash,
    context: readHashes(row.context),
    stop_reason: row.stop_reason,
    usage: readUsage(row),
    cost_microusd: row.cost,
    error: readError(row),
    created_at: toTimestamp(row.created_ms),
    ended_at: row.ended_ms === null ? null : toTimestamp(row.ended_ms),
  };
}

export async function readAttempts(sql: Sql, callId: string): Promise<RecordedAttempt[]> {
  const rows = await sql.all<Pick<ModelCallRow, 'attempt' | 'status' | 'request_hash' | 'error'>>(
    `SELECT attempt, status, request_hash, error FROM model_calls
     WHERE call_id = ? ORDER BY attempt`,
    callId,
  );
  return rows.map((row) => ({
    attempt: row.attempt,
    status: row.status,
    requestHash: row.request_hash,
    errorCode: row.error === null ? null : (JSON.parse(row.error) as { code: FaultCode }).code,
  }));
}

export function readAttempt(
  sql: Sql,
  callId: string,
  attempt: number,
): Promise<ModelCallRow | undefined> {
  return sql.one<ModelCallRow>(
    'SELECT * FROM model_calls WHERE call_id = ? AND attempt = ?',
    callId,
    attempt,
  );
}

/** The last number of a call, also if it was pruned: counted numbers are not used again. */
export async function readLastSeq(sql: Sql): Promise<number> {
  const found = await sql.one<{ seq: number | null }>(LAST_SEQ);
  return Math.max(found?.seq ?? 0, (await sql.one<{ seq: number }>(LAST_COUNTED))!.seq);
}

export const LAST_SEQ = 'SELECT MAX(seq) AS seq FROM model_calls';
export const LAST_COUNTED = 'SELECT seq FROM parts_counted';

/** At startup these are the calls that a crash left without an outcome. */
export function readRunningCalls(sql: Sql): Promise<ModelCallRow[]> {
  return sql.all<ModelCallRow>("SELECT * FROM model_calls WHERE status = 'running' ORDER BY seq");
}

export function readLatest(sql: Sql, callId: string): Promise<ModelCallRow | undefined> {
  return sql.one<ModelCallRow>(
    'SELECT * FROM model_calls WHERE call_id = ? ORDER BY attempt DESC LIMIT 1',
    callId,
  );
}

/** The agent and the tasks of a run that has called a model. */
export type RunOfCalls = { run_id: string; agent: string; task_id: string; root_task_id: string };

export const findRunOfCalls = (sql: Sql, runId: string): Promise<RunOfCalls | undefined> =>
  sql.one<RunOfCalls>(
    `SELECT run_id, agent, task_id, root_task_id FROM model_calls
     WHERE run_id = ? ORDER BY seq LIMIT 1`,
    runId,
  );

export async function countSteps(sql: Sql, runId: string): Promise<number> {
  const row = await sql.one<{ n: number }>(
    `SELECT COUNT(DISTINCT call_id) AS n FROM model_calls WHERE run_id = ? AND via NOT IN ('embed', 'count')`,
    runId,
  );
  return row?.n ?? 0;
}

export async function listCalls(
  sql: Sql,
  query: {
    runId: string | undefined;
    taskId: string | undefined;
    before: number | undefined;
    limit: number;
  },
): Promise<ModelCallRow[]> {
  const where = ['seq < ?'];
  const values: Value[] = [query.before ?? Number.MAX_SAFE_INTEGER];
  if (query.runId !== undefined) {
    where.push('run_id = ?');
    values.push(query.runId);
  }
  if (query.taskId !== undefined) {
    where.push('task_id = ?');
    values.push(query.taskId);
  }
  return sql.all<ModelCallRow>(
    `SELECT * FROM model_calls WHERE ${where.join(' AND ')} ORDER BY seq DESC LIMIT ?`,
    ...values,
    query.limit,
  );
}
