// Prunes by the configured retention: once an hour, and when a person asks. One pass runs at a
// time; a person's pass takes precedence over the runtime's own. Dry runs disturb neither.
import { type Clock, type Timer, toTimestamp } from '../../../platform/clock.ts';
import type { Log } from '../../../platform/log.ts';
import type { RetentionConfig } from '../../../platform/retention-config.ts';
import {
  type PruneReport,
  RETENTION_KINDS,
  type RetentionKind,
  type StartPrune,
} from '../../../wire/agentd/retention.ts';
import { fault } from '../../../wire/errors.ts';
import type { AgentdStore } from '../store/store.ts';
import type { ArtifactPruner } from './artifacts.ts';
import type { DataPolicy } from './may-delete.ts';
import type { EpisodePruner } from './memories.ts';
import { CanceledPassError, makePace, type Pace } from './pace.ts';
import { type KindPruner, type Pass, prunePass } from './pass.ts';
import type { BackupPauses } from './pauses.ts';
import { makePassReport, type PassReport } from './report.ts';
import { PEER_OPTIONS, type PrunePeers, type TreePruner } from './trees.ts';

export type Retention = {
  /** Starts a pass and resolves to its report so far. */
  start(request: StartPrune, by: string): Promise<PruneReport>;
  /** Shows the pass that started then, or the last one. */
  view(startedAt?: string): {
    prune: PruneReport | null;
    next_at: string | null;
    backups: string[];
  };
  /** Schedules the runtime's own passes. */
  begin(): void;
  stop(): Promise<void>;
};

const OWN = 'service:agentd';
/** After a start, other work comes first. */
const FIRST_DELAY_MS = 5 * 60_000;
const INTERVAL_MS = 60 * 60_000;
const EXPIRED_AT_ONCE = 20;
const DRY_RUNS_MAX = 4;
const REPORTS_MAX = 10;

type RunningPass = { by: string; report: PassReport; abort(): void; ended: Promise<void> };

export function makeRetention(deps: {
  store: AgentdStore;
  trees: TreePruner;
  artifacts: ArtifactPruner;
  memories: EpisodePruner;
  /** Pruned before the trees that they belong to. */
  parts: readonly KindPruner[];
  peers: PrunePeers;
  policy: DataPolicy;
  pauses: BackupPauses;
  config: RetentionConfig;
  isBusy: () => boolean;
  clock: Clock;
  log: Log;
}): Retention {
  const { trees, artifacts, memories, policy, pauses, clock, log } = deps;
  const pruners: ReadonlyMap<RetentionKind, KindPruner> = new Map(
    [artifacts, memories, ...deps.parts, trees].map((pruner) => [pruner.kind, pruner]),
  );
  let running: RunningPass | undefined;
  const dryRuns = new Set<RunningPass>();
  /** In the order of their start. */
  const reports: PassReport[] = [];
  let timer: Timer | undefined;
  let nextMs: number | undefined;
  let isStopped = false;
  /** Denials of the last pass of the runtime. */
  let ownDenials = '';

  /** The runtime's own passes repeat every hour: only a change is an event. */
  const recordDenials = async ({ by, report }: Pass): Promise<void> => {
    const denials = report.denials();
    const text = JSON.stringify(denials);
    if (by === OWN && text === ownDenials) return;
    if (by === OWN) ownDenials = text;
    for (const { kind, count, rules } of denials)
      await deps.store.recordDenial({
        action: 'data.delete',
        principal: by,
        rules,
        data: { kind, kept: count },
      });
  };

  const run = async (kinds: readonly RetentionKind[], pass: Pass): Promise<void> => {
    const { report, pace, isDryRun } = pass;
    let open = 0;
    try {
      if (!isDryRun) {
        open = await trees.finishOpen(pace.step);
        await artifacts.removeUnused(pace.step);
      }
      for (const [kind, pruner] of pruners)
        if (kinds.includes(kind)) await prunePass(pruner, pass, policy);
      if (!isDryRun) {
        if (kinds.includes('memories')) await memories.compact(pace.step);
        if (
          kinds.includes('tasks') &&
          pass.only === undefined &&
          (await mayPrunePeoplesCalls(policy, pass))
        )
          await trees.prunePeoplesCalls(pass);
        await expireTombstones(deps, pace);
        await recordDenials(pass);
        open = (await deps.store.listOpenPrunes(0, 1_000)).length;
      }
      report.end('completed', open);
    } catch (error) {
      report.end('canceled', open);
      if (!(error instanceof CanceledPassError)) log.error('pruning failed', { error });
    }
    logReport(log, report.view());
  };

  const startPass = (request: StartPrune, by: string): RunningPass => {
    const controller = new AbortController();
    const kinds = request.kinds ?? RETENTION_KINDS.filter((kind) => pruners.has(kind));
    const isDryRun = request.dry_run === true;
    const { root_task_ids: roots } = request;
    const olderThanS = request.older_than_s ?? (roots === undefined ? undefined : 0);
    const report = makePassReport({ by, dryRun: isDryRun, kinds, clock });
    const pass: Pass = {
      nowMs: clock.nowMs(),
      by,
      isDryRun,
      isApproved: request.approve === true,
      olderThanMs: olderThanS === undefined ? undefined : olderThanS * 1_000,
      only: roots === undefined ? undefined : new Set(roots),
      report,
      pace: makePace({
        isBusy: deps.isBusy,
        signal: controller.signal,
        pauses: isDryRun ? undefined : pauses,
      }),
    };
    const abort = () => controller.abort(new CanceledPassError('the pass was canceled'));
    const ended = run(kinds, pass).finally(() => {
      if (running === started) running = undefined;
      dryRuns.delete(started);
    });
    const started: RunningPass = { by, report, abort, ended };
    if (isDryRun) dryRuns.add(started);
    else running = started;
    reports.push(report);
    if (reports.length > REPORTS_MAX) reports.shift();
    return started;
  };

  const schedule = (delayMs: number): void => {
    if (isStopped) return;
    nextMs = clock.nowMs() + delayMs;
    timer = clock.at(nextMs, () => {
      if (running === undefined) startPass({}, OWN);
      schedule(INTERVAL_MS);
    });
  };

  return {
    async start(request, by) {
      if (isStopped) throw fault('stopping', 'the runtime is stopping');
      for (const id of request.root_task_ids ?? []) await deps.store.findEndedTree(id);
      if (request.dry_run === true) {
        if (dryRuns.size >= DRY_RUNS_MAX) throw fault('overloaded', 'too many dry runs at once');
        return startPass(request, by).report.view();
      }
      while (running !== undefined) {
        if (running.by !== OWN)
          throw fault('conflict', `${running.by} is already pruning`, {
            hint: 'Wait until it has ended: agentctl prune --status.',
          });
        running.abort();
        await running.ended;
      }
      return startPass(request, by).report.view();
    },
    view: (startedAt) => ({
      prune: findReport(reports, startedAt) ?? null,
      next_at: nextMs === undefined ? null : toTimestamp(nextMs),
      backups: pauses.list(),
    }),
    begin: () => schedule(FIRST_DELAY_MS),
    async stop() {
      isStopped = true;
      timer?.cancel();
      const passes = [...dryRuns, ...(running === undefined ? [] : [running])];
      for (const pass of passes) pass.abort();
      await Promise.all(passes.map(({ ended }) => ended));
    },
  };
}

function findReport(
  reports: readonly PassReport[],
  startedAt: string | undefined,
): PruneReport | undefined {
  const views = reports.map((report) => report.view());
  return startedAt === undefined
    ? views.at(-1)
    : views.findLast(({ started_at }) => started_at === startedAt);
}

async function mayPrunePeoplesCalls(policy: DataPolicy, { by, report }: Pass): Promise<boolean> {
  const id = 'model-calls';
  const item = { kind: 'tasks', agents: [], rootTaskId: null, id, labels: [], ageMs: 0 } as const;
  const { answer, reason: detail, rules } = await policy.mayDelete(by, item);
  if (answer !== 'allow')
    report.addKept('tasks', {
      id: 'model calls by people',
      reason: answer === 'ask' ? 'needs_approval' : 'policy',
      detail,
      rules,
    });
  return answer === 'allow';
}

async function expireTombstones(
  deps: { store: AgentdStore; peers: PrunePeers; config: RetentionConfig; clock: Clock },
  pace: Pace,
): Promise<void> {
  const { store, peers, clock } = deps;
  const { age } = deps.config.tombstones;
  if (age === null) return;
  const beforeMs = clock.nowMs() - age;
  const before = toTimestamp(beforeMs);
  const jobs = [
    () => store.expireTombstones(beforeMs, EXPIRED_AT_ONCE),
    ...[peers.toold, peers.modeld, peers.approvald].map(
      (peer) => async () =>
        (await peer.expireTombstones({ body: { before } }, PEER_OPTIONS)).expired,
    ),
  ];
  for (const job of jobs) while ((await pace.step(job)) > 0);
}

function logReport(log: Log, { by, dry_run, status, kinds, open }: PruneReport): void {
  const pruned = kinds.filter((kind) => kind.pruned > 0);
  if (pruned.length === 0 && open === 0) return;
  const counts = Object.fromEntries(
    pruned.map(({ kind, pruned: n, bytes }) => [kind, { n, bytes }]),
  );
  log.info('pruned', { by, dry_run, status, open, ...counts });
}
