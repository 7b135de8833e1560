// Assembles modeld's service.
import type { Clock } from '../../../platform/clock.ts';
import type { makeSeal } from '../../../platform/copies/seal.ts';
import type { RunSockets } from '../../../platform/daemon.ts';
import type { NewId, Random } from '../../../platform/ids.ts';
import { LiveFeed } from '../../../platform/live-feed.ts';
import type { Log } from '../../../platform/log.ts';
import type { Metrics } from '../../../platform/metrics.ts';
import type { Outbox } from '../../../platform/outbox.ts';
import type { Database } from '../../../platform/sql/database.ts';
import type { DeferredSyncDatabase } from '../../../platform/sql/deferred-sync.ts';
import type { PolicySource } from '../../../policy/source.ts';
import type { Caller } from '../../../wire/caller.ts';
import type { EventDraft, NewEvent } from '../../../wire/events.ts';
import { Budgets, type Limit } from '../budgets.ts';
import type { LimitConfig, ModeldConfig } from '../config.ts';
import { toDay } from '../rules/budget.ts';
import { readLastSeq } from '../store/calls.ts';
import { Journal } from '../store/journal.ts';
import type { Keys } from '../store/keys.ts';
import { readCurrentSpent, readSpent, readStandingLimits } from '../store/settings.ts';
import { ApiKeys } from './api-keys.ts';
import { ModelCalls } from './calls.ts';
import { makeClientCalls } from './client-calls.ts';
import { makeEmbed } from './embed.ts';
import { makeEmbedMemories } from './embed-memories.ts';
import { makeEraseCopies } from './erase-copies.ts';
import { type CallDeadline, Generate } from './generate.ts';
import { makeObserver } from './live-calls.ts';
import { testModel } from './model-test.ts';
import { makeCheckFetches, makeCheckModelUse } from './permission.ts';
import type { ReadArtifact, RecordFetches, Upstream } from './ports.ts';
import { Providers } from './providers.ts';
import { makePruning } from './pruning.ts';
import { Reports } from './reports.ts';
import { readOwnBudgets, restoreFromAudit, settleLeftCalls } from './restore-from-audit.ts';
import { makeRuns } from './runs.ts';
import { Settings } from './settings.ts';

export type ModeldServiceDeps = {
  config: ModeldConfig;
  db: DeferredSyncDatabase;
  outbox: Outbox;
  /** Events of this store that the audit log has and the store lost. */
  lost: readonly NewEvent[];
  keys: Keys;
  upstream: Upstream;
  readArtifact: ReadArtifact;
  recordFetches: RecordFetches;
  /** Removes traces of forgotten texts from the files of the database. */
  seal: ReturnType<typeof makeSeal>;
  sockets: RunSockets;
  clock: Clock;
  newId: NewId;
  random: Random;
  log: Log;
  metrics: Metrics;
  policy: Pick<PolicySource, 'decide' | 'decideAll' | 'warm'>;
  failpoint(name: string): void;
};

export type ModeldService = Awaited<ReturnType<typeof openService>>;

export async function openService(parts: ModeldServiceDeps) {
  const { config, db, outbox, upstream, sockets, clock, newId, log, metrics, policy } = parts;
  const nowMs = () => clock.nowMs();
  const listOwnBudgets = await readOwnBudgets(db);
  const restored = await restoreFromAudit(db, parts.lost, listOwnBudgets);
  if (restored.calls + restored.outcomes > 0)
    log.warn('restored model calls from the audit log', restored);
  const journal = new Journal({ db, outbox, log, lastSeq: await db.read(readLastSeq) });
  // Before budgets are read, because calls left open are part of the spending.
  const left = await settleLeftCalls({ db, journal, nowMs, listOwnBudgets });
  if (left > 0) log.warn('charged model calls without an outcome in full', { calls: left });
  const budgets = await openBudgets(db, config, toDay(nowMs()));
  const providers = await Providers.open(parts);
  const runs = makeRuns({ db, budgets, sockets, journal, policy, log });
  const refused = (makeEvent: (id: string) => EventDraft): void => {
    db.write((sql) => outbox.add(sql, makeEvent(newId('refusal')))).then(
      () => outbox.wake(),
      (error: unknown) => log.warn('recording a refusal failed', { error }),
    );
  };
  const { failpoint } = parts;
  const apiKeys = await ApiKeys.open({
    ...parts,
    budgets,
    listMeanings: (model, kind) => providers.listMeanings(model, kind),
    isOffered: (model) => providers.isOffered(model),
    cutCalls: (secretIds, reason) => calls.cutCalls(secretIds, reason),
    recordRefusal: refused,
  });
  const feed = new LiveFeed();
  const calls = new ModelCalls({
    checkModelUse: makeCheckModelUse(policy),
    admitKey: (key, model) => apiKeys.admit(key, model),
    checkFetches: makeCheckFetches(policy, parts.recordFetches),
    upstream,
    budgets,
    journal,
    outbox,
    clock,
    log,
    metrics,
    recordRefusal: refused,
    observerFor: (call) => makeObserver(feed, call),
    failpoint,
  });
  const common = { ...parts, calls, runs, providers, journal, budgets };
  const generate = new Generate(common);
  const embed = makeEmbed(common);
  const clients = makeClientCalls({ ...common, embed });

  return {
    apiKeys,
    providers,
    runs,
    budgets,
    journal,
    calls,
    feed,
    /** Takes what of a changed configuration can change while calls are made. */
    reload(changed: ModeldConfig): void {
      providers.reload(changed);
      budgets.setLimit(toLimit('site', changed.budgets.site));
      budgets.setLimit(toLimit('day', changed.budgets.day));
      budgets.setAgentDefault(readAgentDefault(changed));
    },
    embed,
    embedMemories: makeEmbedMemories(common),
    generate: generate.generate.bind(generate),
    ...clients,
    settings: new Settings(common),
    reports: new Reports(common),
    pruning: makePruning(common),
    eraseCopies: makeEraseCopies(common),
    testModel: (caller: Caller, name: string, patience: CallDeadline) =>
      testModel({ providers, generate, embed, clients, nowMs }, caller, name, patience),
  };
}

function toLimit(subject: 'site' | 'day', { tokens, cost_usd }: LimitConfig): Limit {
  return {
    subject,
    name: '',
    tokensLimit: tokens ?? null,
    costLimitMicrousd: toMicrousd(cost_usd),
    setBy: 'config',
  };
}

function toMicrousd(usd: number | undefined): number | null {
  return usd === undefined ? null : Math.round(usd * 1_000_000);
}

const readAgentDefault = ({ budgets: { agents } }: ModeldConfig) => ({
  tokens: agents.default.tokens ?? null,
  costMicrousd: toMicrousd(agents.default.cost_usd),
});

async function openBudgets(db: Database, config: ModeldConfig, day: string): Promise<Budgets> {
  const { site, day: perDay } = config.budgets;
  const [stored, spent] = await db.read(async (sql) => {
    const limits = await readStandingLimits(sql);
    const current = await readCurrentSpent(sql, day);
    for (const { subject, name, period } of limits)
      if (period === 'total') current.push(await readSpent(sql, { subject, name, period: '' }));
    return [limits, current];
  });
  return new Budgets({
    limits: [toLimit('site', site), toLimit('day', perDay), ...stored],
    spent,
    agentDefault: readAgentDefault(config),
  });
}
