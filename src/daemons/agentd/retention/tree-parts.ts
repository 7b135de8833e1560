// Prunes parts of ended task trees that other daemons have: workspaces and homes at sandboxd, model
// contexts at modeld. What those daemons list is there; agentd decides whether it may go.
import type { Clock } from '../../../platform/clock.ts';
import { readIdTime } from '../../../platform/ids.ts';
import type { Client } from '../../../platform/link.ts';
import type { RetentionRule } from '../../../platform/retention-config.ts';
import type { modeldRoutes } from '../../../wire/modeld.ts';
import type { RunId, TaskId } from '../../../wire/primitives.ts';
import type { FileKind } from '../../../wire/sandboxd/tree-files.ts';
import type { sandboxdRoutes } from '../../../wire/sandboxd.ts';
import type { PartIds, PartKind, PartTree, PrunePartResult } from '../store/prune-part.ts';
import type { AgentdStore } from '../store/store.ts';
import type { Candidate, KindPruner } from './pass.ts';
import { DELETE_OPTIONS, PEER_OPTIONS, splitTree } from './trees.ts';
import type { WaitingChanges } from './waiting-changes.ts';

const PAGE = 100;

export type FilePeer = Pick<
  Client<typeof sandboxdRoutes>,
  'listTreeFiles' | 'pruneTreeFiles' | 'fileSizes'
>;
export type ContextPeer = Pick<
  Client<typeof modeldRoutes>,
  'listContexts' | 'pruneContexts' | 'contextSizes'
>;

/** Undefined: something is left, and the next pass tries again. */
type Removed = { bytes: number; count: number } | undefined;

type PartSource = {
  kind: PartKind;
  rule: RetentionRule;
  sizeBytes(): Promise<number>;
  /** The trees that have the part, by age; `bytes` where they are known. */
  list(createdBeforeMs: number): AsyncIterable<{ tree: PartTree; bytes: number }>;
  remove(tree: PartIds, options: { isDryRun: boolean; bytes: number }): Promise<Removed>;
  /** Where the part may have what a person has not decided on. */
  waiting?: WaitingChanges;
};

type Deps = { store: AgentdStore; clock: Clock; failpoint: (name: string) => void };

function makePartPruner(
  { kind, rule, sizeBytes, list, remove, waiting }: PartSource,
  { store, clock, failpoint }: Deps,
): KindPruner {
  const toCandidate = ({ rootTaskId, ...tree }: PartTree, bytes: number): Candidate => ({
    id: rootTaskId,
    bytes,
    ...tree,
    policy: async () => ({
      kind,
      id: rootTaskId,
      rootTaskId,
      ageMs: clock.nowMs() - tree.endedMs,
      ...(await store.describeTree(rootTaskId)),
    }),
  });

  return {
    kind,
    rule,
    sizeBytes,
    async *candidates(endedBeforeMs, only) {
      if (only === undefined) {
        for await (const { tree, bytes } of list(endedBeforeMs))
          if (tree.endedMs < endedBeforeMs) yield toCandidate(tree, bytes);
        return;
      }
      for (const id of only) {
        const tree = await store.findPartTree(id);
        if (tree !== undefined && tree.endedMs < endedBeforeMs) yield toCandidate(tree, 0);
      }
    },
    async prune(candidate, { rules, ...order }, pass) {
      const { id, bytes = 0, isPruned } = candidate;
      const { by, isDryRun } = pass;
      const input = { ...order, kind, rootTaskId: id, by, rules: rules.join(' ') };
      if (waiting !== undefined && isPruned !== true && (await waiting.mayHave(id))) {
        const inspected = await store.inspectPart(input);
        const kept = 'kept' in inspected ? undefined : await waiting.findKept(candidate, pass);
        if (kept !== undefined) return { kept };
      }
      const result: PrunePartResult = isPruned
        ? { tree: { rootTaskId: id, taskIds: [], runIds: [] } }
        : await (isDryRun ? store.inspectPart(input) : store.prunePart(input));
      if ('kept' in result)
        return result.kept.reason === 'recent' ? 'skipped' : { kept: result.kept };
      failpoint('agentd.after-prune-part');
      const removed = await remove(result.tree, { isDryRun, bytes });
      if (removed === undefined)
        return { kept: { reason: 'failed', detail: 'something of it is still in use' } };
      return removed.count === 0 ? 'skipped' : { bytes: removed.bytes };
    },
  };
}

export function makeFilePruner(
  deps: Deps &
    Pick<PartSource, 'waiting'> & {
      kind: FileKind;
      rule: RetentionRule;
      sandboxd: FilePeer;
    },
): KindPruner {
  const { kind, rule, sandboxd, store, waiting } = deps;
  return makePartPruner(
    {
      kind,
      rule,
      async sizeBytes() {
        const { sizes } = await sandboxd.fileSizes({}, PEER_OPTIONS);
        return sizes.reduce((sum, size) => sum + (size.kind === kind ? size.bytes : 0), 0);
      },
      async *list(createdBeforeMs) {
        for (let after: TaskId | undefined; ; ) {
          const query = { kind, limit: PAGE, ...(after === undefined ? {} : { after }) };
          const { trees } = await sandboxd.listTreeFiles({ query }, PEER_OPTIONS);
          for (const { root_task_id: id, created_at, bytes } of trees) {
            // A tree is created before it ends, and the list is in the order of creation.
            if (Date.parse(created_at) >= createdBeforeMs) return;
            const tree = await store.findPartTree(id);
            if (tree !== undefined) yield { tree, bytes };
          }
          if (trees.length < PAGE) return;
          after = trees.at(-1)!.root_task_id;
        }
      },
      async remove({ rootTaskId }, { isDryRun, bytes: knownBytes }) {
        if (isDryRun) return { bytes: knownBytes, count: 1 };
        const params = { id: rootTaskId as TaskId };
        const { bytes, entries, left } = await sandboxd.pruneTreeFiles(
          { params, query: { kind } },
          DELETE_OPTIONS,
        );
        return left > 0 ? undefined : { bytes, count: entries };
      },
      ...(waiting === undefined ? {} : { waiting }),
    },
    deps,
  );
}

export function makeContextPruner(
  deps: Deps & { rule: RetentionRule; modeld: ContextPeer },
): KindPruner {
  const { rule, modeld, store } = deps;
  return makePartPruner(
    {
      kind: 'model_contexts',
      rule,
      async sizeBytes() {
        const { sizes } = await modeld.contextSizes({}, PEER_OPTIONS);
        return sizes.reduce((sum, { bytes }) => sum + bytes, 0);
      },
      async *list(createdBeforeMs) {
        let before = new Set<string>();
        for (let after: RunId | undefined; ; ) {
          const query = { limit: PAGE, ...(after === undefined ? {} : { after }) };
          const { run_ids } = await modeld.listContexts({ query }, PEER_OPTIONS);
          // The runs of a tree are close to each other; a second visit finds nothing to do.
          const seen = new Set<string>();
          for (const runId of run_ids) {
            // Runs are created before their tree ends, and listed in the order of creation.
            if (readIdTime(runId) >= createdBeforeMs) return;
            const tree = await store.findTreeOfRun(runId);
            if (tree === undefined || seen.has(tree.rootTaskId) || before.has(tree.rootTaskId))
              continue;
            seen.add(tree.rootTaskId);
            yield { tree, bytes: 0 };
          }
          if (run_ids.length < PAGE) return;
          before = seen;
          after = run_ids.at(-1)!;
        }
      },
      async remove(tree, { isDryRun }) {
        let [bytes, count] = [0, 0];
        for (const part of splitTree(tree)) {
          const body = { ...part, dry_run: isDryRun };
          const answer = await modeld.pruneContexts({ body }, PEER_OPTIONS);
          if (answer.left > 0) return undefined;
          bytes += answer.bytes;
          count += answer.rows;
        }
        return { bytes, count };
      },
    },
    deps,
  );
}
