// Prunes a whole task tree from agentd's tables in one transaction: its rows are replaced by
// tombstones, and a row of `prunes` stays open until every other daemon has removed its part.
import { releaseBriefing } from './briefings.ts';
import { findKeptReason, type KeptTree } from './kept-trees.ts';
import { addToTaskCount } from './task-rows.ts';
import { insertPrune } from './tombstones.ts';
import type { AgentdTx } from './tx.ts';

export type PruneTreeInput = {
  rootTaskId: string;
  /** Every task of the tree must have ended before. */
  endedBeforeMs: number;
  cause: string;
  by: string;
  /** The rules that allowed it, for the event. */
  rules: string;
};
export type TreeCounts = {
  tasks: number;
  runs: number;
  waits: number;
  messages: number;
  /** The texts in the pruned rows; indexes and row headers come on top. */
  bytes: number;
};
export type PruneTreeResult = { counts: TreeCounts } | { kept: KeptTree };

const TASKS = 'SELECT id FROM tasks WHERE root_task_id = ?';
const RUNS = `SELECT id FROM runs WHERE task_id IN (${TASKS})`;
const WAITS = `SELECT id FROM waits WHERE task_id IN (${TASKS})`;
const MESSAGES = `SELECT id FROM messages WHERE task_id IN (${TASKS})`;
/** Messages to a thread as a whole go with its last tree. */
const THREAD_MESSAGES = `SELECT id FROM messages WHERE task_id IS NULL
  AND context_id = (SELECT context_id FROM tasks WHERE id = ?)
  AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.root_task_id <> ?
    AND t.context_id = (SELECT context_id FROM tasks WHERE id = ?))`;

export async function pruneTree(tx: AgentdTx, input: PruneTreeInput): Promise<PruneTreeResult> {
  const { rootTaskId: root } = input;
  const kept = await findKeptReason(tx, root, input.endedBeforeMs);
  if (kept !== undefined) return { kept };
  const pruneId = await insertPrune(tx.sql, {
    kind: 'tasks',
    cause: input.cause,
    root_task_id: root,
    pruned_ms: tx.nowMs,
    is_open: 1,
  });
  const bytes = await measureTree(tx, root);
  const addTombstones = (ids: string, ...values: string[]): Promise<number> =>
    tx.sql.run(
      `INSERT INTO tombstones (id, prune_id)
       SELECT found.id, p.id FROM prunes p JOIN (${ids}) AS found ON p.id = ?`,
      ...values,
      pruneId,
    );
  const counts = {
    tasks: await addTombstones(TASKS, root),
    runs: await addTombstones(RUNS, root),
    waits: await addTombstones(WAITS, root),
    messages:
      (await addTombstones(MESSAGES, root)) +
      (await addTombstones(THREAD_MESSAGES, root, root, root)),
    bytes,
  };
  await deleteTree(tx, root);
  await tx.event({
    id: `${root}.pruned`,
    event: 'data.pruned',
    principal: input.by,
    task_id: root,
    root_task_id: root,
    status: 'tasks',
    ...(input.rules === '' ? {} : { policy: input.rules.slice(0, 512) }),
    data: { ...counts, cause: input.cause.slice(0, 500) },
  });
  return { counts };
}

/** Resolves to the result that pruneTree would have, and changes nothing. */
export async function inspectTree(
  tx: Pick<AgentdTx, 'sql'>,
  { rootTaskId: root, endedBeforeMs }: PruneTreeInput,
): Promise<PruneTreeResult> {
  const kept = await findKeptReason(tx, root, endedBeforeMs);
  if (kept !== undefined) return { kept };
  const count = async (ids: string, ...values: string[]): Promise<number> => {
    const text = `SELECT COUNT(*) AS n FROM (${ids}) AS found`;
    return Number((await tx.sql.one<{ n: number }>(text, ...values))?.n ?? 0);
  };
  return {
    counts: {
      tasks: await count(TASKS, root),
      runs: await count(RUNS, root),
      waits: await count(WAITS, root),
      messages: (await count(MESSAGES, root)) + (await count(THREAD_MESSAGES, root, root, root)),
      bytes: await measureTree(tx, root),
    },
  };
}

async function measureTree(tx: Pick<AgentdTx, 'sql'>, root: string): Promise<number> {
  const sums = [
    `SELECT SUM(LENGTH(goal) + LENGTH(inputs) + LENGTH(COALESCE(result, ''))) AS n
     FROM tasks WHERE root_task_id = ?`,
    `SELECT SUM(LENGTH(parts)) AS n FROM messages WHERE task_id IN (${TASKS})`,
    `SELECT SUM(LENGTH(COALESCE(question, '')) + LENGTH(COALESCE(answer, ''))) AS n
     FROM waits WHERE task_id IN (${TASKS})`,
    `SELECT SUM(LENGTH(answer)) AS n FROM once
     WHERE scope IN (SELECT 'run-call ' || id FROM runs WHERE task_id IN (${TASKS}))`,
    `SELECT SUM(LENGTH(COALESCE(briefing, ''))) AS n FROM runs WHERE task_id IN (${TASKS})`,
  ];
  let bytes = 0;
  for (const text of sums)
    bytes += Number((await tx.sql.one<{ n: number | null }>(text, root))?.n ?? 0);
  return bytes;
}

/** Rows that name a task come before the tasks, which select them. */
async function deleteTree(tx: AgentdTx, root: string): Promise<void> {
  const { sql } = tx;
  // The numbers of a pair of principals continue where they were.
  for (const [ids, ...values] of [
    [MESSAGES, root],
    [THREAD_MESSAGES, root, root, root],
  ] as const) {
    await sql.run(
      `INSERT INTO message_pairs (from_principal, to_principal, last_seq)
       SELECT from_principal, to_principal, MAX(pair_seq) FROM messages WHERE id IN (${ids})
       GROUP BY from_principal, to_principal
       ON CONFLICT (from_principal, to_principal) DO UPDATE SET last_seq = CASE
         WHEN excluded.last_seq > message_pairs.last_seq THEN excluded.last_seq
         ELSE message_pairs.last_seq END`,
      ...values,
    );
    await sql.run(`DELETE FROM messages WHERE id IN (${ids})`, ...values);
  }
  await sql.run(
    `DELETE FROM once WHERE scope IN (SELECT 'run-call ' || id FROM runs WHERE task_id IN (${TASKS}))`,
    root,
  );
  await sql.run(`DELETE FROM inbox_steps WHERE run_id IN (${RUNS})`, root);
  await sql.run(`DELETE FROM waits WHERE task_id IN (${TASKS})`, root);
  for (const { id } of await sql.all<{ id: string }>(RUNS, root)) await releaseBriefing(sql, id);
  await sql.run(`DELETE FROM runs WHERE task_id IN (${TASKS})`, root);
  await sql.run(`DELETE FROM task_matches WHERE task_id IN (${TASKS})`, root);
  await sql.run(`DELETE FROM task_deps WHERE task_id IN (${TASKS})`, root);
  const counts = await sql.all<{ agent: string | null; status: string; n: number }>(
    `SELECT assigned_to AS agent, status, COUNT(*) AS n FROM tasks
     WHERE root_task_id = ? GROUP BY assigned_to, status`,
    root,
  );
  for (const { agent, status, n } of counts) await addToTaskCount(tx, agent, status, -Number(n));
  await sql.run(
    `DELETE FROM threads WHERE context_id = (SELECT context_id FROM tasks WHERE id = ?)
       AND NOT EXISTS (SELECT 1 FROM tasks t
         WHERE t.context_id = threads.context_id AND t.root_task_id <> ?)`,
    root,
    root,
  );
  await sql.run('DELETE FROM tasks WHERE root_task_id = ?', root);
  await sql.run('DELETE FROM layer_actions WHERE root_task_id = ?', root);
  await sql.run('DELETE FROM pruned_parts WHERE root_task_id = ?', root);
  await sql.run('DELETE FROM restored_trees WHERE root_task_id = ?', root);
}
