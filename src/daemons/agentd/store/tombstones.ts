// Tombstones: the ids of what was pruned, so that they resolve to when and why instead of to
// nothing. Each belongs to a row of `prunes`.
import type { Sql } from '../../../platform/sql/database.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import { time } from './rows.ts';

/** `cause` completes the sentence "… was pruned on DATE, because …". */
export type PruneCause = { kind: string; cause: string };
export type PruneRow = PruneCause & {
  id: number;
  root_task_id: string | null;
  pruned_ms: number;
  /** 1 while another daemon may still have data of it. */
  is_open: number;
};

export function findTombstone(sql: Sql, id: string): Promise<PruneRow | undefined> {
  return sql.one<PruneRow>(
    'SELECT p.* FROM tombstones t JOIN prunes p ON p.id = t.prune_id WHERE t.id = ?',
    id,
  );
}

/** Returns `pruned` for what was pruned, else `not_found`. */
export async function missingFault(
  sql: Sql,
  what: { name: string; id: string; hint?: string },
): Promise<Fault> {
  const { name, id, hint } = what;
  const found = await findTombstone(sql, id);
  if (found !== undefined) return prunedFault(name, id, found);
  return fault('not_found', `${name} ${id} not found`, hint === undefined ? {} : { hint });
}

export function prunedFault(name: string, id: string, row: PruneRow): Fault {
  const at = time(row.pruned_ms)!;
  const root = row.root_task_id;
  return fault('pruned', `${name} ${id} was pruned on ${at.slice(0, 10)}: ${row.cause}`, {
    details: { id, kind: row.kind, pruned_at: at, root_task_id: root },
    hint:
      root === null
        ? 'The log still has its events: agentctl audit tail.'
        : `The log still has its events: agentctl audit task ${root}`,
  });
}

/** Resolves to the number of the prune. */
export async function insertPrune(sql: Sql, prune: Omit<PruneRow, 'id'>): Promise<number> {
  const last = await sql.one<{ id: number | null }>('SELECT MAX(id) AS id FROM prunes');
  const id = Number(last?.id ?? 0) + 1;
  await sql.run(
    `INSERT INTO prunes (id, kind, cause, root_task_id, pruned_ms, is_open)
     VALUES (?, ?, ?, ?, ?, ?)`,
    id,
    prune.kind,
    prune.cause,
    prune.root_task_id,
    prune.pruned_ms,
    prune.is_open,
  );
  return id;
}
