// Assembles sandboxd from its parts.
import { mkdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { type DaemonContext, defineDaemon } from '../../platform/daemon.ts';
import { LiveFeed } from '../../platform/live-feed.ts';
import { openOutbox } from '../../platform/outbox.ts';
import { openSqlite } from '../../platform/sql/sqlite.ts';
import { auditRoutes } from '../../wire/auditd-ai.ts';
import { sandboxdRoutes } from '../../wire/sandboxd.ts';
import {
  findRunnerFiles,
  type RunnerFiles,
  secretPaths,
  systemBinds,
  toolBinds,
} from './adapters/host-paths.ts';
import { makeLinuxUsers } from './adapters/linux-users.ts';
import { openProcessRecords } from './adapters/process-records.ts';
import { makeWarden } from './adapters/warden.ts';
import { makeHandlers } from './api.ts';
import { hostUser, wardenPaths } from './bounds.ts';
import { makeBoxDisks } from './box-disk.ts';
import { makeBoxPlanner } from './box-plan.ts';
import { type BoxTable, makeBoxes } from './boxes.ts';
import { type SandboxdConfig, sandboxdConfig } from './config.ts';
import { makeDisk } from './disk.ts';
import { agentUids, makeIdentities } from './identities.ts';
import { makeKeptHomes } from './kept-homes.ts';
import { makeLayerBoxes } from './layer-boxes.ts';
import { makeWithBoxfs } from './layer-boxfs.ts';
import { makeLayerMerges } from './layer-merges.ts';
import { type LayerOriginals, makeLayerOriginals } from './layer-originals.ts';
import { makeLayerProbe } from './layer-probe.ts';
import { makeLayerService } from './layer-service.ts';
import { makeLayerViews } from './layer-views.ts';
import { type Layers, makeLayers } from './layers.ts';
import { makeLevels } from './levels.ts';
import { makeLiveGuards } from './live-guards.ts';
import { makeBoxPrograms } from './programs.ts';
import { makeQuota } from './quota.ts';
import { makeRunEnds } from './run-ends.ts';
import { makeRunners } from './runners.ts';
import { ID_COLUMNS, MIGRATIONS, makeStore } from './store.ts';
import { makeTreeFiles, type TreeFileService } from './tree-files.ts';
import { makeTreeGate } from './tree-gate.ts';
import { makeWorkspaces, treeGids } from './workspaces.ts';

const AUDIT_WAIT_MS = 2_000;

async function start(context: DaemonContext<SandboxdConfig>) {
  const { config, clock, log, newId, stateDir, runtimeDir, failpoint } = context;
  const audit = context.peer('auditd-ai', auditRoutes);
  const db = openSqlite({ file: join(stateDir, 'sandboxd.sqlite'), migrations: MIGRATIONS, log });
  const outbox = await openOutbox({
    db,
    source: 'sandboxd',
    clock,
    log,
    append: (events) => audit.append({ body: { events } }),
  });
  let treeFiles: TreeFileService | undefined;
  const store = makeStore(
    db,
    outbox,
    () => clock.nowMs(),
    () => treeFiles?.wake(),
  );
  const host = hostUser(runtimeDir);
  const warden = makeWarden(wardenPaths(runtimeDir).socket);
  const linuxUsers = makeLinuxUsers(join(stateDir, 'policy', 'bundle.json'));
  const identities = makeIdentities({ config, store, host, linuxUsers });
  const levels = makeLevels({ config, warden, identities });
  await levels.assertRunners();

  // Boxes end with the connection that opened them: none survives a restart of sandboxd.
  const lost = await store.closeLost();
  if (lost > 0) log.warn('recorded boxes lost in a restart as closed', { boxes: lost });
  const recordsDir = join(stateDir, 'runners');
  mkdirSync(recordsDir, { recursive: true, mode: 0o700 });
  const records = openProcessRecords(recordsDir);
  const swept = await records.sweep(log);
  if (swept > 0) log.warn('ended runners from before the restart', { runners: swept });

  const ownUsers = identities.mode !== 'single';
  let secretsCache: string[] | undefined;
  const secrets = (): readonly string[] => {
    const own = [stateDir, runtimeDir];
    secretsCache ??= secretPaths([...new Set([...own, ...own.map((dir) => realpathSync(dir))])]);
    return secretsCache;
  };
  const workspaces = makeWorkspaces({
    stateDir,
    config,
    store,
    ownUsers,
    warden,
    secrets,
    clock,
    log,
    gid: host.gid,
  });
  treeFiles = makeTreeFiles({
    stateDir: realpathSync(stateDir),
    store,
    warden,
    workspaces,
    closeLayer: (rootTaskId) => layers.quiesceTree(rootTaskId),
    clock,
    log,
    failpoint,
  });
  let runnerFiles: RunnerFiles | undefined;
  const runner = config.runner ?? '';
  const common = { config, clock, identities, warden, store, newId, log, failpoint };
  const runEnds = makeRunEnds(newId);
  const runners = makeRunners({
    ...common,
    runEnds,
    runtimeDir,
    records,
    runnerFiles: () => {
      runnerFiles ??= findRunnerFiles(runner);
      return runnerFiles;
    },
  });
  const tools = toolBinds(config.boxfs);
  const system = [...systemBinds(config.system_paths), ...tools];
  const withBoxfs = makeWithBoxfs({ ...common, tools });
  const disk = makeDisk(config.disk_reserve_bytes);
  const boxDisks = makeBoxDisks({
    disk,
    quota: makeQuota({ measure: warden.measure, log }),
    store,
    warden,
    ownDirs: ['workspaces', 'homes'].map((name) => join(realpathSync(stateDir), name)),
  });
  const gate = makeTreeGate(clock);
  const layers: Layers = makeLayers({
    config,
    disk,
    withBoxfs,
    stateDir: realpathSync(stateDir),
    store,
    workspaces,
    warden,
    gate,
    ownUsers,
    host,
    async closeBoxes(rootTaskId) {
      await originals.closeTree(rootTaskId);
      await boxes.closeTree(rootTaskId);
    },
    clock,
    log,
    failpoint,
  });
  const originals: LayerOriginals = makeLayerOriginals({ ...common, layers, tools });
  const quarantine = join(realpathSync(stateDir), 'quarantine');
  const liveGuards = makeLiveGuards({ ...common, tools, quarantine });
  const boxes: BoxTable = makeBoxes({
    boxDisks,
    ...common,
    planBox: makeBoxPlanner({
      ...common,
      workspaces,
      layers,
      system,
      secrets,
      runtimeDir: realpathSync(runtimeDir),
    }),
    workspaces,
    layers,
    gate,
    liveGuards,
    originals,
    hidden: [stateDir, runtimeDir, wardenPaths(runtimeDir).dir].flatMap((dir) => [
      ...new Set([dir, realpathSync(dir)]),
    ]),
  });
  const programs = makeBoxPrograms({ boxes, runEnds, store, log });
  const keptHomes = makeKeptHomes({
    stateDir: realpathSync(stateDir),
    ageMs: context.retention.homes.age,
    isInUse: (id) => boxes.hasHome(id),
    warden,
    store,
    clock,
    log,
  });
  const layerBoxes = makeLayerBoxes({ ...common, layers, withBoxfs, system });
  const layerService = makeLayerService({
    layers,
    boxes: layerBoxes,
    views: makeLayerViews({
      layers,
      boxes: layerBoxes,
      merges: makeLayerMerges({ store, originals }),
      store,
      log,
    }),
    originals,
    store,
    gate,
    clock,
    log,
    failpoint,
  });
  await layerService.barUnfinished();
  context.metrics.gauge('boxes', () => boxes.count() + runners.count());
  context.metrics.gauge('runner_spares', () => runners.spareCount());

  return {
    handlers: makeHandlers({
      runners,
      programs,
      keptHomes,
      runEnds,
      boxes,
      levels,
      identities,
      workspaces,
      treeFiles,
      feed: new LiveFeed(),
      layers,
      layerService,
      layerProbe: makeLayerProbe({
        stateDir: realpathSync(stateDir),
        warden,
        withBoxfs,
        user: ownUsers ? { uid: config.gid_last, gid: config.gid_last } : host,
        ownUsers,
      }),
      store,
      ranges: { uids: agentUids(config), gids: treeGids(config) },
    }),
    database: db,
    ids: { db, columns: ID_COLUMNS },
    async drain() {
      await boxes.closeAll();
    },
    async begin() {
      treeFiles?.wake();
      keptHomes.begin();
      layerService.resume();
      liveGuards.resume();
    },
    async stop() {
      keptHomes.stop();
      await treeFiles?.stop();
      await layerService.stop();
      await runners.endAll();
      await programs.endAll();
      await boxes.closeAll();
      await liveGuards.stop();
      await originals.stop();
      warden.close();
      await outbox.drain(AUDIT_WAIT_MS);
      outbox.stop();
      await db.close();
    },
  };
}

export const sandboxd = defineDaemon({
  name: 'sandboxd',
  routes: sandboxdRoutes,
  config: sandboxdConfig,
  start,
});
