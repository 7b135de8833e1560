// Assembles agentd: opens its store, connects its components, and defines how it starts and stops.
import { join } from 'node:path';
import { openBlobStore } from '../../platform/blob-store.ts';
import { toTimestamp } from '../../platform/clock.ts';
import { type DaemonContext, defineDaemon } from '../../platform/daemon.ts';
import { openSqlite } from '../../platform/sql/sqlite.ts';
import { makePrivateDir } from '../../platform/state-dir.ts';
import { agentdRoutes } from '../../wire/agentd.ts';
import { approvaldRoutes } from '../../wire/approvald.ts';
import { auditRoutes } from '../../wire/auditd-ai.ts';
import { maildRoutes } from '../../wire/maild.ts';
import { memorydRoutes } from '../../wire/memoryd.ts';
import { modeldRoutes } from '../../wire/modeld.ts';
import { sandboxdRoutes } from '../../wire/sandboxd.ts';
import { tooldRoutes } from '../../wire/toold.ts';
import { type LiveActivations, makeActivations } from './activations.ts';
import { type HaltFile, pollHaltFile } from './adapters/halt-file.ts';
import { type ManifestDir, openManifestDir } from './adapters/manifest-dir.ts';
import { makeSandboxLauncher } from './adapters/sandbox-launcher.ts';
import { makeApi } from './api.ts';
import { makeArtifactDiskReserve } from './artifact-disk-reserve.ts';
import { makeArtifacts } from './artifacts.ts';
import { makeBackupHandlers } from './backups.ts';
import { makeCalls } from './calls.ts';
import { openChanges } from './changes/handlers.ts';
import { type AgentdConfig, agentdConfig } from './config.ts';
import { addQueueGauges, countEvents, observeEndedTasks } from './counters.ts';
import { openDigests } from './digest/handlers.ts';
import { makeErasures } from './erasure/erasures.ts';
import { type Halt, makeHalt } from './halt.ts';
import { makeIncomingMailHandlers } from './incoming-mail.ts';
import { makeLegacyBriefings } from './legacy-briefings.ts';
import { makeAgents, prepareAgentsDir } from './manifests/agents.ts';
import { listClosedDirs } from './manifests/closed-dirs.ts';
import { makeDailyBudgets } from './manifests/daily-budgets.ts';
import { makeManifestReader, makeSchemaList } from './manifests/declared-tools.ts';
import { makeMarkSync } from './mark-sync.ts';
import { makeFindMatch } from './matching/matching.ts';
import { type Episodes, makeEpisodes } from './memory/episodes.ts';
import { makeMemoryInputs } from './memory/inputs.ts';
import { makeRecallMemories } from './memory/recall.ts';
import { makePersonNotices, type PersonNotices } from './notices.ts';
import { type Orders, openOrders } from './open-orders.ts';
import { makeOutgoingMailHandlers } from './outgoing-mail.ts';
import { makeChangeForParent, makeForkLayer } from './own-layers.ts';
import { makePersonaHandlers } from './personas/handlers.ts';
import { makeCurrentPolicy } from './policy/current-policy.ts';
import { makePolicyHandlers } from './policy/handlers.ts';
import { openPolicy } from './policy/open-policy.ts';
import { makePresetHandlers } from './presets/load-preset.ts';
import { makePrograms, type Programs } from './programs.ts';
import { makeProposalHandlers } from './proposals.ts';
import { makeReplays } from './replay.ts';
import { applyRestore } from './restore.ts';
import { openRetention } from './retention/open-retention.ts';
import { makeBackupPauses } from './retention/pauses.ts';
import { type AgentdService, makeService } from './service.ts';
import { makeMayReadShared, makeSharedArtifactHandlers } from './shared-artifacts.ts';
import { makeSkillHandlers } from './skills/handlers.ts';
import { openStore } from './store/open-store.ts';
import { ID_COLUMNS, MIGRATIONS } from './store/schema.ts';
import { makeTeamHandlers } from './team.ts';
import { withdrawApprovals } from './withdraw-approvals.ts';

async function start(context: DaemonContext<AgentdConfig>) {
  const { config, clock, newId, log, stateDir } = context;
  const toold = context.peer('toold', tooldRoutes);
  const modeld = context.peer('modeld', modeldRoutes);
  const memoryd = context.peer('memoryd', memorydRoutes);
  const maild = context.peer('maild', maildRoutes);
  const sandboxd = context.peer('sandboxd', sandboxdRoutes);
  const approvald = context.peer('approvald', approvaldRoutes);
  const audit = context.peer('auditd-ai', auditRoutes);
  let service: AgentdService | undefined;
  let activations: LiveActivations | undefined;
  let programs: Programs | undefined;
  let episodes: Episodes | undefined;
  let notices: PersonNotices | undefined;
  let manifests: ManifestDir | undefined;
  let orders: Orders | undefined;
  let haltFile: HaltFile | undefined;
  let halt: Halt | undefined;

  const liveCount = (): number => (activations?.liveCount() ?? 0) + (programs?.liveCount() ?? 0);

  const database = openSqlite({
    file: join(stateDir, 'agentd.sqlite'),
    migrations: MIGRATIONS,
    log,
  });
  const store = await openStore({
    db: database,
    clock,
    newId,
    log,
    append: (events) => audit.append({ body: { events } }),
    onCommitted(committed) {
      countEvents(context.metrics, committed.events);
      void observeEndedTasks(context.metrics, committed.events, { toold, modeld }, log);
      withdrawApprovals(approvald, committed.events, log);
      service?.onCommitted(committed);
      episodes?.onCommitted(committed);
      notices?.onCommitted(committed);
      if (committed.haltReason !== undefined)
        void halt?.set(committed.haltReason, 'service:agentd').catch((error: unknown) => {
          log.error('halting after a failed task failed; nothing starts anyway', { error });
        });
    },
  });
  addQueueGauges(context.metrics, store, clock);
  await applyRestore({ store, stateDir, log });
  const dir = join(stateDir, 'objects');
  const blobs = await openBlobStore({ dir });
  const diskReserve = makeArtifactDiskReserve({ dir, reserveBytes: config.disk_reserve_bytes });
  const artifacts = makeArtifacts({
    store,
    blobs,
    diskReserve,
    newId,
    mayReadShared: makeMayReadShared(store),
  });
  const memoryInputs = makeMemoryInputs({ store, memoryd });
  service = makeService({
    store,
    config,
    clock,
    newId,
    log,
    activations: () => ({
      start: activations!.start,
      async stop(run, reason) {
        await Promise.all([activations!.stop(run, reason), programs?.stop(run, reason)]);
      },
      liveCount,
    }),
    // The warden ends the boxes as soon as the file appears, before the file is polled here; their
    // runs must not start again meanwhile.
    haltReason: () => halt?.reason() ?? haltFile?.readReason(),
    checkInputs: artifacts.checkInputs,
    checkMemoryInputs: memoryInputs.check,
    checkWorkspace: async (path, mode) =>
      void (await sandboxd.checkWorkspace({ body: { path, mode } })),
    forkLayer: makeForkLayer(sandboxd),
    findMatch: makeFindMatch(store),
  });
  const launcher = makeSandboxLauncher({ sandboxd, log });
  const dailyBudgets = makeDailyBudgets(modeld);
  activations = makeActivations({
    store,
    config,
    log,
    toold,
    modeld,
    runSockets: context.runSockets,
    launcher,
    limitsFor: service.limitsFor,
    schedule: service.schedule,
    failpoint: context.failpoint,
    recallMemories: makeRecallMemories({
      store,
      memoryd,
      config: config.memory,
      limitsFor: service.limitsFor,
      log,
    }),
    readMemoryInputs: memoryInputs.read,
    matchSkills: (goal, allowed) => orders!.matchSkills(goal, allowed),
    readArtifactText: artifacts.readText,
  });
  const own = { store, clock, log, failpoint: context.failpoint };
  episodes = makeEpisodes({ ...own, memoryd, toold, modeld, config: config.memory });
  const digests = openDigests({ ...own, modeld, approvald, audit });
  notices = makePersonNotices({ ...own, maild, writeDigest: digests.writeDigest });
  const agentsDir = config.agents_dir ?? join(stateDir, 'agents');
  if (config.agents_dir === undefined) prepareAgentsDir(agentsDir, config.starter_dir);
  const listToolSchemas = makeSchemaList({ toold, log });
  const policiesDir = config.policies_dir ?? makePrivateDir(join(stateDir, 'policies'));
  const told = await openOrders(context, async () => manifests?.rescan());
  orders = told;
  const readManifest = makeManifestReader({
    toold,
    personas: told.personas.current,
    log,
    closedDirs: listClosedDirs({ ...context, agentsDir, policiesDir, orderDirs: told.dirs }),
  });
  const { publisher, policyDir } = openPolicy(context, {
    store,
    policiesDir,
    listToolSchemas,
    protectedDirs: [stateDir, agentsDir, policiesDir, ...told.dirs],
  });
  const agents = makeAgents({
    store,
    dir: agentsDir,
    manifests: () => manifests!,
    dailyBudgets,
    log,
    publish: publisher.setAgents,
    readManifest,
    modeld,
  });
  const inForce = (await store.agents()).flatMap(({ row, spec }) =>
    row.manifest_file === null ? [] : [{ file: row.manifest_file, agent: spec }],
  );
  manifests = await openManifestDir({
    read: readManifest,
    version: () => told.personas.current().version,
    dir: agentsDir,
    clock,
    log,
    inForce,
    onChange: agents.applyManifests,
  });
  await agents.applyManifests(manifests.current());
  halt = makeHalt({
    store,
    file: () => haltFile!,
    stopRunners: async () => (await activations?.stopAll()) ?? 0,
    log,
  });
  haltFile = pollHaltFile(
    join(stateDir, 'HALT'),
    () =>
      void halt
        .checkFile()
        .catch((error: unknown) => log.error('checking the halt file failed', { error })),
  );
  programs = makePrograms({
    store,
    config,
    log,
    toold,
    activations,
    launcher,
    service,
    agents,
    failpoint: context.failpoint,
  });
  const replays = makeReplays({ store, activations, toold });
  const release = (run: { runId: string; fence: number }) => activations?.release(run);
  const markSync = makeMarkSync({ store, modeld, toold });
  const policy = makeCurrentPolicy(publisher.bundle, clock);
  const { changes, handlers: changeHandlers } = openChanges({
    store,
    peers: { sandboxd, toold, approvald },
    policy,
    newId,
    log,
    failpoint: context.failpoint,
  });
  const calls = makeCalls({
    store,
    config,
    clock,
    newId,
    artifacts,
    memoryInputs,
    modeld,
    markSync,
    applyApprovalEnded: changes.approvalEnded,
    limitsFor: service.limitsFor,
    forkLayer: makeForkLayer(sandboxd),
    changeForParent: makeChangeForParent({ store, changes }),
    release,
    failpoint: context.failpoint,
  });
  const pauses = makeBackupPauses(clock);
  const { retention, handlers: retentionHandlers } = openRetention({
    context,
    store,
    blobs,
    peers: { toold, modeld, approvald, sandboxd, memoryd },
    pauses,
    bundle: publisher.bundle,
    isBusy: () => liveCount() > 0,
  });
  const erasures = makeErasures({
    store,
    database,
    blobs,
    peers: { toold, approvald, maild, memoryd, modeld },
    stopRun: activations.stop,
    clock,
    log,
    failpoint: context.failpoint,
  });
  const about = {
    version: context.version,
    mode: context.mode,
    stateDir,
    startedAt: toTimestamp(clock.nowMs()),
  };

  return {
    handlers: makeApi({
      store,
      policy: makePolicyHandlers({
        publisher,
        policiesDir,
        clock,
        audit,
        toold,
        listToolSchemas,
        readManifest,
      }),
      presets: makePresetHandlers({
        store,
        service,
        agents,
        readManifest,
        personas: told.personas.current,
        newId,
      }),
      personas: makePersonaHandlers({ store, library: told.personas.current }),
      skills: makeSkillHandlers({ dirs: told.skills, store }),
      team: makeTeamHandlers({ store }),
      shared: makeSharedArtifactHandlers({ store }),
      proposals: makeProposalHandlers({ store, stateDir, orders: told }),
      changes: changeHandlers,
      outgoingMail: makeOutgoingMailHandlers({ store }),
      incomingMail: makeIncomingMailHandlers({ store, service, artifacts, policy, config, clock }),
      erasures: erasures.handlers,
      findApplyRun: changes.findRun,
      digests: digests.makeHandlers(() => notices?.wake()),
      backups: makeBackupHandlers({ store, clock, newId, pauses }),
      retention: retentionHandlers,
      service,
      agents,
      artifacts,
      calls,
      markSync,
      programs,
      replays,
      legacyBriefings: makeLegacyBriefings({ store, modeld, toold }),
      halt,
      config,
      clock,
      failpoint: context.failpoint,
      release,
      waitUntilBriefed: activations.waitUntilBriefed,
      about,
    }),
    database,
    ids: { db: database, columns: ID_COLUMNS },
    async begin() {
      const swept = await launcher.stopAll();
      if (swept > 0) log.warn('ended runners left from before the restart', { runners: swept });
      context.runSockets.sweep();
      await halt.resume();
      await store.recordRuntimeEvent('runtime.started', {
        version: context.version,
        mode: context.mode,
        ...context.restart,
      });
      await service?.begin();
      void activations?.dismissStale().catch((error: unknown) => {
        log.warn('dismissing runs from before the restart failed', { error });
      });
      await changes.begin();
      retention.begin();
      episodes?.begin();
      notices?.begin();
      erasures.begin();
    },
    async drain() {
      await retention.stop();
      await service?.drain();
      await Promise.all([episodes?.stop(), notices?.stop(), erasures.stop()]);
      // Requeue before ending the processes, so that their exits do not count as crashes.
      await store.recoverRuns('runtime shutting down');
      await activations?.stopAll();
    },
    async stop() {
      manifests?.close();
      orders?.close();
      policyDir.stop();
      haltFile?.stop();
      await store.recordRuntimeEvent('runtime.stopped', {});
      await store.close();
    },
  };
}

export const agentd = defineDaemon({
  name: 'agentd',
  routes: agentdRoutes,
  config: agentdConfig,
  start,
});
