// The sums per hour and over all time give the same report as a sum over all calls, whatever was
// called when, and also over calls that were made before there were sums.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import fc from 'fast-check';
import type { Sql, Value } from '../../../platform/sql/database.ts';
import { openSqlite, type SqlNow } from '../../../platform/sql/sqlite.ts';
import { freshStateDir } from '../testing/harness.ts';
import { writeIntent, writeOutcome } from './rows.ts';
import { MIGRATIONS } from './tables.ts';
import { addUsage, type EndedCall } from './usage.ts';
import {
  findLeftOut,
  sumUsage,
  TASK_CALLS_MAX,
  type UsageColumn,
  type UsageFilter,
  type UsageTotals,
} from './usage-report.ts';

const dir = freshStateDir();
after(() => rmSync(dir, { recursive: true, force: true }));
const HOUR_MS = 3_600_000;
const START_MS = Date.parse('2026-01-01T00:00:00Z');
const BEFORE_SUMS = MIGRATIONS.findIndex((text) => text.includes('CREATE TABLE usage_hours'));

/** The report as one sum over all calls. */
async function sumCalls(sql: Sql, filter: UsageFilter, by: UsageColumn): Promise<UsageTotals[]> {
  const where: string[] = ['1 = 1'];
  const values: Value[] = [];
  const add = (text: string, value: Value | undefined): void => {
    if (value === undefined) return;
    where.push(text);
    values.push(value);
  };
  add('task_id = ?', filter.taskId);
  add('created_ms >= ?', filter.sinceMs);
  add('agent = ?', filter.agent);
  const rows = await sql.all<Record<string, number>>(
    `SELECT ${by === 'task' ? "COALESCE(task_id, '')" : by} AS name, upstream_model, provider, COUNT(*) AS calls,
       COALESCE(SUM(input_tokens), 0) AS input_tokens, SUM(output_tokens) AS output_tokens,
       SUM(cache_read_tokens) AS cache_read_tokens, SUM(cache_write_tokens) AS cache_write_tokens,
       SUM(reasoning_tokens) AS reasoning_tokens, SUM(cost) AS cost
     FROM model_calls WHERE ${where.join(' AND ')} GROUP BY name, upstream_model, provider
     ORDER BY cost DESC, calls DESC, name, upstream_model, provider LIMIT 1000`,
    ...values,
  );
  return rows.map(({ name, upstream_model, provider, calls, cost, ...usage }) => ({
    name,
    model: upstream_model,
    provider,
    calls,
    usage,
    cost,
  })) as unknown as UsageTotals[];
}

const pick = (...names: string[]) => fc.constantFrom(...names);
/** Two days, with the edges of hours as likely as the rest. */
const time = fc.oneof(
  fc.nat(48 * HOUR_MS).map((ms) => START_MS + ms),
  fc.nat(48).map((hour) => START_MS + hour * HOUR_MS),
  fc.nat(48).map((hour) => START_MS + hour * HOUR_MS - 1),
);
const target = fc.record({ model: pick('m1', 'm2'), provider: pick('p1', 'p2') });
const call = fc.record({
  principal: pick('key:ci', 'person:eve', 'agent:ann'),
  agent: pick('ann', 'ben', ''),
  taskId: fc.option(pick('task_1', 'task_2')),
  createdMs: time,
  target,
  /** How it ends: not at all, at one target or another, with usage or without, once or twice. */
  end: fc.option(
    fc.record({
      target,
      usage: fc.option(fc.nat(1_000)),
      cost: fc.nat(10_000),
      isRepeated: fc.boolean(),
    }),
  ),
});
const filter: fc.Arbitrary<UsageFilter> = fc.record({
  agent: fc.option(pick('ann', 'ben', ''), { nil: undefined }),
  taskId: fc.option(pick('task_1', 'task_2'), { nil: undefined }),
  sinceMs: fc.option(time, { nil: undefined }),
});
type TestCall = typeof call extends fc.Arbitrary<infer T> ? T : never;

const INTENT = {
  attempt: 1,
  runId: null,
  fence: null,
  via: 'neutral',
  model: 'default',
  rehearsal: false,
  purpose: '',
  requestHash: '',
  context: '',
  params: '',
  reserved: { tokens: 1, costMicrousd: 1 },
} as const;

function addCall(sql: SqlNow, seq: number, made: TestCall): void {
  const { principal, agent, taskId, createdMs, target } = made;
  writeIntent(sql, {
    seq,
    intent: {
      ...INTENT,
      callId: `call_${seq}`,
      principal,
      agent,
      taskId,
      rootTaskId: taskId,
      provider: target.provider,
      upstreamModel: target.model,
      createdMs,
    },
  });
}

/** Returns what the sums have to be told. */
function endCall(sql: SqlNow, seq: number, made: TestCall): EndedCall[] {
  const { principal, agent, createdMs, end } = made;
  if (end === null) return [];
  const n = end.usage;
  const usage = n === null ? null : { input_tokens: n, output_tokens: n + 1 };
  const cached = { cache_read_tokens: 2, cache_write_tokens: 3, reasoning_tokens: 4 };
  const outcome = {
    seq,
    status: 'completed',
    provider: end.target.provider,
    upstreamModel: end.target.model,
    stopReason: null,
    response: null,
    error: null,
    tries: 1,
    endedMs: 0,
    usage: usage === null ? null : { ...usage, ...cached },
    charged: { tokens: 1, costMicrousd: end.cost },
  } as const;
  const times = end.isRepeated ? [1, 2] : [1];
  const written = times.filter(() => writeOutcome(sql, outcome));
  return written.map(() => ({ ...outcome, principal, agent, createdMs }));
}

test('sums per hour and in total equal the sum over all calls', async () => {
  let files = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(call, { maxLength: 40 }),
      fc.array(filter, { minLength: 1, maxLength: 12 }),
      async (calls, filters) => {
        const db = openSqlite({ file: join(dir, `${files++}.sqlite`), migrations: MIGRATIONS });
        await db.writeNow((sql) => {
          for (const [i, one] of calls.entries()) addCall(sql, i + 1, one);
          const ended = calls.flatMap((one, i) => endCall(sql, i + 1, one));
          const half = ended.length >> 1;
          for (const group of [ended.slice(0, half), ended.slice(half)]) addUsage(sql, group);
        });
        await db.read(async (sql) => {
          for (const one of filters)
            for (const by of ['agent', 'principal', 'task'] as const)
              assert.deepEqual(await sumUsage(sql, one, by), await sumCalls(sql, one, by));
        });
        await db.close();
      },
    ),
    { numRuns: 40 },
  );
});

test('calls from before there were sums are in them', async () => {
  const file = join(dir, 'old.sqlite');
  const old = openSqlite({ file, migrations: MIGRATIONS.slice(0, BEFORE_SUMS) });
  await old.writeNow((sql) => {
    for (let seq = 1; seq <= 300; seq++)
      sql.run(
        `INSERT INTO model_calls (seq, call_id, attempt, status, principal, agent, via, model,
           provider, upstream_model, rehearsal, purpose, request_hash, context, params,
           reserved_tokens, reserved_cost, created_ms, input_tokens, output_tokens, cost)
         VALUES (?, ?, 1, ?, 'p', ?, 'openai', 'm', 'p', 'm', 0, '', '', x'00', '', 0, 0, ?, ?, ?, ?)`,
        seq,
        `call_${seq}`,
        seq % 50 === 0 ? 'running' : 'completed',
        `agent-${seq % 3}`,
        START_MS + seq * 600_000,
        seq % 7 === 0 ? null : seq,
        seq,
        seq,
      );
  });
  await old.close();
  const db = openSqlite({ file, migrations: MIGRATIONS });
  const all = { agent: undefined, taskId: undefined, sinceMs: undefined };
  for (const sinceMs of [undefined, START_MS, START_MS + 77 * 600_000 + 1])
    await db.read(async (sql) => {
      const sums = await sumUsage(sql, { ...all, sinceMs });
      assert.ok(sums.length === 3);
      const principals = (await sumUsage(sql, { ...all, sinceMs }, 'principal')).map(
        ({ name }) => name,
      );
      assert.ok(principals.includes(''), 'nobody knows who made those');
      assert.deepEqual(sums, await sumCalls(sql, { ...all, sinceMs }, 'agent'));
    });
  await db.close();
});

test('a report by task reads the newest calls, and says after which time', async () => {
  const db = openSqlite({ file: join(dir, 'many.sqlite'), migrations: MIGRATIONS });
  const add = (sql: SqlNow, from: number, count: number): void =>
    sql.run(
      `INSERT INTO model_calls (seq, call_id, attempt, status, principal, agent, task_id, via,
         model, provider, upstream_model, rehearsal, purpose, request_hash, context, params,
         reserved_tokens, reserved_cost, created_ms, cost)
       SELECT value, 'call_' || value, 1, 'completed', 'p', 'a', iif(value & 1, 'task_1', 'task_0'),
         'openai',
         'm', 'p', 'm', 0, '', '', x'00', '', 0, 0, value, 1
       FROM (WITH RECURSIVE n(value) AS (SELECT ? UNION ALL SELECT value + 1 FROM n LIMIT ?)
         SELECT value FROM n)`,
      from,
      count,
    );
  const all = { agent: undefined, taskId: undefined, sinceMs: undefined };
  await db.writeNow((sql) => add(sql, 1, TASK_CALLS_MAX));
  assert.equal(await db.read((sql) => findLeftOut(sql)), undefined);
  await db.writeNow((sql) => add(sql, TASK_CALLS_MAX + 1, 50));
  await db.read(async (sql) => {
    assert.equal(await findLeftOut(sql), 50);
    assert.equal(await findLeftOut(sql, 51), undefined);
    const sums = await sumUsage(sql, all, 'task');
    assert.deepEqual(
      sums.map(({ name, calls }) => [name, calls]),
      [
        ['task_0', TASK_CALLS_MAX / 2],
        ['task_1', TASK_CALLS_MAX / 2],
      ],
    );
  });
  await db.close();
});
