// Mail that was taken in, and what became of it for each recipient. A mail and its recipients are
// written in one transaction, before the sender is told that it was taken; its text is removed when
// every recipient has it.
import type { Clock } from '../../../platform/clock.ts';
import type { Outbox } from '../../../platform/outbox.ts';
import type { Database, Sql } from '../../../platform/sql/database.ts';

export const INCOMING_TABLES = `
CREATE INDEX mails_by_message ON mails (box, message_id);
CREATE TABLE incoming (
  id TEXT PRIMARY KEY,
  sender TEXT NOT NULL,
  owner TEXT,
  envelope_from TEXT NOT NULL,
  message_id TEXT NOT NULL,
  answers TEXT NOT NULL,
  subject TEXT NOT NULL,
  text TEXT NOT NULL,
  attachments INTEGER NOT NULL,
  raw BLOB,
  left_to_do INTEGER NOT NULL,
  taken_ms BIGINT NOT NULL
);
CREATE INDEX incoming_by_time ON incoming (taken_ms);
CREATE TABLE incoming_to (
  mail_id TEXT NOT NULL,
  recipient TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  status TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  next_ms BIGINT NOT NULL,
  became TEXT,
  task_id TEXT,
  detail TEXT,
  PRIMARY KEY (mail_id, recipient)
);
CREATE INDEX incoming_to_due ON incoming_to (next_ms) WHERE status = 'due';
CREATE TABLE fingerprints (
  fingerprint TEXT PRIMARY KEY,
  mail_id TEXT NOT NULL,
  taken_ms BIGINT NOT NULL
);
CREATE INDEX fingerprints_by_time ON fingerprints (taken_ms);
`;

export type IncomingRow = {
  id: string;
  /** The principal: a person, or outside. */
  sender: string;
  /** The person whose own key was used. */
  owner: string | null;
  envelope_from: string;
  message_id: string;
  /** The ids that it answers, as JSON. */
  answers: string;
  subject: string;
  text: string;
  attachments: number;
  raw: Uint8Array | null;
  left_to_do: number;
  taken_ms: number;
};

/** `ignored`: written by a program, for an agent. */
export type RecipientStatus = 'due' | 'done' | 'ignored' | 'failed';
export type RecipientRow = {
  mail_id: string;
  recipient: string;
  fingerprint: string;
  status: RecipientStatus;
  attempts: number;
  next_ms: number;
  became: string | null;
  task_id: string | null;
  detail: string | null;
};

export type NewRecipient = Pick<RecipientRow, 'recipient' | 'fingerprint'> & {
  status: 'due' | 'ignored';
};
export type DueRecipient = RecipientRow & { mail: IncomingRow };

export type RecipientEnd = {
  status: Exclude<RecipientStatus, 'due'>;
  became?: string;
  taskId?: string;
  detail?: string;
};

export type IncomingStore = {
  /** Returns the recipients that are new: the others have had the same mail already. */
  take(mail: Omit<IncomingRow, 'left_to_do'>, to: readonly NewRecipient[]): Promise<string[]>;
  listDue(limit: number): Promise<DueRecipient[]>;
  findNextMs(): Promise<number | undefined>;
  endRecipient(row: RecipientRow, end: RecipientEnd): Promise<void>;
  postpone(row: RecipientRow, nextMs: number): Promise<void>;
};

/** The same mail within this time is a repeat. */
const REPEAT_MS = 7 * 86_400_000;
/** A mail's outcome is known for so long. */
const KEPT_MS = 30 * 86_400_000;
const SWEEP_MAX = 20;

export function makeIncomingStore(options: {
  db: Database;
  outbox: Outbox;
  clock: Clock;
}): IncomingStore {
  const { db, outbox, clock } = options;
  return {
    async take(mail, to) {
      const added = await db.write(async (sql) => {
        await sweep(sql, clock.nowMs());
        const fresh: NewRecipient[] = [];
        for (const recipient of to)
          if (await isNew(sql, recipient.fingerprint, mail)) fresh.push(recipient);
        if (fresh.length === 0) return [];
        const due = fresh.filter(({ status }) => status === 'due').length;
        await insertMail(sql, { ...mail, raw: due === 0 ? null : mail.raw, left_to_do: due });
        for (const recipient of fresh) await insertRecipient(sql, mail, recipient);
        await outbox.add(sql, {
          id: `${mail.id}.received`,
          event: 'mail.received',
          principal: mail.sender,
          data: {
            recipients: fresh.length,
            ignored: fresh.length - due,
            size_bytes: mail.raw?.length ?? 0,
            attachments: mail.attachments,
          },
        });
        return fresh.map(({ recipient }) => recipient);
      });
      outbox.wake();
      return added;
    },
    listDue: (limit) =>
      db.read(async (sql) => {
        const rows = await sql.all<RecipientRow>(
          "SELECT * FROM incoming_to WHERE status = 'due' AND next_ms <= ? ORDER BY next_ms LIMIT ?",
          clock.nowMs(),
          limit,
        );
        const due: DueRecipient[] = [];
        for (const row of rows) {
          const mail = await sql.one<IncomingRow>(
            'SELECT * FROM incoming WHERE id = ?',
            row.mail_id,
          );
          if (mail !== undefined) due.push({ ...row, mail });
        }
        return due;
      }),
    findNextMs: () =>
      db.read(async (sql) => {
        const next = await sql.one<{ at: number | null }>(
          "SELECT MIN(next_ms) AS at FROM incoming_to WHERE status = 'due'",
        );
        return next?.at == null ? undefined : Number(next.at);
      }),
    async endRecipient({ mail_id, recipient }, { status, became, taskId, detail }) {
      await db.write(async (sql) => {
        const changed = await sql.run(
          `UPDATE incoming_to SET status = ?, became = ?, task_id = ?, detail = ?
           WHERE mail_id = ? AND recipient = ? AND status = 'due'`,
          status,
          became ?? null,
          taskId ?? null,
          detail ?? null,
          mail_id,
          recipient,
        );
        if (changed === 0) return;
        await sql.run('UPDATE incoming SET left_to_do = left_to_do - 1 WHERE id = ?', mail_id);
        // The text lives on where it was handed over.
        await sql.run(
          "UPDATE incoming SET raw = NULL, text = '' WHERE id = ? AND left_to_do = 0",
          mail_id,
        );
        await outbox.add(sql, {
          id: `${mail_id}.${recipient.replace(':', '.')}.handed`,
          event: status === 'done' ? 'mail.handed_over' : 'mail.refused',
          ...(taskId === undefined ? {} : { task_id: taskId }),
          status: became ?? status,
          data: { to: recipient, mail: mail_id },
        });
      });
      outbox.wake();
    },
    postpone: async ({ mail_id, recipient }, nextMs) => {
      await db.write((sql) =>
        sql.run(
          `UPDATE incoming_to SET attempts = attempts + 1, next_ms = ?
           WHERE mail_id = ? AND recipient = ? AND status = 'due'`,
          nextMs,
          mail_id,
          recipient,
        ),
      );
    },
  };
}

/** Also renews nothing: seven days count from the first time. */
async function isNew(
  sql: Sql,
  fingerprint: string,
  { id, taken_ms: takenMs }: Pick<IncomingRow, 'id' | 'taken_ms'>,
): Promise<boolean> {
  await sql.run(
    'DELETE FROM fingerprints WHERE fingerprint = ? AND taken_ms < ?',
    fingerprint,
    takenMs - REPEAT_MS,
  );
  const added = await sql.run(
    'INSERT INTO fingerprints (fingerprint, mail_id, taken_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
    fingerprint,
    id,
    takenMs,
  );
  return added > 0;
}

async function insertMail(sql: Sql, row: IncomingRow): Promise<void> {
  await sql.run(
    `INSERT INTO incoming (id, sender, owner, envelope_from, message_id, answers, subject, text,
       attachments, raw, left_to_do, taken_ms)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    row.id,
    row.sender,
    row.owner,
    row.envelope_from,
    row.message_id,
    row.answers,
    row.subject,
    row.left_to_do === 0 ? '' : row.text,
    row.attachments,
    row.raw,
    row.left_to_do,
    row.taken_ms,
  );
}

async function insertRecipient(
  sql: Sql,
  { id, taken_ms: takenMs }: Pick<IncomingRow, 'id' | 'taken_ms'>,
  { recipient, fingerprint, status }: NewRecipient,
): Promise<void> {
  await sql.run(
    `INSERT INTO incoming_to (mail_id, recipient, fingerprint, status, attempts, next_ms)
     VALUES (?, ?, ?, ?, 0, ?)`,
    id,
    recipient,
    fingerprint,
    status,
    takenMs,
  );
}

/** Each mail removes a few old ones, so that none has to remove them all. */
async function sweep(sql: Sql, nowMs: number): Promise<void> {
  const prints = await sql.all<{ fingerprint: string }>(
    'SELECT fingerprint FROM fingerprints WHERE taken_ms < ? ORDER BY taken_ms LIMIT ?',
    nowMs - REPEAT_MS,
    SWEEP_MAX,
  );
  for (const { fingerprint } of prints)
    await sql.run('DELETE FROM fingerprints WHERE fingerprint = ?', fingerprint);
  const old = await sql.all<{ id: string; left_to_do: number }>(
    'SELECT id, left_to_do FROM incoming WHERE taken_ms < ? ORDER BY taken_ms LIMIT ?',
    nowMs - KEPT_MS,
    SWEEP_MAX,
  );
  for (const { id, left_to_do: left } of old) {
    if (Number(left) > 0) continue;
    await sql.run('DELETE FROM incoming WHERE id = ?', id);
    await sql.run('DELETE FROM incoming_to WHERE mail_id = ?', id);
  }
}
