// Stores the suspensions of tools, for all agents or for one task tree, with a copy in memory. Only
// a person removes one, so no tree regains a tool by waiting. A second suspended tree suspends the
// tool for all, after which none is added, so a tool has at most two tree rows.
import { toTimestamp } from '../../../platform/clock.ts';
import type { Database, Sql } from '../../../platform/sql/database.ts';
import type { TaskId } from '../../../wire/primitives.ts';
import type { ToolView } from '../../../wire/toold.ts';

export type SuspensionStatus = Pick<ToolView, 'suspended' | 'suspended_in'>;

export type Suspensions = {
  /** `tree` limits the result to that task tree; undefined returns all suspensions. */
  statusOf(tool: string, tree: string | undefined): SuspensionStatus;
  /** Runs `work` in one transaction, with the current status. */
  change<T>(tool: string, work: (sql: Sql, now: SuspensionStatus) => Promise<T>): Promise<T>;
};

type Suspension = { tool: string; sinceMs: number; reason: string };

export async function openSuspensions(db: Database): Promise<Suspensions> {
  const current = new Map<string, SuspensionStatus>();
  await db.read(async (sql) => {
    const rows = await sql.all<{ tool: string }>(
      'SELECT tool FROM tool_suspensions UNION SELECT tool FROM tool_tree_suspensions',
    );
    for (const { tool } of rows) current.set(tool, await readStatus(sql, tool));
  });
  return {
    statusOf(tool, tree) {
      const { suspended_in = [], ...all } = current.get(tool) ?? {};
      const seen = suspended_in.filter(({ task_id }) => tree === undefined || task_id === tree);
      return seen.length === 0 ? all : { ...all, suspended_in: seen };
    },
    async change(tool, work) {
      const { done, now } = await db.write(async (sql) => ({
        done: await work(sql, await readStatus(sql, tool)),
        now: await readStatus(sql, tool),
      }));
      current.set(tool, now);
      return done;
    },
  };
}

async function readStatus(sql: Sql, tool: string): Promise<SuspensionStatus> {
  const all = await sql.one<{ since_ms: number; by_principal: string; reason: string }>(
    'SELECT since_ms, by_principal, reason FROM tool_suspensions WHERE tool = ?',
    tool,
  );
  const trees = await sql.all<{ root_task_id: TaskId; since_ms: number; reason: string }>(
    'SELECT root_task_id, since_ms, reason FROM tool_tree_suspensions WHERE tool = ? ' +
      'ORDER BY since_ms, root_task_id',
    tool,
  );
  const since = (ms: number) => toTimestamp(Number(ms));
  const inForce: SuspensionStatus = {};
  if (all !== undefined)
    inForce.suspended = { since: since(all.since_ms), by: all.by_principal, reason: all.reason };
  if (trees.length > 0)
    inForce.suspended_in = trees.map((row) => ({
      task_id: row.root_task_id,
      since: since(row.since_ms),
      reason: row.reason,
    }));
  return inForce;
}

export function suspendForAll(
  sql: Sql,
  { tool, sinceMs, by, reason }: Suspension & { by: string },
) {
  return sql.run(
    'INSERT INTO tool_suspensions (tool, since_ms, by_principal, reason) VALUES (?, ?, ?, ?)',
    tool,
    sinceMs,
    by,
    reason,
  );
}

export function suspendInTree(
  sql: Sql,
  { tool, sinceMs, tree, reason }: Suspension & { tree: string },
) {
  return sql.run(
    'INSERT INTO tool_tree_suspensions (tool, root_task_id, since_ms, reason) VALUES (?, ?, ?, ?)',
    tool,
    tree,
    sinceMs,
    reason,
  );
}

/** Returns how many there were. */
export async function removeSuspensions(sql: Sql, tool: string): Promise<number> {
  const trees = await sql.run('DELETE FROM tool_tree_suspensions WHERE tool = ?', tool);
  return trees + (await sql.run('DELETE FROM tool_suspensions WHERE tool = ?', tool));
}
