// Connects the publisher of policy with the directory of the site's rules and with the record.
import type { DaemonContext } from '../../../platform/daemon.ts';
import { followPolicyDir, type PolicyDir } from '../adapters/policy-dir.ts';
import type { AgentdConfig } from '../config.ts';
import type { AgentdStore } from '../store/store.ts';
import { makePublisher, type Publisher, type PublisherOptions } from './publisher.ts';

export function openPolicy(
  { config, clock, log, stateDir }: DaemonContext<AgentdConfig>,
  deps: Pick<PublisherOptions, 'listToolSchemas' | 'protectedDirs'> & {
    store: AgentdStore;
    policiesDir: string;
  },
): { publisher: Publisher; policyDir: PolicyDir } {
  const { store, policiesDir, listToolSchemas, protectedDirs } = deps;
  const policyDir = followPolicyDir(policiesDir, clock, () => {
    publisher.rescan().catch((error: unknown) => log.error('publishing policy failed', { error }));
  });
  const publisher = makePublisher({
    stateDir,
    clock,
    log,
    readSite: policyDir.read,
    listToolSchemas,
    people: config.people ?? null,
    protectedDirs,
    onPublished: ({ version, hash }) =>
      store.recordRuntimeEvent('policy.loaded', { version, hash }),
    onRefused: (refused) => store.recordRuntimeEvent('policy.refused', refused),
  });
  return { publisher, policyDir };
}
