// Tombstones: the ids of approvals and permits that were pruned.
import { toTimestamp } from '../../../platform/clock.ts';
import type { Sql } from '../../../platform/sql/database.ts';
import { type Fault, fault } from '../../../wire/errors.ts';

const EXPIRED_MAX = 1_000;

/** Returns `pruned` for what was pruned, else `not_found`. */
export async function missingFault(
  sql: Sql,
  what: { name: string; id: string; hint: string },
): Promise<Fault> {
  const { name, id, hint } = what;
  const found = await sql.one<{ root_task_id: string; pruned_ms: number }>(
    'SELECT root_task_id, pruned_ms FROM tombstones WHERE id = ?',
    id,
  );
  if (found === undefined) return fault('not_found', `${name} ${id} not found`, { hint });
  const at = toTimestamp(Number(found.pruned_ms));
  return fault('pruned', `${name} ${id} was pruned on ${at.slice(0, 10)}, with its task`, {
    details: { root_task_id: found.root_task_id, pruned_at: at },
    hint: `The log still has its events: agentctl audit task ${found.root_task_id}`,
  });
}

export async function expireTombstones(sql: Sql, beforeMs: number): Promise<number> {
  const old = await sql.all<{ id: string }>(
    'SELECT id FROM tombstones WHERE pruned_ms < ? ORDER BY pruned_ms LIMIT ?',
    beforeMs,
    EXPIRED_MAX,
  );
  for (const { id } of old) await sql.run('DELETE FROM tombstones WHERE id = ?', id);
  return old.length;
}
