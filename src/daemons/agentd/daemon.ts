// agentd as a value: the one file that knows all its parts.
import { join } from 'node:path';
import { toTimestamp } from '../../platform/clock.ts';
import { type DaemonContext, defineDaemon } from '../../platform/daemon.ts';
import { openSqlite } from '../../platform/sql/sqlite.ts';
import { ownDir } from '../../platform/state-dir.ts';
import { agentdRoutes } from '../../wire/agentd.ts';
import { approvaldRoutes } from '../../wire/approvald.ts';
import { auditRoutes } from '../../wire/auditd-ai.ts';
import { modeldRoutes } from '../../wire/modeld.ts';
import { sandboxdRoutes } from '../../wire/sandboxd.ts';
import { tooldRoutes } from '../../wire/toold.ts';
import { type LiveActivations, makeActivations } from './activations.ts';
import { openBlobStore } from './adapters/blob-store.ts';
import { followHaltFile, type HaltFile } from './adapters/halt-file.ts';
import { type ManifestDir, openManifestDir } from './adapters/manifest-dir.ts';
import { followPolicyDir } from './adapters/policy-dir.ts';
import { makeSandboxLauncher } from './adapters/sandbox-launcher.ts';
import { makeAgents, prepareAgentsDir } from './agents.ts';
import { makeApi } from './api.ts';
import { makeArtifactRoom } from './artifact-disk-reserve.ts';
import { makeArtifacts } from './artifacts.ts';
import { makeCalls } from './calls.ts';
import { type AgentdConfig, agentdConfig } from './config.ts';
import { countEvents } from './counters.ts';
import { makeManifestReader } from './declared-tools.ts';
import { makeEarlierBriefings } from './earlier-briefings.ts';
import { type Halt, makeHalt } from './halt.ts';
import { makeMarkSync } from './mark-sync.ts';
import { makePublisher } from './policy.ts';
import { policyHandlers } from './policy-routes.ts';
import { makeQuotas } from './quotas.ts';
import { makeReplays } from './replay.ts';
import { type AgentdService, makeService } from './service.ts';
import { openStore } from './store/open-store.ts';
import { MIGRATIONS } from './store/schema.ts';
import { withdrawCanceled } from './withdrawals.ts';

/**
 * Services that messages can be addressed to, beside the agents and people. None of them takes any
 * yet.
 */
const serviceRunning = (): boolean => false;

async function start(floor: DaemonContext<AgentdConfig>) {
  const { config, clock, newId, log, stateDir } = floor;
  const toold = floor.peer('toold', tooldRoutes);
  const modeld = floor.peer('modeld', modeldRoutes);
  const sandboxd = floor.peer('sandboxd', sandboxdRoutes);
  const approvald = floor.peer('approvald', approvaldRoutes);
  const audit = floor.peer('auditd-ai', auditRoutes);
  let service: AgentdService | undefined;
  let activations: LiveActivations | undefined;
  let manifests: ManifestDir | undefined;
  let haltFile: HaltFile | undefined;
  let halt: Halt | undefined;

  const store = await openStore({
    db: openSqlite({ file: join(stateDir, 'agentd.sqlite'), migrations: MIGRATIONS, log }),
    clock,
    newId,
    log,
    append: (events) => audit.append({ body: { events } }),
    onCommitted(committed) {
      countEvents(floor.metrics, committed.events);
      withdrawCanceled(approvald, committed.events, log);
      service?.onCommitted(committed);
    },
  });
  const dir = join(stateDir, 'objects');
  const blobs = await openBlobStore({ dir });
  const room = makeArtifactRoom({ dir, reserveBytes: config.disk_reserve_bytes });
  const artifacts = makeArtifacts({ store, blobs, room, newId });
  service = makeService({
    store,
    config,
    clock,
    newId,
    log,
    activations: () => activations!,
    haltReason: () => halt?.reason(),
    checkInputs: artifacts.checkInputs,
    checkWorkspace: async (path) => void (await sandboxd.checkWorkspace({ body: { path } })),
  });
  const launcher = makeSandboxLauncher({ sandboxd, log });
  const quotas = makeQuotas(modeld);
  activations = makeActivations({
    store,
    config,
    log,
    toold,
    modeld,
    runSockets: floor.runSockets,
    launcher,
    limitsOf: service.limitsOf,
    schedule: service.schedule,
    failpoint: floor.failpoint,
    async readArtifactText(id) {
      const { artifact, text } = await artifacts.get(id);
      return {
        name: artifact.name,
        text: text ?? `(${artifact.mime_type}, ${artifact.size_bytes} bytes)`,
        labels: artifact.labels,
      };
    },
  });
  const agentsDir = config.agents_dir ?? join(stateDir, 'agents');
  if (config.agents_dir === undefined) prepareAgentsDir(agentsDir, config.starter_dir);
  const readManifest = makeManifestReader({ toold, log });
  const policiesDir = config.policies_dir ?? ownDir(join(stateDir, 'policies'));
  const policyDir = followPolicyDir(policiesDir, clock, () => {
    publisher
      .rescan()
      .catch((error: unknown) => log.error('policy could not be published', { error }));
  });
  const publisher = makePublisher({
    stateDir,
    clock,
    log,
    readSite: policyDir.read,
    people: config.people ?? null,
    protectedDirs: [stateDir, agentsDir, policiesDir],
    onPublished: ({ version, hash }) => store.runtimeEvent('policy.loaded', { version, hash }),
    onRefused: (refused) => store.runtimeEvent('policy.refused', refused),
  });
  const agents = makeAgents({
    store,
    dir: agentsDir,
    manifests: () => manifests!,
    quotas,
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
    dir: agentsDir,
    clock,
    log,
    inForce,
    onChange: agents.apply,
  });
  await agents.apply(manifests.current());
  halt = makeHalt({
    store,
    file: () => haltFile!,
    stopRunners: async () => (await activations?.stopAll()) ?? 0,
    log,
  });
  haltFile = followHaltFile(
    join(stateDir, 'HALT'),
    () =>
      void halt
        .follow()
        .catch((error: unknown) => log.error('the halt file could not be followed', { error })),
  );
  const replays = makeReplays({ store, activations, toold });
  const release = (run: { runId: string; fence: number }) => activations?.release(run);
  const toldMarks = makeMarkSync({ store, modeld, toold });
  const calls = makeCalls({
    store,
    config,
    clock,
    newId,
    artifacts,
    modeld,
    toldMarks,
    serviceRunning,
    limitsOf: service.limitsOf,
    release,
    failpoint: floor.failpoint,
  });
  const about = {
    version: floor.version,
    mode: floor.mode,
    stateDir,
    startedAt: toTimestamp(clock.nowMs()),
  };

  return {
    handlers: makeApi({
      store,
      policy: policyHandlers({ publisher, policiesDir, clock, audit, toold, readManifest }),
      service,
      agents,
      artifacts,
      calls,
      toldMarks,
      replays,
      earlierBriefings: makeEarlierBriefings({ store, modeld, toold }),
      halt,
      config,
      clock,
      serviceRunning,
      failpoint: floor.failpoint,
      release,
      about,
    }),
    async begin() {
      const swept = await launcher.stopAll();
      if (swept > 0) log.warn('runners of an earlier life were ended', { runners: swept });
      floor.runSockets.sweep();
      await halt.resume();
      await store.runtimeEvent('runtime.started', { version: floor.version, mode: floor.mode });
      await service?.begin();
      void activations?.dismissLeft().catch((error: unknown) => {
        log.warn('runs of an earlier life may still have their sockets', { error });
      });
    },
    async drain() {
      await service?.drain();
      // Given back before their processes are ended, so that a stop is not taken for a crash.
      await store.recoverRuns('the runtime stops');
      await activations?.stopAll();
    },
    async stop() {
      manifests?.close();
      policyDir.stop();
      haltFile?.stop();
      await store.runtimeEvent('runtime.stopped', {});
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
