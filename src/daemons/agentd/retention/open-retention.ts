// Assembles retention: what prunes each kind of data, policy, the schedule and the routes.

import type { BlobStore } from '../../../platform/blob-store.ts';
import type { DaemonContext } from '../../../platform/daemon.ts';
import type { Handlers } from '../../../platform/dispatch.ts';
import type { Bundle } from '../../../policy/bundle.ts';
import type { diskUsageRoutes } from '../../../wire/agentd/disk-usage.ts';
import type { retentionRoutes } from '../../../wire/agentd/retention.ts';
import type { AgentdStore } from '../store/store.ts';
import { makeArtifactPruner } from './artifacts.ts';
import { measureDiskUsage, measureRecords } from './disk-usage.ts';
import { makeRetentionHandlers } from './handlers.ts';
import { startLogRotation } from './log-rotation.ts';
import { makeDataPolicy } from './may-delete.ts';
import { type MemoryPeer, makeEpisodePruner } from './memories.ts';
import type { BackupPauses } from './pauses.ts';
import { makeRetention, type Retention } from './retention.ts';
import {
  type ContextPeer,
  type FilePeer,
  makeContextPruner,
  makeFilePruner,
} from './tree-parts.ts';
import { makeTreePruner, type PrunePeers } from './trees.ts';
import { type ChangesPeer, makeWaitingChanges } from './waiting-changes.ts';

export type RetentionHandlers = Handlers<typeof retentionRoutes & typeof diskUsageRoutes>;

export function openRetention(deps: {
  context: DaemonContext;
  store: AgentdStore;
  blobs: BlobStore;
  peers: PrunePeers & {
    sandboxd: FilePeer & ChangesPeer;
    modeld: ContextPeer;
    memoryd: MemoryPeer;
  };
  pauses: BackupPauses;
  bundle: () => Bundle;
  isBusy: () => boolean;
}): { retention: Retention; handlers: RetentionHandlers } {
  const { context, store, peers } = deps;
  const { clock, log, stateDir, failpoint, retention: config } = context;
  const policy = makeDataPolicy({ bundle: deps.bundle, clock });
  const waiting = makeWaitingChanges({
    store,
    sandboxd: peers.sandboxd,
    ageMs: config.unapplied.age,
  });
  const trees = makeTreePruner({
    store,
    clock,
    peers,
    rule: config.tasks,
    waiting,
    measureDatabases: () => measureRecords(stateDir, 'usedBytes'),
    log,
    failpoint,
  });
  const artifacts = makeArtifactPruner({
    store,
    blobs: deps.blobs,
    rule: config.artifacts,
    clock,
    failpoint,
  });
  const { sandboxd, modeld, memoryd } = peers;
  const common = { store, clock, failpoint };
  const memories = makeEpisodePruner({ store, memoryd, rule: config.memories, clock });
  const retention = makeRetention({
    store,
    trees,
    artifacts,
    memories,
    parts: [
      makeFilePruner({
        ...common,
        kind: 'workspaces',
        rule: config.workspaces,
        sandboxd,
        waiting,
      }),
      makeFilePruner({ ...common, kind: 'homes', rule: config.homes, sandboxd }),
      makeContextPruner({ ...common, rule: config.model_contexts, modeld }),
    ],
    peers,
    policy,
    pauses: deps.pauses,
    config,
    isBusy: deps.isBusy,
    clock,
    log,
  });
  const handlers = {
    ...makeRetentionHandlers({ store, retention, policy, clock }),
    getDiskUsage: async () => ({
      usage: await measureDiskUsage({ stateDir, store, sandboxd, modeld, memoryd, config }),
    }),
  };
  let stopRotation: (() => Promise<void>) | undefined;
  return {
    handlers,
    retention: {
      ...retention,
      begin() {
        retention.begin();
        stopRotation = startLogRotation({ stateDir, config: config.logs, clock, log });
      },
      async stop() {
        await stopRotation?.();
        await retention.stop();
      },
    },
  };
}
