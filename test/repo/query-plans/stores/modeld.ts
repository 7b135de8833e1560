// Runs every statement of modeld's store.

import { makePruning } from '../../../../src/daemons/modeld/service/pruning.ts';
import {
  readOwnBudgets,
  restoreFromAudit,
} from '../../../../src/daemons/modeld/service/restore-from-audit.ts';
import * as keys from '../../../../src/daemons/modeld/store/api-keys.ts';
import * as calls from '../../../../src/daemons/modeld/store/calls.ts';
import { COPY_PLACES, deleteVectors } from '../../../../src/daemons/modeld/store/copy-places.ts';
import { findVectors, writeVectors } from '../../../../src/daemons/modeld/store/embeddings.ts';
import { Journal } from '../../../../src/daemons/modeld/store/journal.ts';
import { forgetBody, readPart } from '../../../../src/daemons/modeld/store/parts.ts';
import * as prune from '../../../../src/daemons/modeld/store/prune.ts';
import {
  addRunLabels,
  readRunLabels,
  runRows,
} from '../../../../src/daemons/modeld/store/run-rows.ts';
import * as settings from '../../../../src/daemons/modeld/store/settings.ts';
import { ID_COLUMNS, MIGRATIONS } from '../../../../src/daemons/modeld/store/tables.ts';
import { findLeftOut, sumUsage } from '../../../../src/daemons/modeld/store/usage-report.ts';
import { intent, outcome } from '../../../../src/daemons/modeld/testing/journal.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { makeIdMaker } from '../../../../src/platform/ids.ts';
import { sha256Hex } from '../../../../src/platform/json.ts';
import { silentLog } from '../../../../src/platform/log.ts';
import { openOutbox } from '../../../../src/platform/outbox.ts';
import type { Database } from '../../../../src/platform/sql/database.ts';
import {
  type DeferredSyncDatabase,
  deferSync,
} from '../../../../src/platform/sql/deferred-sync.ts';
import { openSqlite } from '../../../../src/platform/sql/sqlite.ts';
import { toForgottenMemory } from '../../../../src/wire/copies.ts';
import type { NewEvent } from '../../../../src/wire/events.ts';
import { modeldRoutes } from '../../../../src/wire/modeld.ts';
import type { RunId } from '../../../../src/wire/primitives.ts';
import { eraseEverything } from '../erase-copies.ts';
import {
  forEachOf,
  HISTORY,
  listChoices,
  listFilterNames,
  type StoreUse,
  useIds,
} from '../record.ts';

const clock = systemClock();
const newId = makeIdMaker(clock);
const hashOf = (n: number): string => sha256Hex(String(n));

async function makeCall(journal: Journal, n: number, runId: string): Promise<void> {
  const taskId = `task_${n}`;
  const part = { hash: hashOf(n), body: '"x"', labels: 1, source: 's' };
  const by = { runId, taskId, rootTaskId: taskId, agent: 'worker' };
  const attempt = intent(n, { ...by, context: part.hash, createdMs: n * 60_000, parts: [part] });
  const { seq } = await journal.intent(attempt);
  await journal.raise(seq, { tokens: 20, costMicrousd: 20 });
  // The same text with another label.
  const again = { ...attempt, callId: `call_again_${n}`, parts: [{ ...part, labels: 2 }] };
  const second = await journal.intent({ ...again, event: { ...attempt.event, id: `again_${n}` } });
  const day = new Date(n * 86_400_000).toISOString().slice(0, 10);
  const budgets = [
    { subject: 'site', name: '', period: '' },
    { subject: 'day', name: '', period: day },
    { subject: 'agent', name: 'worker', period: day },
    { subject: 'task', name: taskId, period: '' },
  ] as const;
  const spent = budgets.map((key) => ({ key, tokens: 1, costMicrousd: 1 }));
  await journal.outcome({ ...outcome(seq), spent });
  await journal.outcome({ ...outcome(second.seq), spent });
}

async function useRuns(db: Database, n: number): Promise<string> {
  const runId = newId<RunId>('run');
  const admission = { fence: 1, task_id: `task_${n}`, max_tokens: 1, max_cost_microusd: 1 };
  await db.write(async (sql) => {
    await runRows.save(sql, runId, admission as never);
    await addRunLabels(sql, runId, 1);
    await readRunLabels(sql, runId);
    await runRows.read(sql, runId);
    await writeVectors(sql, 'm', [{ hash: hashOf(n), vector: [1] }]);
    await findVectors(sql, 'm', [hashOf(n)]);
    if (n > 3) await runRows.end(sql, runId, 1);
  });
  return runId;
}

/** Events of one call that a power failure removed from the store. */
const LOST: NewEvent[] = ['model.call.attempted', 'model.call.ended'].map((event, i) => ({
  id: `lost.${i}`,
  ts: '2026-01-01T00:00:00Z',
  event: event as NewEvent['event'],
  source: 'modeld',
  source_store: 's',
  source_seq: i + 1,
  principal: 'agent:worker',
  agent: 'worker',
  call_id: 'call_lost',
  model: 'm',
  data: {
    attempt: 1,
    via: 'neutral',
    provider: 'p',
    upstream_model: 'm',
    request_hash: 'h',
    reserved_tokens: 1,
    reserved_microusd: 1,
  },
}));

async function useKeys(db: Database): Promise<void> {
  const key = { name: 'ci', scopes: ['models'], owner: null, models: null, createdBy: 'person:a' };
  const times = { createdMs: 1, expiresMs: null, revokedMs: null, requestsPerMin: null };
  const secret = { id: 'x', keyName: 'ci', hash: Buffer.alloc(32), createdMs: 1, endsMs: null };
  await db.write(async (sql) => {
    await keys.writeKey(sql, { ...key, ...times } as keys.StoredKey);
    await keys.writeSecret(sql, secret);
    await keys.endSecret(sql, 'x', 2);
    await keys.markRevoked(sql, 'ci', 2);
    await keys.readKeys(sql);
    await keys.readSecrets(sql);
  });
}

async function readAll(db: Database): Promise<void> {
  await db.read(async (sql) => {
    await calls.readAttempts(sql, 'x');
    await calls.readAttempt(sql, 'x', 1);
    await calls.readRunningCalls(sql);
    await calls.readLatest(sql, 'x');
    await calls.readLastSeq(sql);
    await calls.countSteps(sql, 'x');
    await calls.findRunOfCalls(sql, 'x');
    const names = listFilterNames(modeldRoutes.listCalls.query);
    for (const { run_id, task_id } of listChoices(Object.fromEntries(names.map((n) => [n, 'x']))))
      await calls.listCalls(sql, { runId: run_id, taskId: task_id, before: 9, limit: 10 });
    const filters = listFilterNames(modeldRoutes.usage.query);
    for (const { agent, task_id, since } of listChoices(
      Object.fromEntries(filters.map((n) => [n, '9'])),
    ))
      for (const by of ['agent', 'principal', 'task'] as const) {
        const sinceMs = since === undefined ? since : Number(since);
        await sumUsage(sql, { agent, taskId: task_id, sinceMs }, by);
        await findLeftOut(sql, sinceMs);
      }
    await settings.readStandingLimits(sql);
    await settings.readLimit(sql, 'task', 'x');
    await settings.readTaskLimits(sql, 10);
    await settings.readCurrentSpent(sql, '2026-01-01');
    await settings.readSpent(sql, { subject: 'task', name: 'x', period: '' });
    await settings.readProviders(sql);
    await settings.readAliases(sql);
    await readPart(sql, 'x');
  });
}

async function retain(db: DeferredSyncDatabase, journal: Journal, runIds: string[]): Promise<void> {
  const old = { nowMs: () => 1, at: clock.at };
  const failpoint = () => undefined;
  const early = makePruning({ db, journal, clock: old, failpoint });
  const pruning = makePruning({ db, journal, clock, failpoint });
  const tree = { root_task_id: 'task_1', task_ids: ['task_1'], run_ids: runIds.slice(0, HISTORY) };
  await early.pruneTree({ ...tree, run_ids: runIds.slice(0, 3) } as never);
  await early.prunePeoplesCalls({ beforeMs: clock.nowMs(), limit: 3 });
  await pruning.pruneContexts(tree as never);
  await pruning.pruneTree(tree as never);
  await pruning.prunePeoplesCalls({ beforeMs: clock.nowMs(), limit: HISTORY + 3 });
  await pruning.contextSizes();
  await db.read(async (sql) => {
    await prune.findPrunedCall(sql, 'call_1');
    await prune.findPrunedRun(sql, { runId: 'x' });
    await prune.findPrunedRun(sql, { taskId: 'x' });
    await prune.listContextRuns(sql, '', 10);
  });
  await pruning.expireTombstones(2);
}

async function use(file: string): Promise<void> {
  const db = await deferSync(openSqlite({ file, migrations: MIGRATIONS }), file);
  const options = { db, source: 'modeld', clock, append: async () => {}, log: silentLog };
  const outbox = await openOutbox(options);
  const journal = new Journal({ db, outbox, log: silentLog, lastSeq: 0 });
  const runIds: string[] = [];
  await forEachOf(2 * HISTORY, async (n) => {
    const runId = await useRuns(db, n);
    runIds.push(runId);
    await makeCall(journal, n, runId);
  });
  await forEachOf(2 * HISTORY, async (n) => {
    const { seq } = await journal.intent(intent(10 * HISTORY + n));
    await journal.outcome(outcome(seq));
  });
  await retain(db, journal, runIds);
  await forEachOf(3, (n) => journal.intent(intent(2 * HISTORY + n)));
  await restoreFromAudit(db, LOST, await readOwnBudgets(db));
  await db.read((sql) => runRows.live(sql));
  await db.write(async (sql) => {
    await forgetBody(sql, hashOf(2 * HISTORY - 1));
    const provider = { name: 'p', dialect: 'openai', baseUrl: 'http://x', models: [] } as const;
    await settings.writeProvider(sql, { ...provider, models: [] }, 1);
    await settings.deleteProvider(sql, 'other');
    await settings.writeAlias(sql, 'a*', 'x');
    await settings.writeAlias(sql, 'a*', null);
  });
  await eraseEverything(db, COPY_PLACES);
  const gone = toForgottenMemory('memory_1', ['x']);
  await db.write((sql) => deleteVectors(sql, [gone]));
  await useKeys(db);
  await readAll(db);
  outbox.stop();
  await useIds(db, ID_COLUMNS);
  await db.close();
}

export const modeld: StoreUse = {
  daemon: 'modeld',
  smallTables: {
    api_keys: 'one row for each key; all are in memory',
    api_key_secrets: 'one or two rows for each key; all are in memory',
    outbox: 'delivered events are deleted',
    outbox_store: 'one row',
    context_sizes: 'one row for each agent',
    parts_counted: 'one row',
    providers: 'one row for each provider',
    model_aliases: 'one row for each alias',
    usage_hours: 'one row for each hour, caller and model, however many calls there were',
    usage_totals: 'one row for each caller and model',
  },
  use,
};
