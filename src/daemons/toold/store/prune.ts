// Prunes the calls of task trees that agentd pruned. A run's row stays without its admission, as a
// tombstone for the run and its calls.
import { toTimestamp } from '../../../platform/clock.ts';
import type { Database } from '../../../platform/sql/database.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import type { PruneAnswer, PruneBody } from '../../../wire/prune.ts';

const EXPIRED_MAX = 1_000;

type PrunedRun = { task_id: string; pruned_ms: number };

export function makeCallPruning(db: Database) {
  return {
    pruneCalls: (tree: PruneBody, nowMs: number): Promise<PruneAnswer> =>
      db.write(async (sql) => {
        let [rows, bytes] = [0, 0];
        for (const runId of tree.run_ids) {
          const texts = await sql.one<{ n: number | null }>(
            `SELECT SUM(LENGTH(arguments) + LENGTH(purpose) + LENGTH(COALESCE(result, ''))
               + LENGTH(COALESCE(error, ''))) AS n FROM calls WHERE run_id = ?`,
            runId,
          );
          bytes += Number(texts?.n ?? 0);
          rows += await sql.run('DELETE FROM calls WHERE run_id = ?', runId);
          rows += await sql.run('DELETE FROM run_hosts WHERE run_id = ?', runId);
          await sql.run(
            "UPDATE runs SET live = 0, admission = '', pruned_ms = ? " +
              'WHERE run_id = ? AND pruned_ms IS NULL',
            nowMs,
            runId,
          );
        }
        // The marks of a directory that was used in place stay: its files do too.
        rows += await sql.run('DELETE FROM place_marks WHERE place = ?', tree.root_task_id);
        for (const id of tree.task_ids)
          rows += await sql.run(
            'DELETE FROM place_marks WHERE place = ?',
            `${tree.root_task_id}/${id}`,
          );
        await sql.run('DELETE FROM lifted_restores WHERE root_task_id = ?', tree.root_task_id);
        return { rows, bytes, left: 0 };
      }),

    /** The fault for a call that was pruned; undefined if it never existed. */
    findPrunedCall: async (callId: string): Promise<Fault | undefined> => {
      const run = await db.read((sql) =>
        sql.one<PrunedRun>(
          'SELECT task_id, pruned_ms FROM runs WHERE substr(run_id, 11) = ? ' +
            'AND pruned_ms IS NOT NULL',
          callId.slice(-20),
        ),
      );
      return run && prunedFault(`call ${callId}`, run);
    },

    /** The same for all calls of a run or a task. */
    findPrunedRun: async (filter: {
      run_id?: string | undefined;
      task_id?: string | undefined;
    }): Promise<Fault | undefined> => {
      const [column, id] =
        filter.run_id === undefined ? ['task_id', filter.task_id] : ['run_id', filter.run_id];
      if (id === undefined) return undefined;
      const run = await db.read((sql) =>
        sql.one<PrunedRun>(
          `SELECT task_id, pruned_ms FROM runs WHERE ${column} = ? AND pruned_ms IS NOT NULL`,
          id,
        ),
      );
      return run && prunedFault(`the calls of ${id}`, run);
    },

    expireTombstones: (beforeMs: number): Promise<number> =>
      db.write(async (sql) => {
        const runs = await sql.all<{ run_id: string }>(
          'SELECT run_id FROM runs WHERE pruned_ms IS NOT NULL AND pruned_ms < ? ' +
            'ORDER BY pruned_ms LIMIT ?',
          beforeMs,
          EXPIRED_MAX,
        );
        for (const { run_id } of runs) await sql.run('DELETE FROM runs WHERE run_id = ?', run_id);
        return runs.length;
      }),
  };
}

function prunedFault(what: string, { task_id, pruned_ms }: PrunedRun): Fault {
  const at = toTimestamp(Number(pruned_ms));
  return fault('pruned', `${what} was pruned on ${at.slice(0, 10)}, with its task`, {
    details: { task_id, pruned_at: at },
    hint: `The log still has its events: agentctl audit task ${task_id}`,
  });
}
