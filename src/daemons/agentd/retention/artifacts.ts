// Prunes artifacts by their age. The blob goes when the last artifact that refers to it has gone; a
// crash in between leaves its hash in the store, and the next pass removes it.

import type { BlobStore } from '../../../platform/blob-store.ts';
import type { Clock } from '../../../platform/clock.ts';
import type { RetentionRule } from '../../../platform/retention-config.ts';
import type { StoredArtifact } from '../store/artifact-pruning.ts';
import type { AgentdStore } from '../store/store.ts';
import type { Candidate, KindPruner } from './pass.ts';

const PAGE = 50;

export type ArtifactPruner = KindPruner & {
  /** Removes blobs that a crash left. */
  removeUnused(step: <T>(work: () => Promise<T>) => Promise<T>): Promise<void>;
};

export function makeArtifactPruner(deps: {
  store: AgentdStore;
  blobs: Pick<BlobStore, 'remove'>;
  rule: RetentionRule;
  clock: Clock;
  failpoint: (name: string) => void;
}): ArtifactPruner {
  const { store, blobs, clock, failpoint } = deps;

  const removeObject = async (hash: string): Promise<void> => {
    const isRemoved = await blobs.remove(hash, () => store.isObjectUnused(hash));
    // An artifact that was stored meanwhile has removed the hash from the list.
    failpoint('agentd.after-remove-object');
    if (isRemoved) await store.forgetObject(hash);
  };

  const toCandidate = (artifact: StoredArtifact): Candidate => ({
    id: artifact.id,
    endedMs: artifact.createdMs,
    policy: async () => ({
      kind: 'artifacts',
      id: artifact.id,
      rootTaskId: null,
      agents: artifact.createdBy.startsWith('agent:') ? [artifact.createdBy.slice(6)] : [],
      labels: artifact.labels,
      ageMs: clock.nowMs() - artifact.createdMs,
    }),
  });

  return {
    kind: 'artifacts',
    rule: deps.rule,
    async sizeBytes() {
      return (await store.artifactSizes()).reduce((sum, { bytes }) => sum + bytes, 0);
    },
    async *candidates(storedBeforeMs, only) {
      if (only !== undefined) {
        for (const root of only)
          for (const artifact of await store.listArtifactsOfTree(root))
            if (artifact.createdMs < storedBeforeMs) yield toCandidate(artifact);
        return;
      }
      for (let after = ''; ; ) {
        const page = await store.listOldArtifacts({ storedBeforeMs, after, limit: PAGE });
        for (const artifact of page) yield toCandidate(artifact);
        if (page.length < PAGE) return;
        after = page.at(-1)!.id;
      }
    },
    async prune({ id }, { cause, rules }, pass) {
      const found = await (pass.isDryRun
        ? store.inspectArtifact(id)
        : store.pruneArtifact({ id, cause, by: pass.by, rules: rules.join(' ') }));
      if (found === undefined) return 'skipped';
      if ('kept' in found) return found;
      if (!pass.isDryRun) {
        failpoint('agentd.after-prune-artifact');
        await removeObject(found.hash);
      }
      return { bytes: found.bytes };
    },
    async removeUnused(step) {
      for (const hash of await store.listUnusedObjects(1_000)) await step(() => removeObject(hash));
    },
  };
}
