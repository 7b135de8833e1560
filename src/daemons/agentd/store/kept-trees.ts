// Keeps task trees from being pruned: holds that people set, and what live tasks refer to. Records
// what policy denied.
import { joinRules } from '../../../policy/recorded.ts';
import type { KeptReason } from '../../../wire/agentd.ts';
import type { EventDraft } from '../../../wire/events.ts';
import type { TaskRow, TreeRow } from './rows.ts';
import { findTask } from './task-rows.ts';
import type { AgentdTx, AgentdWriteTx } from './tx.ts';

export type KeepMethods = {
  /** Holds the task's whole tree, or releases it. Nothing of a held tree is pruned. */
  keepTask(id: string, hold: { isKept: boolean; reason: string; by: string }): Promise<TaskRow>;
  recordDenial(denial: DataDenial): Promise<void>;
};

/** A denied action on stored data, or on a directory. */
export type DataDenial = {
  action: 'data.retain' | 'data.delete' | 'workspace.apply';
  principal: string;
  rules: readonly string[];
  /** The tree, where it is about only one. */
  rootTaskId?: string;
  data: NonNullable<EventDraft['data']>;
};

export function makeKeepMethods(write: AgentdWriteTx): KeepMethods {
  return {
    keepTask: (id, { isKept, reason, by }) =>
      write(
        async (tx) => {
          const { root_task_id: root } = await findTask(tx, id);
          const isChanged = isKept
            ? await tx.sql.run(
                `INSERT INTO kept_trees (root_task_id, kept_by, reason, kept_ms)
                 VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
                root,
                by,
                reason,
                tx.nowMs,
              )
            : await tx.sql.run('DELETE FROM kept_trees WHERE root_task_id = ?', root);
          if (isChanged > 0)
            await tx.event({
              id: `${root}.${isKept ? 'kept' : 'released'}.${tx.newId<string>('n')}`,
              event: isKept ? 'task.kept' : 'task.released',
              principal: by,
              task_id: root,
              root_task_id: root,
              data: { reason: reason.slice(0, 500) },
            });
          return findTask(tx, id);
        },
        { mayStart: false },
      ),
    recordDenial: ({ action, principal, rules, rootTaskId: root, data }) =>
      write(async (tx) => {
        await tx.event({
          id: tx.newId('denied'),
          event: 'policy.denied',
          principal,
          ...(root === undefined ? {} : { task_id: root, root_task_id: root }),
          allowed: false,
          policy: joinRules(rules),
          status: action,
          data,
        });
      }),
  };
}

/** Resolves to undefined for a tree that is neither held nor partly pruned. */
export async function findTree(
  { sql }: Pick<AgentdTx, 'sql'>,
  root: string,
): Promise<TreeRow | undefined> {
  const hold = await sql.one<Pick<TreeRow, 'kept_by' | 'reason' | 'kept_ms'>>(
    'SELECT kept_by, reason, kept_ms FROM kept_trees WHERE root_task_id = ?',
    root,
  );
  const pruned = await sql.one<Pick<TreeRow, 'workspaces_ms' | 'homes_ms' | 'model_contexts_ms'>>(
    `SELECT workspaces_ms, homes_ms, model_contexts_ms FROM pruned_parts WHERE root_task_id = ?`,
    root,
  );
  if (hold === undefined && pruned === undefined) return undefined;
  const none = {
    kept_by: null,
    reason: null,
    kept_ms: null,
    workspaces_ms: null,
    homes_ms: null,
    model_contexts_ms: null,
  };
  return { ...none, ...hold, ...pruned };
}

/** Why a tree must stay, in words for people. */
export type KeptTree = {
  reason: Extract<KeptReason, 'live' | 'used' | 'held' | 'recent' | 'unapplied'>;
  detail: string;
};

/** Resolves to undefined if every task of the tree ended before this time and none is needed. */
export async function findKeptReason(
  tx: Pick<AgentdTx, 'sql'>,
  root: string,
  endedBeforeMs: number,
): Promise<KeptTree | undefined> {
  const one = async (text: string, ...values: (string | number)[]): Promise<string | undefined> =>
    (await tx.sql.one<{ id: string }>(text, ...values))?.id;
  const tree = await findTree(tx, root);
  if (tree?.kept_ms != null) return { reason: 'held', detail: `held by ${tree.kept_by}` };
  const live = await one(
    'SELECT id FROM tasks WHERE root_task_id = ? AND ended_ms IS NULL LIMIT 1',
    root,
  );
  if (live !== undefined) return { reason: 'live', detail: `${live} has not ended` };
  const late = await one(
    'SELECT id FROM tasks WHERE root_task_id = ? AND ended_ms >= ? LIMIT 1',
    root,
    endedBeforeMs,
  );
  if (late !== undefined) return { reason: 'recent', detail: `${late} ended more recently` };
  const due = await one(
    `SELECT e.task_id AS id FROM tasks r JOIN episodes_due e ON e.task_id = r.id
     WHERE r.root_task_id = ? LIMIT 1`,
    root,
  );
  if (due !== undefined) return { reason: 'used', detail: `memoryd has yet to keep ${due}` };
  const retry = await one(
    `SELECT t.id FROM tasks r JOIN tasks t ON t.retry_of = r.id
     WHERE r.root_task_id = ? AND t.retry_of IS NOT NULL AND t.ended_ms IS NULL LIMIT 1`,
    root,
  );
  if (retry !== undefined) return { reason: 'used', detail: `${retry} retries it` };
  const dependent = await one(
    `SELECT t.id FROM tasks r JOIN task_deps d ON d.after_id = r.id JOIN tasks t ON t.id = d.task_id
     WHERE r.root_task_id = ? AND t.ended_ms IS NULL LIMIT 1`,
    root,
  );
  if (dependent !== undefined) return { reason: 'used', detail: `${dependent} depends on it` };
  const neighbour = await one(
    `SELECT t.id FROM tasks r JOIN tasks t ON t.context_id = r.context_id
     WHERE r.id = ? AND t.ended_ms IS NULL LIMIT 1`,
    root,
  );
  if (neighbour !== undefined)
    return { reason: 'used', detail: `${neighbour} continues its thread` };
  return undefined;
}
