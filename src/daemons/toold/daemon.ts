// Wires toold together; the one file that knows all its parts.
import { join } from 'node:path';
import { retryWithBackoff } from '../../platform/backoff.ts';
import { makeEraseRecords } from '../../platform/copies/erase-records.ts';
import { makeSeal } from '../../platform/copies/seal.ts';
import {
  type DaemonContext,
  type DaemonHandle,
  defineDaemon,
  isFault,
} from '../../platform/daemon.ts';
import { JsonText } from '../../platform/link.ts';
import { type Outbox, openOutbox } from '../../platform/outbox.ts';
import type { Database } from '../../platform/sql/database.ts';
import { deferSync } from '../../platform/sql/deferred-sync.ts';
import { openSqlite } from '../../platform/sql/sqlite.ts';
import { auditRefusals } from '../../policy/refusals.ts';
import { openPolicySource, type PolicySource } from '../../policy/source.ts';
import { agentdRoutes } from '../../wire/agentd.ts';
import { approvaldRoutes } from '../../wire/approvald.ts';
import { auditRoutes } from '../../wire/auditd-ai.ts';
import { egressdRoutes } from '../../wire/egressd.ts';
import type { NewEvent } from '../../wire/events.ts';
import { maildRoutes } from '../../wire/maild.ts';
import { memorydRoutes } from '../../wire/memoryd.ts';
import type { BoxId, RunId } from '../../wire/primitives.ts';
import { sandboxdRoutes } from '../../wire/sandboxd.ts';
import { tooldRoutes } from '../../wire/toold.ts';
import { makeHandlers } from './api.ts';
import { makeAttempts } from './attempts/attempts.ts';
import type { BoxProvider } from './attempts/job.ts';
import { makeNeedsConfirmation } from './attempts/restored.ts';
import { makeEgressSessions } from './boxes/egress-sessions.ts';
import { makeRunBoxes } from './boxes/run-boxes.ts';
import { makeWorkspaceLocks } from './boxes/workspace-locks.ts';
import { type CommandToolDir, openCommandTools } from './command-tools/directory.ts';
import { type TooldConfig, tooldConfig } from './config.ts';
import { makeEraseCopies } from './erase-copies.ts';
import { makeApprovals } from './permission/approvals.ts';
import { makeApprovedHosts } from './permission/approved-hosts.ts';
import { makeAuthority } from './permission/authority.ts';
import { makeChains } from './permission/chain.ts';
import { openContainment } from './permission/containment.ts';
import { makeMarks } from './permission/marks.ts';
import { makePermissions } from './permission/permission.ts';
import { makeWhatIf } from './permission/what-if.ts';
import { makeFinishResult } from './results/finish-result.ts';
import { makeRuns, type ToolRun } from './runs.ts';
import { makeService } from './service.ts';
import { COPY_PLACES } from './store/copy-places.ts';
import { makeRunRows } from './store/run-rows.ts';
import { ID_COLUMNS, MIGRATIONS } from './store/schema.ts';
import { makeStore } from './store/store.ts';
import type { OpenHost } from './tools/network.ts';
import { makeRegistry } from './tools/registry.ts';
import { type AppendLine, appendToFile } from './tools/test-tools.ts';

const AUDIT_WAIT_MS = 2_000;
/** 16 MB of write-ahead log. */
const TUNING = { logPagesMax: 4_000 };
/** Short, because closing a box waits for it. */
const EGRESS_LOOKUP = { deadlineMs: 2_000 };
const OUTAGE_MS_MAX = 5_000;
const BACKOFF_MS_MAX = 200;

export type TooldDeps = {
  context: DaemonContext<TooldConfig>;
  db: Database;
  outbox: Outbox;
  policy: PolicySource;
  /** Set only where test tools are enabled. */
  appendLine: AppendLine | undefined;
  /** Removes traces of forgotten texts from the files of the database. */
  seal: ReturnType<typeof makeSeal>;
};

export async function assemble(parts: TooldDeps): Promise<DaemonHandle<typeof tooldRoutes>> {
  const { context, db, outbox, policy, appendLine, seal } = parts;
  const { clock, config, log, metrics, failpoint } = context;
  const agentd = context.peer('agentd', agentdRoutes);
  const approvald = context.peer('approvald', approvaldRoutes);
  const store = makeStore(db, outbox);
  const egressd = context.peer('egressd', egressdRoutes);
  const sandboxd = context.peer('sandboxd', sandboxdRoutes);
  const grants = makeApprovedHosts(db);
  const ways = makeEgressSessions({ egressd, bytesMax: config.egress_bytes_max, log });
  const boxes = makeRunBoxes({
    sandboxd,
    egressd,
    ways,
    grants,
    newBoxId: () => context.newId<BoxId>('box'),
    runOf: (runId) => runs.live(runId),
    markProgram: (run) => marks.markProgram(run),
    policy,
    clock,
    log,
  });
  const hasReceived = async ({ runId }: ToolRun): Promise<boolean> => {
    const fetchEgress = () => egressd.getEgress({ params: { id: runId } }, EGRESS_LOOKUP);
    try {
      // A restarted egressd still knows, so a short outage need not withhold a result.
      const { egress } = await retryWithBackoff(fetchEgress, {
        isTransient: (error) => isFault(error, 'unavailable'),
        backoffMsMax: BACKOFF_MS_MAX,
        timeoutMs: OUTAGE_MS_MAX,
      });
      return egress.bytes_received > 0;
    } catch (error) {
      if (isFault(error, 'not_found')) return false;
      throw error;
    }
  };
  const marks = makeMarks({
    agentd,
    store,
    onMarked: boxes.narrow,
    hasReceived,
    listEgressRuns: () => runs.listLive().filter(ways.has),
  });
  const runs = makeRuns({
    db,
    rows: makeRunRows(() => clock.nowMs()),
    store,
    sockets: context.runSockets,
    log,
    onGone(run) {
      grants.forget(run);
      void marks
        .markAfterRun(run)
        .catch((error: unknown) =>
          log.warn('marking the downloads of an ended run failed', { error }),
        )
        .finally(() => boxes.close(run));
    },
  });
  const fetch: typeof egressd.fetch = async (request, callOptions) => {
    await boxes.openEgress(runs.live(request.params.id as RunId));
    return egressd.fetch(request, callOptions);
  };
  const openHost: OpenHost = async ({ runId, callId }, { host, port, approvalId }) => {
    const run = runs.live(runId);
    await grants.add(run, { host, port, callId, approvalId, nowMs: clock.nowMs() });
    const { granted } = await boxes.openEgress(run);
    const isOpen = granted.some((rule) => rule.host === host && rule.port === port);
    return { isOpen, onlyReads: run.labels.has('outside') };
  };
  let declared: CommandToolDir | undefined;
  const registry = makeRegistry({
    agentd,
    memoryd: context.peer('memoryd', memorydRoutes),
    maild: context.peer('maild', maildRoutes),
    egressd: { ...egressd, fetch },
    openHost,
    clock,
    appendLine,
    tests: config.tests,
    declared: () => declared?.current().tools ?? [],
  });
  declared = await openCommandTools({
    dir: config.tools_dir ?? join(context.stateDir, 'tools'),
    taken: registry.own,
    places: { host: boxes.host },
    clock,
    log,
  });
  // Before any route is served, so that no new call can be mistaken for one left by a crash.
  const count = await store.markLeftUnknown((name) => registry.get(name)?.idempotent === true);
  if (count > 0) log.warn('calls have unknown outcomes after a restart', { count });

  const finishResult = makeFinishResult({ agentd, sizeBytesMax: config.result_size_bytes_max });
  const limits = {
    repeatsMax: config.breaker_repeats_max,
    staleCallsMax: config.breaker_stale_calls_max,
  };
  const authority = makeAuthority(policy, grants);
  const containment = await openContainment({
    db,
    outbox,
    clock,
    newId: context.newId,
    log,
    limits: {
      violationsMax: config.violations_max,
      windowMs: config.violations_within_s * 1_000,
    },
  });
  const permissions = makePermissions({ authority, marks, limits, containment, clock });
  const chains = makeChains({ registry, policy, grants, store });
  const approvals = makeApprovals({ approvald, agentd, chains });
  const boxOf: BoxProvider = ({ run, callId, signal }, touched) =>
    boxes.boxFor(run, { callId, signal, touched });
  const own = { store, outbox, runs, agentd, finishResult, permissions, approvals, marks, boxOf };
  const locks = makeWorkspaceLocks({ policy });
  const needsConfirmation = makeNeedsConfirmation({ store, reachOf: boxes.loadRules });
  const attempts = makeAttempts({
    ...own,
    locks,
    needsConfirmation,
    containment,
    clock,
    log,
    failpoint,
  });
  const eraseRecords = makeEraseRecords({ db, places: COPY_PLACES, seal });
  const inFlightPerRunMax = config.calls_in_flight_per_run_max;
  const { findSuspensions: suspensionsOf } = containment;
  const service = makeService({
    store,
    runs,
    registry,
    attempts,
    metrics,
    inFlightPerRunMax,
    suspensionsOf,
  });

  return {
    handlers: makeHandlers({
      service,
      runs,
      store,
      marks,
      containment,
      whatIf: makeWhatIf({ policy, containment }),
      toolNamed: registry.get,
      problems: () => declared?.current().problems ?? [],
      openProgram: boxes.openProgram,
      async prune(tree) {
        failpoint('toold.before-prune');
        // Its dismissal may have been lost.
        for (const run of tree.run_ids.flatMap((id) => runs.find(id) ?? []))
          await runs.dismiss(run.runId, run.fence);
        const egress = await egressd.prune({ body: tree });
        const own = await store.pruneCalls(tree, clock.nowMs());
        failpoint('toold.after-prune');
        return { ...own, rows: own.rows + egress.rows };
      },
      eraseCopies: makeEraseCopies({ eraseRecords, egressd, failpoint }),
    }),
    async begin() {
      // Boxes from before the restart, which this process does not know.
      await sandboxd.closeBoxes({}).catch((error: unknown) => {
        if (!isFault(error, 'unavailable'))
          log.warn('closing boxes from before the restart failed', { error });
      });
      await runs.reopen();
      void ways.reconcile((runId) => runs.find(runId));
    },
    async drain() {
      if (await service.waitUntilIdle(config.drain_wait_ms)) return;
      service.abortAll();
      await service.waitUntilIdle(AUDIT_WAIT_MS);
    },
    async stop() {
      service.abortAll();
      await service.waitUntilIdle(AUDIT_WAIT_MS);
      await outbox.drain(AUDIT_WAIT_MS);
      outbox.stop();
      policy.close();
      declared?.close();
      await db.close();
    },
  };
}

async function start(
  context: DaemonContext<TooldConfig>,
): Promise<DaemonHandle<typeof tooldRoutes>> {
  const { clock, config, log, stateDir } = context;
  const audit = context.peer('auditd-ai', auditRoutes);
  const append = (events: NewEvent[]) => audit.append({ body: { events } });
  const appendTexts = (texts: string[]) =>
    audit.append(
      { body: new JsonText(`{"events":[${texts.join(',')}]}`) as never },
      { trace: 'none' },
    );
  const file = join(stateDir, 'toold.sqlite');
  // Deferred sync, so that no call waits for another's fsync.
  const database = openSqlite({ file, migrations: MIGRATIONS, log });
  const db = await deferSync(database, file, TUNING);
  const outbox = await openOutbox({ db, source: 'toold', clock, append, appendTexts, log });
  const effectFile = config.test_effect_file ?? join(stateDir, 'test-effects');
  const appendLine = config.test_tools ? appendToFile(effectFile) : undefined;
  const policy = openPolicySource({
    file: join(stateDir, 'policy', 'bundle.json'),
    log,
    clock,
    onRefused: auditRefusals({ daemon: 'toold', db, outbox, newId: context.newId, log }),
  });
  return {
    ...(await assemble({
      context,
      db,
      outbox,
      policy,
      appendLine,
      seal: makeSeal({ db: database, log }),
    })),
    database,
    ids: { db: database, columns: ID_COLUMNS },
  };
}

export const toold = defineDaemon({
  name: 'toold',
  routes: tooldRoutes,
  config: tooldConfig,
  start,
});
