// Stores toold's journal of calls and outcomes. One method is one transaction; a change of state
// and its event are written together.
import type { Outbox } from '../../../platform/outbox.ts';
import type { Database, Value } from '../../../platform/sql/database.ts';
import type { EventDraft } from '../../../wire/events.ts';
import type { ApprovalId, CallId, RunId, TaskId, WaitId } from '../../../wire/primitives.ts';
import type { CallStatus, WaitKind } from '../../../wire/toold.ts';
import { makePlaceMarks } from './place-marks.ts';
import { makeCallPruning } from './prune.ts';

const VERSION = 1;

export type ToolCallRow = {
  place: number;
  call_id: CallId;
  run_id: RunId;
  fence: number;
  task_id: TaskId;
  agent: string;
  tool: string;
  purpose: string;
  arguments: string;
  arguments_hash: string;
  status: CallStatus;
  attempts: number;
  created_ms: number;
  started_ms: number;
  ended_ms: number | null;
  result: string | null;
  error: string | null;
  wait_id: WaitId | null;
  wait_kind: WaitKind | null;
  approval_id: ApprovalId | null;
  unsure_after: string | null;
  confirmed_after: string | null;
};

export type NewCall = Pick<
  ToolCallRow,
  'call_id' | 'run_id' | 'fence' | 'tool' | 'purpose' | 'arguments' | 'arguments_hash'
> & { nowMs: number };

export type SavedOutcome = {
  status: 'completed' | 'failed' | 'canceled';
  /** JSON; exactly one of the two is set. */
  result: string | null;
  error: string | null;
  hash: string;
};

type CallState = {
  status: CallStatus;
  attempts: number;
  error: string | null;
  hash: string | null;
  unsureAfter?: string;
};

export type OpenCall = Pick<ToolCallRow, 'call_id' | 'tool' | 'arguments_hash'> & {
  arguments: string | null;
};
/** Bounds the memory of openCalls, which reads all open calls of a run at once. */
const OPEN_CHARS_MAX = 16_384;

export type PastCall = {
  call_id: string;
  tool: string;
  arguments_hash: string;
  outcome_hash: string | null;
};
export type CallFilter = {
  run_id?: string | undefined;
  task_id?: string | undefined;
  tool?: string | undefined;
};

const SELECT =
  'SELECT place, call_id, run_id, calls.fence, task_id, agent, tool, purpose, arguments, ' +
  'arguments_hash, status, attempts, created_ms, started_ms, ended_ms, result, error, wait_id, ' +
  'wait_kind, approval_id, unsure_after, confirmed_after FROM calls JOIN runs USING (run_id)';
const INSERT =
  'INSERT INTO calls (call_id, version, run_id, fence, tool, purpose, arguments, arguments_hash, ' +
  'status, attempts, created_ms, started_ms, ended_ms, error, outcome_hash, unsure_after) ' +
  'VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)';
const FILTERS = {
  run_id: 'run_id = ?',
  task_id: 'run_id IN (SELECT run_id FROM runs WHERE task_id = ?)',
  tool: 'tool = ?',
} as const;

/** Hides the column from SQLite's planner, which might read all calls of the tool instead. */
const TOOL_OF_RUN = "tool || '' = ?";

export type TooldStore = ReturnType<typeof makeStore>;

export function makeStore(db: Database, outbox: Pick<Outbox, 'add' | 'wake' | 'wakeSoon'>) {
  /** Changes exactly one call and records its event. Returns the event's number. */
  const change = async (
    statement: string,
    values: Value[],
    draft: EventDraft | undefined,
    wake: () => void = outbox.wake,
  ): Promise<number> => {
    const seq = await db.write(async (sql) => {
      const changed = await sql.run(statement, ...values);
      if (changed !== 1) throw new Error(`a call was not in the expected state: ${statement}`);
      return draft === undefined ? 0 : outbox.add(sql, draft);
    });
    if (draft !== undefined) wake();
    return seq;
  };

  const insert = (call: NewCall, state: CallState, draft: EventDraft): Promise<number> => {
    const { status, attempts, error, hash, unsureAfter = null } = state;
    const endedMs = status === 'denied' ? call.nowMs : null;
    return change(
      INSERT,
      [
        call.call_id,
        VERSION,
        call.run_id,
        call.fence,
        call.tool,
        call.purpose,
        call.arguments,
        call.arguments_hash,
        status,
        attempts,
        call.nowMs,
        call.nowMs,
        endedMs,
        error,
        hash,
        unsureAfter,
      ],
      draft,
    );
  };

  return {
    findCall: (callId: string): Promise<ToolCallRow | undefined> =>
      db.read((sql) => sql.one<ToolCallRow>(`${SELECT} WHERE call_id = ?`, callId)),

    /** Returns the number of the event, which must be durable before the effect. */
    recordIntent: (call: NewCall, attempted: EventDraft) =>
      insert(call, { status: 'running', attempts: 1, error: null, hash: null }, attempted),

    recordDenied: (call: NewCall, denial: { error: string; hash: string }, denied: EventDraft) =>
      insert(call, { status: 'denied', attempts: 0, ...denial }, denied),

    /** For a call that needs approval before it begins. */
    recordRequested: (call: NewCall, waiting: EventDraft) =>
      insert(call, { status: 'requested', attempts: 0, error: null, hash: null }, waiting),

    /** For a call that the restored record does not have, and that may have happened since. */
    recordUnsure: (call: NewCall, backup: string, unsure: EventDraft) => {
      const state = { status: 'unknown', attempts: 0, error: null, hash: null } as const;
      return insert(call, { ...state, unsureAfter: backup }, unsure);
    },

    /** The same for a call that the restored record has as not begun. */
    returnToUnsure: (callId: string, backup: string, unsure: EventDraft) =>
      change(
        "UPDATE calls SET status = 'unknown', wait_id = NULL, wait_kind = NULL, unsure_after = ? " +
          "WHERE call_id = ? AND status IN ('requested', 'allowed', 'waiting', 'running')",
        [backup, callId],
        unsure,
      ),

    /** Records that a person confirmed that the call did not happen after this backup. */
    recordConfirmed: (callId: string, backup: string) =>
      change('UPDATE calls SET confirmed_after = ? WHERE call_id = ?', [backup, callId], undefined),

    /** Records that a person confirmed that nothing of the tree happened after this backup. */
    async liftRestore(rootTaskId: string, backup: string, lifted: EventDraft): Promise<void> {
      await db.write(async (sql) => {
        const isNew = await sql.run(
          'INSERT INTO lifted_restores (root_task_id, backup) VALUES (?, ?) ON CONFLICT DO NOTHING',
          rootTaskId,
          backup,
        );
        if (isNew > 0) await outbox.add(sql, lifted);
      });
      outbox.wake();
    },

    isRestoreLifted: async (rootTaskId: string, backup: string): Promise<boolean> =>
      (await db.read((sql) =>
        sql.one(
          'SELECT backup FROM lifted_restores WHERE root_task_id = ? AND backup = ?',
          rootTaskId,
          backup,
        ),
      )) !== undefined,

    /** For a call that was allowed before and needs approval now. */
    returnToRequested: (callId: string) =>
      change(
        "UPDATE calls SET status = 'requested', wait_id = NULL, wait_kind = NULL " +
          "WHERE call_id = ? AND status IN ('running', 'allowed', 'unknown')",
        [callId],
        undefined,
      ),

    recordApprovalWait: (callId: string, wait: { id: string; kind: string }, approvalId: string) =>
      change(
        "UPDATE calls SET status = 'waiting', wait_id = ?, wait_kind = ?, approval_id = ? " +
          "WHERE call_id = ? AND status = 'requested'",
        [wait.id, wait.kind, approvalId, callId],
        undefined,
      ),

    recordRefused: (
      callId: string,
      denial: { error: string; hash: string },
      { endedMs, denied }: { endedMs: number; denied: EventDraft },
    ) =>
      change(
        "UPDATE calls SET status = 'denied', error = ?, outcome_hash = ?, ended_ms = ? " +
          "WHERE call_id = ? AND status IN ('requested', 'waiting', 'allowed', 'unknown')",
        [denial.error, denial.hash, endedMs, callId],
        denied,
      ),

    recordAttempt: (
      call: { callId: string; fence: number; attempt: number; nowMs: number },
      attempted: EventDraft,
    ) =>
      change(
        "UPDATE calls SET status = 'running', fence = ?, attempts = ?, started_ms = ?, " +
          'wait_id = NULL, wait_kind = NULL WHERE call_id = ? AND attempts = ? ' +
          "AND status IN ('running', 'allowed', 'unknown', 'requested', 'waiting')",
        [call.fence, call.attempt, call.nowMs, call.callId, call.attempt - 1],
        attempted,
      ),

    recordOutcome: (
      callId: string,
      outcome: SavedOutcome,
      { endedMs, ended }: { endedMs: number; ended: EventDraft },
    ) =>
      change(
        'UPDATE calls SET status = ?, result = ?, error = ?, outcome_hash = ?, ended_ms = ? ' +
          "WHERE call_id = ? AND status IN ('running', 'allowed', 'waiting', 'unknown')",
        [outcome.status, outcome.result, outcome.error, outcome.hash, endedMs, callId],
        ended,
        outbox.wakeSoon,
      ),

    recordWaiting: (callId: string, wait: { id: string; kind: string }, waiting: EventDraft) =>
      change(
        "UPDATE calls SET status = 'waiting', wait_id = ?, wait_kind = ? " +
          "WHERE call_id = ? AND status = 'running'",
        [wait.id, wait.kind, callId],
        waiting,
      ),

    /** Records the wait for a person's confirmation; the status stays unknown. */
    recordAsked: (
      callId: string,
      wait: { id: string; kind: string },
      waiting: EventDraft | undefined,
    ) =>
      change(
        "UPDATE calls SET wait_id = ?, wait_kind = ? WHERE call_id = ? AND status = 'unknown'",
        [wait.id, wait.kind, callId],
        waiting,
      ),

    /** For a call whose effect certainly did not begin: it may be attempted again. */
    releaseCall: (callId: string) =>
      change(
        "UPDATE calls SET status = 'allowed' WHERE call_id = ? AND status = 'running'",
        [callId],
        undefined,
      ),

    markUnknown: (callId: string) =>
      change(
        "UPDATE calls SET status = 'unknown', wait_id = NULL, wait_kind = NULL " +
          "WHERE call_id = ? AND status IN ('running', 'waiting')",
        [callId],
        undefined,
      ),

    /** At startup, marks calls that a crash left running as unknown, unless idempotent. */
    markLeftUnknown: (isIdempotent: (tool: string) => boolean): Promise<number> =>
      db.write(async (sql) => {
        const running = await sql.all<{ tool: string }>(
          "SELECT DISTINCT tool FROM calls WHERE status = 'running'",
        );
        let marked = 0;
        for (const { tool } of running) {
          if (isIdempotent(tool)) continue;
          marked += await sql.run(
            "UPDATE calls SET status = 'unknown' WHERE tool = ? AND status = 'running'",
            tool,
          );
        }
        return marked;
      }),

    /** Calls that wait, run or may begin; long arguments are null. */
    openCalls: (runId: string): Promise<OpenCall[]> =>
      db.read((sql) =>
        sql.all(
          `SELECT call_id, tool, arguments_hash, CASE WHEN length(arguments) <= ${OPEN_CHARS_MAX} ` +
            'THEN arguments END AS arguments FROM calls WHERE run_id = ? AND status IN ' +
            "('requested', 'allowed', 'waiting', 'running', 'unknown') ORDER BY place",
          runId,
        ),
      ),

    pastCalls: (runId: string): Promise<PastCall[]> =>
      db.read((sql) =>
        sql.all<PastCall>(
          'SELECT call_id, tool, arguments_hash, outcome_hash FROM calls WHERE run_id = ? ' +
            'ORDER BY place',
          runId,
        ),
      ),

    /** Calls before this place in the journal, newest first. */
    listCalls: (filter: CallFilter, before: number, limit: number): Promise<ToolCallRow[]> => {
      const where = ['place < ?'];
      const values: Value[] = [before];
      const isOfRun = filter.run_id !== undefined || filter.task_id !== undefined;
      for (const name of ['run_id', 'task_id', 'tool'] as const) {
        const value = filter[name];
        if (value === undefined) continue;
        where.push(name === 'tool' && isOfRun ? TOOL_OF_RUN : FILTERS[name]);
        values.push(value);
      }
      const statement = `${SELECT} WHERE ${where.join(' AND ')} ORDER BY place DESC LIMIT ?`;
      return db.read((sql) => sql.all<ToolCallRow>(statement, ...values, limit));
    },

    ...makePlaceMarks(db),
    ...makeCallPruning(db),
  };
}
