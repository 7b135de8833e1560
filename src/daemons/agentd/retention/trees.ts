// Prunes ended task trees: first agentd's own rows, in one transaction that makes every id of the
// tree `pruned`, then what the other daemons have of it. A crash in between leaves an open prune,
// which the next pass finishes.
import { type Clock, toTimestamp } from '../../../platform/clock.ts';
import type { Client } from '../../../platform/link.ts';
import type { Log } from '../../../platform/log.ts';
import type { RetentionRule } from '../../../platform/retention-config.ts';
import type { approvaldRoutes } from '../../../wire/approvald.ts';
import type { modeldRoutes } from '../../../wire/modeld.ts';
import type { RunId, TaskId } from '../../../wire/primitives.ts';
import { PRUNE_IDS_MAX, type PruneBody } from '../../../wire/prune.ts';
import type { FileKind } from '../../../wire/sandboxd/tree-files.ts';
import type { sandboxdRoutes } from '../../../wire/sandboxd.ts';
import type { tooldRoutes } from '../../../wire/toold.ts';
import type { EndedTree, OpenPrune } from '../store/prune-methods.ts';
import type { AgentdStore } from '../store/store.ts';
import type { Candidate, KindPruner, Pass } from './pass.ts';
import type { WaitingChanges } from './waiting-changes.ts';

export type PrunePeers = {
  toold: Pick<Client<typeof tooldRoutes>, 'prune' | 'expireTombstones'>;
  modeld: Pick<Client<typeof modeldRoutes>, 'prune' | 'prunePeoplesCalls' | 'expireTombstones'>;
  approvald: Pick<Client<typeof approvaldRoutes>, 'prune' | 'expireTombstones'>;
  sandboxd: Pick<Client<typeof sandboxdRoutes>, 'pruneTreeFiles'>;
};

/** Shorter than usual: what does not answer in time is asked again with the next pass. */
export const PEER_OPTIONS = { deadlineMs: 10_000 } as const;

/** Deleting a large workspace takes a while. */
export const DELETE_OPTIONS = { deadlineMs: 600_000 } as const;
const FILE_KINDS: readonly FileKind[] = ['workspaces', 'homes'];
const PAGE = 50;
const PEOPLES_CALLS_AT_ONCE = 50;

export type TreePruner = KindPruner & {
  /** Finishes what a crash or an unreachable daemon left; resolves to how many are left open. */
  finishOpen(step: <T>(work: () => Promise<T>) => Promise<T>): Promise<number>;
  /** Model calls that people made belong to no tree, and go at the same age. */
  prunePeoplesCalls(pass: Pass): Promise<void>;
};

export function makeTreePruner(deps: {
  store: AgentdStore;
  clock: Clock;
  peers: PrunePeers;
  rule: RetentionRule;
  waiting: WaitingChanges;
  /** Bytes that the databases use together. */
  measureDatabases: () => number;
  log: Log;
  failpoint: (name: string) => void;
}): TreePruner {
  const { store, peers, log, failpoint } = deps;
  let bytesPerTask = 0;

  /** Resolves to the bytes that the other daemons removed; undefined if one has more left. */
  const finish = async (prune: OpenPrune): Promise<number | undefined> => {
    let [bytes, left] = [0, 0];
    for (const body of splitTree(prune))
      for (const peer of [peers.toold, peers.modeld, peers.approvald]) {
        const answer = await peer.prune({ body }, PEER_OPTIONS);
        bytes += answer.bytes;
        left += answer.left;
      }
    const params = { id: prune.rootTaskId as TaskId };
    for (const kind of FILE_KINDS) {
      const answer = await peers.sandboxd.pruneTreeFiles(
        { params, query: { kind } },
        DELETE_OPTIONS,
      );
      bytes += answer.bytes;
      left += answer.left;
    }
    if (left > 0) return undefined;
    failpoint('agentd.before-close-prune');
    await store.closePrune(prune.id);
    return bytes;
  };

  const tryFinish = async (prune: OpenPrune): Promise<number | undefined> => {
    try {
      return await finish(prune);
    } catch (error) {
      log.warn('removing the rest of a pruned tree failed; retrying with the next pass', {
        task: prune.rootTaskId,
        error,
      });
      return undefined;
    }
  };

  return {
    kind: 'tasks',
    rule: deps.rule,
    async sizeBytes() {
      const { tasks } = await store.counts();
      const count = Object.values(tasks).reduce((sum, n) => sum + n, 0);
      const bytes = deps.measureDatabases();
      bytesPerTask = count === 0 ? 0 : Math.ceil(bytes / count);
      return bytes;
    },
    async *candidates(endedBeforeMs, only) {
      if (only !== undefined) {
        for (const id of only) {
          const tree = await store.findEndedTree(id);
          if (tree !== undefined && tree.endedMs < endedBeforeMs) yield toCandidate(deps, tree);
        }
        return;
      }
      let after: EndedTree | undefined;
      for (;;) {
        const page = await store.listEndedTrees({ endedBeforeMs, after, limit: PAGE });
        for (const tree of page) yield toCandidate(deps, tree);
        after = page.at(-1);
        if (page.length < PAGE) return;
      }
    },
    async prune(candidate, { rules, ...order }, pass) {
      const { id } = candidate;
      const input = { ...order, rootTaskId: id, by: pass.by, rules: rules.join(' ') };
      const isInspected = pass.isDryRun || (await deps.waiting.mayHave(id));
      const inspected = isInspected ? await store.inspectTree(input) : undefined;
      if (inspected !== undefined && !('kept' in inspected)) {
        const kept = await deps.waiting.findKept(candidate, pass);
        if (kept !== undefined) return { kept };
      }
      const isOnlyInspected = inspected !== undefined && (pass.isDryRun || 'kept' in inspected);
      const result = isOnlyInspected ? inspected : await store.pruneTree(input);
      if ('kept' in result)
        return result.kept.reason === 'recent' ? 'skipped' : { kept: result.kept };
      const own = Math.max(result.counts.bytes, result.counts.tasks * bytesPerTask);
      if (pass.isDryRun) return { bytes: own };
      failpoint('agentd.after-prune');
      const prune = await store.findOpenPrune(id);
      const others = prune === undefined ? 0 : ((await tryFinish(prune)) ?? 0);
      return { bytes: Math.max(own, result.counts.bytes + others) };
    },
    async prunePeoplesCalls({ nowMs, olderThanMs, report, pace }) {
      const ageMs = olderThanMs ?? deps.rule.age;
      if (ageMs === null) return;
      const body = { before: toTimestamp(nowMs - ageMs), limit: PEOPLES_CALLS_AT_ONCE };
      for (let left = 1; left > 0; ) {
        const answer = await pace.step(() =>
          peers.modeld.prunePeoplesCalls({ body }, PEER_OPTIONS),
        );
        report.addBytes('tasks', answer.bytes);
        left = answer.left;
      }
    },
    async finishOpen(step) {
      let open = 0;
      for (let after = 0; ; ) {
        const page = await store.listOpenPrunes(after, PAGE);
        for (const prune of page) if ((await step(() => tryFinish(prune))) === undefined) open++;
        if (page.length < PAGE) return open;
        after = page.at(-1)!.id;
      }
    },
  };
}

const toCandidate = (
  { store, clock }: { store: AgentdStore; clock: Clock },
  { rootTaskId, endedMs }: EndedTree,
): Candidate => ({
  id: rootTaskId,
  endedMs,
  policy: async () => ({
    kind: 'tasks',
    id: rootTaskId,
    rootTaskId,
    ageMs: clock.nowMs() - endedMs,
    ...(await store.describeTree(rootTaskId)),
  }),
});

/** The requests for a tree; a large one has several. */
export function splitTree({ rootTaskId, taskIds, runIds }: Omit<OpenPrune, 'id'>): PruneBody[] {
  const count = Math.max(1, Math.ceil(Math.max(taskIds.length, runIds.length) / PRUNE_IDS_MAX));
  return Array.from({ length: count }, (_, i) => {
    const part = <T>(ids: readonly string[]) =>
      ids.slice(i * PRUNE_IDS_MAX, (i + 1) * PRUNE_IDS_MAX) as T[];
    return {
      root_task_id: rootTaskId as TaskId,
      task_ids: part<TaskId>(taskIds),
      run_ids: part<RunId>(runIds),
    };
  });
}
