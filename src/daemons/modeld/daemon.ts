// Assembles modeld: opens its database, policy, upstream and service.
import { join } from 'node:path';
import { makeSeal } from '../../platform/copies/seal.ts';
import { type DaemonContext, type DaemonHandle, defineDaemon } from '../../platform/daemon.ts';
import { JsonText } from '../../platform/link.ts';
import { openOutbox } from '../../platform/outbox.ts';
import { deferSync } from '../../platform/sql/deferred-sync.ts';
import { openSqlite } from '../../platform/sql/sqlite.ts';
import { auditRefusals } from '../../policy/refusals.ts';
import { openPolicySource } from '../../policy/source.ts';
import { agentdRoutes } from '../../wire/agentd.ts';
import { auditRoutes } from '../../wire/auditd-ai.ts';
import { fault } from '../../wire/errors.ts';
import type { NewEvent } from '../../wire/events.ts';
import { modeldRoutes } from '../../wire/modeld.ts';
import type { ArtifactId, CallId, RunId } from '../../wire/primitives.ts';
import { writeDialectError } from './adapters/dialects.ts';
import { makePriceBook, makePriceRow } from './adapters/prices.ts';
import { makeHandlers } from './api.ts';
import { type ModeldConfig, modeldConfig } from './config.ts';
import type { ReadArtifact, RecordFetches } from './service/ports.ts';
import { fetchLostEvents } from './service/restore-from-audit.ts';
import { openService } from './service/service.ts';
import { openKeys } from './store/keys.ts';
import { ID_COLUMNS, MIGRATIONS } from './store/tables.ts';
import { makeUpstream } from './upstream.ts';

const DRAIN_TIMEOUT_MS = 5_000;
const RELOADED: readonly (keyof ModeldConfig)[] = ['models', 'aliases', 'default_model', 'budgets'];
const AUDIT_TIMEOUT_MS = 2_000;
/** 40 MB of write-ahead log; a larger one makes every commit slower. */
const TUNING = { logPagesMax: 10_000, cacheKbMax: 8_000 };

async function start(
  context: DaemonContext<ModeldConfig>,
): Promise<DaemonHandle<typeof modeldRoutes>> {
  const { clock, config, log, stateDir, metrics, failpoint, newId } = context;
  const audit = context.peer('auditd-ai', auditRoutes);
  const append = (events: NewEvent[]) => audit.append({ body: { events } });
  const appendTexts = (texts: string[]) =>
    audit.append(
      { body: new JsonText(`{"events":[${texts.join(',')}]}`) as never },
      { trace: 'none' },
    );
  const file = join(stateDir, 'modeld.sqlite');
  const database = openSqlite({ file, migrations: MIGRATIONS, log });
  const db = await deferSync(database, file, TUNING);
  const outbox = await openOutbox({ db, source: 'modeld', clock, append, appendTexts, log });
  const policy = openPolicySource({
    file: join(stateDir, 'policy', 'bundle.json'),
    log,
    clock,
    onRefused: auditRefusals({ daemon: 'modeld', db, outbox, newId: context.newId, log }),
  });
  const upstream = makeUpstream({
    clock,
    random: () => Buffer.from(context.random(4)).readUInt32LE() / 2 ** 32,
    prices: makePriceBook({
      rows: Object.entries(config.prices).map(([model, price]) => makePriceRow(model, price)),
    }),
  });
  const close = async (): Promise<void> => {
    outbox.stop();
    upstream.close();
    policy.close();
    await db.close();
  };
  try {
    const { store, seq } = outbox.opened;
    const fetchPage = async (after: number) =>
      (await audit.own({ params: { store }, query: { after } })).events;
    const service = await openService({
      config,
      db,
      outbox,
      lost: await fetchLostEvents(fetchPage, seq, log),
      keys: openKeys(stateDir),
      upstream,
      policy,
      readArtifact: makeReadArtifact(context),
      recordFetches: makeRecordFetches(context),
      seal: makeSeal({ db: database, log }),
      sockets: context.runSockets,
      clock,
      newId,
      random: context.random,
      log,
      metrics,
      failpoint,
    });
    metrics.gauge('model_calls_in_flight', () => service.calls.count());
    metrics.gauge('model_calls_waiting', () => service.calls.countWaiting());
    const drainCalls = async (waitMs: number): Promise<void> => {
      await service.calls
        .drain(waitMs)
        .catch((error: unknown) => log.error('writing outcomes failed', { error }));
    };
    return {
      handlers: makeHandlers(service),
      database,
      ids: { db: database, columns: ID_COLUMNS },
      reload: { keys: RELOADED, apply: service.reload },
      dialectErrors: writeDialectError,
      verifyKey: (secret) => service.apiKeys.verify(secret),
      begin: () => service.runs.reopen(),
      drain: () => drainCalls(DRAIN_TIMEOUT_MS),
      async stop() {
        await drainCalls(0);
        await outbox.drain(AUDIT_TIMEOUT_MS);
        await close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function makeReadArtifact(context: DaemonContext<ModeldConfig>): ReadArtifact {
  const agentd = context.peer('agentd', agentdRoutes);
  return async (id, runId) => {
    const { artifact, text } = await agentd.getArtifact({
      params: { id: id as ArtifactId },
      query: runId === null ? {} : { run_id: runId as RunId },
    });
    if (text === null)
      throw fault('bad_request', `input_ref: artifact ${id} is ${artifact.mime_type}, not text`);
    return { text, labels: artifact.labels };
  };
}

function makeRecordFetches(context: DaemonContext<ModeldConfig>): RecordFetches {
  const agentd = context.peer('agentd', agentdRoutes);
  return ({ runId, fence, callId, tools, hosts }) =>
    agentd.modelFetch({
      body: {
        run_id: runId as RunId,
        fence,
        call_id: callId as CallId,
        tools: [...tools],
        hosts: [...hosts],
      },
    });
}

export const modeld = defineDaemon({
  name: 'modeld',
  routes: modeldRoutes,
  config: modeldConfig,
  start,
});
