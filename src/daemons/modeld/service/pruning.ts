// Prunes calls and contexts in small transactions, so that calls in progress wait for none of them.
import type { Clock } from '../../../platform/clock.ts';
import type { DeferredSyncDatabase } from '../../../platform/sql/deferred-sync.ts';
import type { SqlNow } from '../../../platform/sql/sqlite.ts';
import type { PruneAnswer, PruneBody } from '../../../wire/prune.ts';
import type { Journal } from '../store/journal.ts';
import { type ContextSize, countCalls, readContextSizes } from '../store/part-uses.ts';
import {
  expireTombstones,
  pruneCalls,
  pruneContexts,
  prunePeoplesCalls,
  pruneTaskBudgets,
} from '../store/prune.ts';

const COUNTED_AT_ONCE = 100;
/** A request counts no longer than this; agentd repeats it. */
const COUNT_MS_MAX = 1_000;

export function makePruning(deps: {
  db: DeferredSyncDatabase;
  journal: Journal;
  clock: Clock;
  failpoint(name: string): void;
}) {
  const { db, journal, clock, failpoint } = deps;

  /** Commits in a turn of the event loop of its own. */
  const step = async <T>(work: (sql: SqlNow) => T): Promise<T> => {
    await new Promise((resolve) => setImmediate(resolve));
    return (await db.commit(work)).value;
  };

  /** Resolves to what the step would, and undoes it. */
  const simulate = async <T>(work: (sql: SqlNow) => T): Promise<T> => {
    let found: { value: T } | undefined;
    const undone = new Error('not committed');
    await step((sql) => {
      found = { value: work(sql) };
      throw undone;
    }).catch((error: unknown) => {
      if (error !== undone) throw error;
    });
    return found!.value;
  };

  const countUses = async (): Promise<void> => {
    await journal.flush().catch(() => undefined);
    const untilMs = performance.now() + COUNT_MS_MAX;
    while (await step((sql) => countCalls(sql, COUNTED_AT_ONCE)))
      if (performance.now() > untilMs) return;
  };

  const pruneRuns = async (
    { run_ids }: PruneBody,
    prune: (sql: SqlNow, runId: string) => PruneAnswer,
    commit = step,
  ): Promise<PruneAnswer> => {
    await countUses();
    const total = { rows: 0, bytes: 0, left: 0 };
    for (const runId of run_ids) {
      failpoint('modeld.before-prune');
      const { rows, bytes, left } = await commit((sql) => prune(sql, runId));
      total.rows += rows;
      total.bytes += bytes;
      total.left += left;
    }
    return total;
  };

  return {
    async pruneTree(tree: PruneBody): Promise<PruneAnswer> {
      const rootTaskId = tree.root_task_id;
      const answer = await pruneRuns(tree, (sql, runId) =>
        pruneCalls(sql, { runId, rootTaskId }, clock.nowMs()),
      );
      if (answer.left === 0) await step((sql) => pruneTaskBudgets(sql, tree));
      failpoint('modeld.after-prune');
      return answer;
    },
    pruneContexts: (tree: PruneBody, isDryRun = false): Promise<PruneAnswer> =>
      pruneRuns(
        tree,
        (sql, runId) => pruneContexts(sql, runId, clock.nowMs()),
        isDryRun ? simulate : step,
      ),
    async prunePeoplesCalls(query: { beforeMs: number; limit: number }): Promise<PruneAnswer> {
      await countUses();
      return step((sql) => prunePeoplesCalls(sql, query, clock.nowMs()));
    },
    expireTombstones: (beforeMs: number): Promise<number> =>
      step((sql) => expireTombstones(sql, beforeMs)),
    async contextSizes(): Promise<ContextSize[]> {
      await countUses();
      return step(readContextSizes);
    },
  };
}
