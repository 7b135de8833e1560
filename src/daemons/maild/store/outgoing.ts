// Mail to others that agents' calls handed over, until the smarthost has it or it has failed, and
// what became of it. A call has one row; a repeat that a person allowed is its next round.
import type { Clock } from '../../../platform/clock.ts';
import type { Outbox } from '../../../platform/outbox.ts';
import type { Database, Sql } from '../../../platform/sql/database.ts';
import type { EventDraft } from '../../../wire/events.ts';
import type { CallId, RunId, TaskId } from '../../../wire/primitives.ts';

export const OUTGOING_TABLES = `
CREATE TABLE outgoing (
  call_id TEXT PRIMARY KEY,
  id TEXT NOT NULL,
  round INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  root_task_id TEXT NOT NULL,
  agent TEXT NOT NULL,
  message_id TEXT NOT NULL,
  content TEXT NOT NULL,
  content_hash TEXT NOT NULL,
  recipients TEXT NOT NULL,
  status TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  reported INTEGER NOT NULL,
  next_ms BIGINT NOT NULL,
  taken_ms BIGINT NOT NULL,
  ends_ms BIGINT NOT NULL,
  ended_ms BIGINT
);
CREATE INDEX outgoing_due ON outgoing (next_ms) WHERE status IN ('due', 'handing');
CREATE INDEX outgoing_unreported ON outgoing (taken_ms) WHERE reported = 0;
CREATE INDEX outgoing_by_time ON outgoing (taken_ms);
`;

/** handing: the smarthost may have it, but its reply is not recorded. */
export type OutgoingStatus =
  | 'due'
  | 'handing'
  | 'sent'
  | 'partly'
  | 'failed'
  | 'withdrawn'
  | 'unknown'
  | 'forgotten';

export type OutgoingRow = {
  call_id: CallId;
  id: string;
  round: number;
  run_id: RunId;
  task_id: TaskId;
  root_task_id: TaskId;
  agent: string;
  /** The same in all rounds, so that receivers can recognize a mail that came twice. */
  message_id: string;
  /** The mail as JSON, until it has ended. */
  content: string;
  content_hash: string;
  /** JSON of OutgoingRecipient[]. */
  recipients: string;
  status: OutgoingStatus;
  attempts: number;
  /** 0: agentd has to be notified that it has ended. */
  reported: number;
  next_ms: number;
  taken_ms: number;
  /** When maild gives up. */
  ends_ms: number;
  ended_ms: number | null;
};

export type OutgoingRecipient = {
  address: string;
  status: 'due' | 'accepted' | 'refused';
  code: number | null;
  enhanced: string | null;
  /** The last words of the smarthost: text of others, for people only. */
  said: string | null;
};

export type NewOutgoing = Pick<
  OutgoingRow,
  | 'call_id'
  | 'id'
  | 'run_id'
  | 'task_id'
  | 'root_task_id'
  | 'agent'
  | 'message_id'
  | 'content'
  | 'content_hash'
  | 'ends_ms'
> & { recipients: readonly OutgoingRecipient[] };

/** How a mail, or an attempt at it, ended. */
export type OutgoingEnd = {
  status: Exclude<OutgoingStatus, 'due' | 'handing' | 'forgotten'>;
  recipients: readonly OutgoingRecipient[];
};

export type OutgoingStore = {
  /** Returns the row that is there, unless a person said that it was not sent. */
  take(mail: NewOutgoing): Promise<OutgoingRow>;
  find(callId: string): Promise<OutgoingRow | undefined>;
  listDue(limit: number): Promise<OutgoingRow[]>;
  findNextMs(): Promise<number | undefined>;
  /** Returns the number of its event, which has to be durable before anything is sent. */
  beginAttempt(row: OutgoingRow, through: string): Promise<number>;
  /** From here on, a crash leaves the outcome unknown. */
  markHanding(row: OutgoingRow): Promise<void>;
  postpone(row: OutgoingRow, nextMs: number): Promise<void>;
  /** Something is left to do: another attempt follows. */
  defer(
    row: OutgoingRow,
    to: { recipients: readonly OutgoingRecipient[]; nextMs: number; reason: string },
  ): Promise<void>;
  end(row: OutgoingRow, end: OutgoingEnd): Promise<void>;
  /** Ends with unknown outcome what a crash, or with `due` a restore, left. Returns how many. */
  markLeftUnknown(statuses: readonly ('due' | 'handing')[]): Promise<number>;
  listUnreported(limit: number): Promise<OutgoingRow[]>;
  markReported(row: OutgoingRow): Promise<void>;
  forget(callId: string): Promise<boolean>;
};

/** A mail's outcome is known for so long. */
const KEPT_MS = 30 * 86_400_000;
const SWEEP_MAX = 20;

const eventOf = (row: OutgoingRow, suffix: string, draft: Partial<EventDraft>): EventDraft => ({
  id: `${row.id}.${row.round}.${suffix}`,
  event: 'mail.queued',
  principal: `agent:${row.agent}`,
  agent: row.agent,
  task_id: row.task_id,
  root_task_id: row.root_task_id,
  run_id: row.run_id,
  call_id: row.call_id,
  ...draft,
});

export function makeOutgoingStore(options: {
  db: Database;
  outbox: Outbox;
  clock: Clock;
}): OutgoingStore {
  const { db, outbox, clock } = options;

  const change = async <T>(work: (sql: Sql) => Promise<T>): Promise<T> => {
    const result = await db.write(work);
    outbox.wake();
    return result;
  };

  const end = async (sql: Sql, row: OutgoingRow, { status, recipients }: OutgoingEnd) => {
    const changed = await sql.run(
      `UPDATE outgoing SET status = ?, recipients = ?, content = '', reported = 0, ended_ms = ?
       WHERE call_id = ? AND round = ? AND status IN ('due', 'handing')`,
      status,
      JSON.stringify(recipients),
      clock.nowMs(),
      row.call_id,
      row.round,
    );
    if (changed === 0) return;
    const accepted = recipients.filter((one) => one.status === 'accepted').length;
    const isSent = status === 'sent' || status === 'partly';
    const event = isSent ? 'mail.sent' : status === 'unknown' ? 'mail.unsure' : 'mail.failed';
    const data = { attempts: row.attempts, accepted, refused: recipients.length - accepted };
    await outbox.add(sql, eventOf(row, 'ended', { event, status, data }));
  };

  return {
    async take(mail) {
      const nowMs = clock.nowMs();
      return change(async (sql) => {
        await sweep(sql, nowMs);
        const known = await findRow(sql, mail.call_id);
        if (known !== undefined && known.status !== 'forgotten') return known;
        const { recipients, ...fields } = mail;
        const row: OutgoingRow = {
          ...fields,
          round: (known?.round ?? 0) + 1,
          recipients: JSON.stringify(recipients),
          status: 'due',
          attempts: 0,
          reported: 1,
          next_ms: nowMs,
          taken_ms: nowMs,
          ended_ms: null,
        };
        await insertRow(sql, row);
        const data = { recipients: recipients.length, size_bytes: row.content.length };
        await outbox.add(sql, eventOf(row, 'queued', { event: 'mail.queued', data }));
        return row;
      });
    },
    find: (callId) => db.read((sql) => findRow(sql, callId)),
    listDue: (limit) =>
      db.read((sql) =>
        sql.all<OutgoingRow>(
          `SELECT * FROM outgoing WHERE status IN ('due', 'handing') AND next_ms <= ?
           ORDER BY next_ms LIMIT ?`,
          clock.nowMs(),
          limit,
        ),
      ),
    findNextMs: () =>
      db.read(async (sql) => {
        const next = await sql.one<{ at: number | null }>(
          "SELECT MIN(next_ms) AS at FROM outgoing WHERE status IN ('due', 'handing')",
        );
        return next?.at == null ? undefined : Number(next.at);
      }),
    beginAttempt: (row, through) =>
      change(async (sql) => {
        row.attempts += 1;
        await sql.run(
          'UPDATE outgoing SET attempts = ? WHERE call_id = ?',
          row.attempts,
          row.call_id,
        );
        const data = { through, message_id: row.message_id };
        const event = { event: 'mail.attempted', data } as const;
        return outbox.add(sql, eventOf(row, `attempted.${row.attempts}`, event));
      }),
    markHanding: async ({ call_id }) => {
      await db.write((sql) =>
        sql.run("UPDATE outgoing SET status = 'handing' WHERE call_id = ?", call_id),
      );
    },
    postpone: async ({ call_id }, nextMs) => {
      await db.write((sql) =>
        sql.run('UPDATE outgoing SET next_ms = ? WHERE call_id = ?', nextMs, call_id),
      );
    },
    defer: (row, { recipients, nextMs, reason }) =>
      change(async (sql) => {
        await sql.run(
          `UPDATE outgoing SET status = 'due', recipients = ?, next_ms = ?
           WHERE call_id = ? AND round = ?`,
          JSON.stringify(recipients),
          nextMs,
          row.call_id,
          row.round,
        );
        const event = { event: 'mail.deferred', status: reason } as const;
        await outbox.add(sql, eventOf(row, `deferred.${row.attempts}`, event));
      }),
    end: (row, ending) => change((sql) => end(sql, row, ending)),
    markLeftUnknown: (statuses) =>
      change(async (sql) => {
        const left = await sql.all<OutgoingRow>(
          "SELECT * FROM outgoing WHERE status IN ('due', 'handing')",
        );
        const unsure = left.filter(({ status }) => (statuses as string[]).includes(status));
        for (const row of unsure)
          await end(sql, row, { status: 'unknown', recipients: readRecipients(row) });
        return unsure.length;
      }),
    listUnreported: (limit) =>
      db.read((sql) =>
        sql.all<OutgoingRow>(
          'SELECT * FROM outgoing WHERE reported = 0 ORDER BY taken_ms LIMIT ?',
          limit,
        ),
      ),
    markReported: async ({ call_id, round }) => {
      await db.write((sql) =>
        sql.run('UPDATE outgoing SET reported = 1 WHERE call_id = ? AND round = ?', call_id, round),
      );
    },
    forget: async (callId) => {
      const changed = await db.write((sql) =>
        sql.run(
          "UPDATE outgoing SET status = 'forgotten', reported = 1 WHERE call_id = ? AND status = 'unknown'",
          callId,
        ),
      );
      return changed > 0;
    },
  };
}

export const readRecipients = ({ recipients }: OutgoingRow): OutgoingRecipient[] =>
  JSON.parse(recipients) as OutgoingRecipient[];

const findRow = (sql: Sql, callId: string): Promise<OutgoingRow | undefined> =>
  sql.one<OutgoingRow>('SELECT * FROM outgoing WHERE call_id = ?', callId);

async function insertRow(sql: Sql, row: OutgoingRow): Promise<void> {
  await sql.run('DELETE FROM outgoing WHERE call_id = ?', row.call_id);
  await sql.run(
    `INSERT INTO outgoing (call_id, id, round, run_id, task_id, root_task_id, agent, message_id,
       content, content_hash, recipients, status, attempts, reported, next_ms, taken_ms, ends_ms)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    row.call_id,
    row.id,
    row.round,
    row.run_id,
    row.task_id,
    row.root_task_id,
    row.agent,
    row.message_id,
    row.content,
    row.content_hash,
    row.recipients,
    row.status,
    row.attempts,
    row.reported,
    row.next_ms,
    row.taken_ms,
    row.ends_ms,
  );
}

/** Each mail removes a few old ones, so that none has to remove them all. */
async function sweep(sql: Sql, nowMs: number): Promise<void> {
  const old = await sql.all<Pick<OutgoingRow, 'call_id' | 'status' | 'reported'>>(
    'SELECT call_id, status, reported FROM outgoing WHERE taken_ms < ? ORDER BY taken_ms LIMIT ?',
    nowMs - KEPT_MS,
    SWEEP_MAX,
  );
  for (const { call_id, status, reported } of old) {
    const isOpen = status === 'due' || status === 'handing' || Number(reported) === 0;
    if (!isOpen) await sql.run('DELETE FROM outgoing WHERE call_id = ?', call_id);
  }
}
