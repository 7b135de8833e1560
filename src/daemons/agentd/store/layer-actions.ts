// Records what people do with the layers of task trees: the intent before sandboxd acts, and what
// came of it. Until its end is recorded, an action is finished by whoever finds it.

import type { Database } from '../../../platform/sql/database.ts';
import type { IdempotencyKey } from '../../../platform/sql/idempotency.ts';
import { runOnce } from '../../../platform/sql/idempotency.ts';
import { joinRules } from '../../../policy/recorded.ts';
import type { ChangeCounts } from '../../../wire/agentd.ts';
import type { EventDraft } from '../../../wire/events.ts';
import type { AgentdTx, AgentdWriteTx } from './tx.ts';
import { insertRow } from './tx.ts';

export type LayerActionKind = 'apply' | 'discard' | 'undo';
/** `waiting`: for an approval. `attempted`: sandboxd may have acted. */
export type LayerActionStatus = 'waiting' | 'attempted' | 'done' | 'refused';

export type LayerActionRow = {
  /** For an apply, its id at sandboxd. */
  id: string;
  root_task_id: string;
  /** The subtask whose own layer it is about; null: that of the tree. */
  layer_task_id: string | null;
  action: LayerActionKind;
  principal: string;
  status: LayerActionStatus;
  /** A `LayerActionRequest`, as JSON. */
  request: string;
  /** The response of sandboxd, or a fault, as JSON. */
  outcome: string | null;
  approval_id: string | null;
  /** The ids of the rules that decided, as JSON. */
  rules: string;
  created_ms: number;
  ended_ms: number | null;
};

export type LayerActionRequest = {
  path: string;
  /** For an apply; absent: all. */
  paths?: string[];
  allow?: string[];
  change_sha256?: string;
  counts?: ChangeCounts;
  overwrite?: boolean;
  /** For an undo. */
  apply_id?: string;
};

export type NewLayerAction = Omit<LayerActionRow, 'created_ms' | 'ended_ms' | 'outcome'>;

export type LayerActionMethods = {
  /** Records the intent, and, unless it waits, the event that must be durable first. */
  beginLayerAction(
    action: NewLayerAction,
    once: IdempotencyKey | undefined,
  ): Promise<{ id: string; seq: number }>;
  /** A waiting action was approved. Resolves to the number of its event. */
  attemptLayerAction(id: string): Promise<number>;
  setLayerApproval(id: string, approvalId: string): Promise<void>;
  endLayerAction(id: string, end: LayerActionEnd): Promise<LayerActionRow>;
  layerAction(id: string): Promise<LayerActionRow | undefined>;
  /** Those that have not ended, oldest first. */
  listOpenLayerActions(): Promise<LayerActionRow[]>;
};

export type LayerActionEnd = {
  status: 'done' | 'refused';
  outcome: unknown;
  /** Numbers and short words for the event; never paths. */
  data: NonNullable<EventDraft['data']>;
};

const EVENTS = {
  apply: 'task.applied',
  discard: 'task.discarded',
  undo: 'task.undone',
} as const;

export const readLayerRequest = (row: Pick<LayerActionRow, 'request'>): LayerActionRequest =>
  JSON.parse(row.request) as LayerActionRequest;

export function makeLayerActionMethods(db: Database, write: AgentdWriteTx): LayerActionMethods {
  const inTx = <T>(work: (tx: AgentdTx) => Promise<T>) => write(work, { mayStart: false });
  return {
    beginLayerAction: (action, once) =>
      inTx((tx) =>
        runOnce(tx.sql, once, tx.nowMs, async () => {
          const row = { ...action, outcome: null, created_ms: tx.nowMs, ended_ms: null };
          await insertRow(tx.sql, 'layer_actions', row);
          const seq = row.status === 'attempted' ? await addAttempt(tx, row) : 0;
          return { id: row.id, seq };
        }),
      ),
    attemptLayerAction: (id) =>
      inTx(async (tx) => {
        const row = (await find(tx, id))!;
        if (row.status !== 'waiting') return 0;
        await tx.sql.run("UPDATE layer_actions SET status = 'attempted' WHERE id = ?", id);
        return addAttempt(tx, row);
      }),
    setLayerApproval: (id, approvalId) =>
      inTx(async ({ sql }) => {
        await sql.run('UPDATE layer_actions SET approval_id = ? WHERE id = ?', approvalId, id);
      }),
    endLayerAction: (id, { status, outcome, data }) =>
      inTx(async (tx) => {
        const row = (await find(tx, id))!;
        if (row.ended_ms !== null) return row;
        await tx.sql.run(
          'UPDATE layer_actions SET status = ?, outcome = ?, ended_ms = ? WHERE id = ?',
          status,
          JSON.stringify(outcome),
          tx.nowMs,
          id,
        );
        await tx.event({
          id: `${id}.${status}`,
          event: status === 'done' ? EVENTS[row.action] : 'task.changes.refused',
          ...eventFields(row),
          ...(status === 'done' ? {} : { status: row.action }),
          data: { ...summaryOf(row), ...data },
        });
        return (await find(tx, id))!;
      }),
    layerAction: (id) => db.read((sql) => find({ sql }, id)),
    listOpenLayerActions: () =>
      db.read((sql) =>
        sql.all<LayerActionRow>(
          'SELECT * FROM layer_actions WHERE ended_ms IS NULL ORDER BY id LIMIT 1000',
        ),
      ),
  };
}

const find = ({ sql }: Pick<AgentdTx, 'sql'>, id: string) =>
  sql.one<LayerActionRow>('SELECT * FROM layer_actions WHERE id = ?', id);

const addAttempt = (tx: AgentdTx, row: LayerActionRow): Promise<number> =>
  tx.event({
    id: `${row.id}.attempted`,
    event: 'task.changes.attempted',
    ...eventFields(row),
    status: row.action,
    data: summaryOf(row),
  });

const eventFields = (row: LayerActionRow) => ({
  principal: row.principal,
  task_id: row.layer_task_id ?? row.root_task_id,
  root_task_id: row.root_task_id,
  ...(row.rules === '[]' ? {} : { policy: joinRules(JSON.parse(row.rules) as string[]) }),
});

/** Hashes, counts and kinds, but no path. */
function summaryOf(row: LayerActionRow): NonNullable<EventDraft['data']> {
  const { change_sha256, counts, allow = [], apply_id, overwrite } = readLayerRequest(row);
  const applyId = row.action === 'apply' ? row.id : apply_id;
  return {
    ...(applyId === undefined ? {} : { apply_id: applyId }),
    ...(change_sha256 === undefined ? {} : { change_sha256, ...counts }),
    ...(row.action === 'apply' ? { allowed: [...allow].sort().join(' ').slice(0, 1_000) } : {}),
    ...(overwrite === true ? { overwrite } : {}),
    ...(row.approval_id === null ? {} : { approval_id: row.approval_id }),
  };
}
