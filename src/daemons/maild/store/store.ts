// maild's store: each method is one transaction.
import type { Clock } from '../../../platform/clock.ts';
import type { Outbox } from '../../../platform/outbox.ts';
import type { Database, Sql } from '../../../platform/sql/database.ts';
import { findRecorded, type IdempotencyKey, runOnce } from '../../../platform/sql/idempotency.ts';
import type { MailRow } from './schema.ts';

export type MaildStore = {
  /** Does the work once per key: its result is recorded when it is done. */
  once<T>(key: IdempotencyKey | undefined, work: () => Promise<T>): Promise<T>;
  find(id: string): Promise<MailRow | undefined>;
  /** The newest mail of this id in this mailbox. */
  findByMessage(box: string, messageId: string): Promise<MailRow | undefined>;
  /** The first and the last mail of a thread in this mailbox. */
  findThread(
    box: string,
    contextId: string,
  ): Promise<{ first: MailRow; last: MailRow } | undefined>;
  /** Records what a person sent, so that replies find its thread. */
  addSent(row: MailRow): Promise<void>;
  /** Records what was delivered, once each. */
  addDelivered(rows: readonly (MailRow & { sizeBytes: number; by: string })[]): Promise<void>;
};

/** Longer than threads last; with a bound, the table does not grow for ever. */
const KEPT_MS = 400 * 86_400_000;

export function makeStore(options: { db: Database; outbox: Outbox; clock: Clock }): MaildStore {
  const { db, outbox, clock } = options;
  return {
    async once(key, work) {
      if (key === undefined) return work();
      const recorded = await db.read((sql) =>
        findRecorded<Awaited<ReturnType<typeof work>>>(sql, key),
      );
      if (recorded !== undefined) return recorded;
      const result = await work();
      return db.write((sql) => runOnce(sql, key, clock.nowMs(), async () => result));
    },
    find: (id) => db.read((sql) => sql.one<MailRow>('SELECT * FROM mails WHERE id = ?', id)),
    findByMessage: (box, messageId) =>
      db.read((sql) =>
        sql.one<MailRow>(
          'SELECT * FROM mails WHERE box = ? AND message_id = ? ORDER BY at_ms DESC LIMIT 1',
          box,
          messageId,
        ),
      ),
    addSent: async (row) => {
      await db.write((sql) => insertMail(sql, row));
    },
    findThread: (box, contextId) =>
      db.read(async (sql) => {
        const first = await sql.one<MailRow>(
          'SELECT * FROM mails WHERE box = ? AND context_id = ? ORDER BY at_ms LIMIT 1',
          box,
          contextId,
        );
        const last = await sql.one<MailRow>(
          'SELECT * FROM mails WHERE box = ? AND context_id = ? ORDER BY at_ms DESC LIMIT 1',
          box,
          contextId,
        );
        return first === undefined || last === undefined ? undefined : { first, last };
      }),
    async addDelivered(rows) {
      await db.write(async (sql) => {
        for (const { sizeBytes, by, ...row } of rows) {
          const added = await insertMail(sql, row);
          if (added === 0) continue;
          await outbox.add(sql, {
            id: `${row.id}.mailed`,
            event: 'mail.delivered',
            principal: by,
            ...(row.task_id === null ? {} : { task_id: row.task_id }),
            data: { box: row.box, kind: row.kind, size_bytes: sizeBytes },
          });
        }
        const old = await sql.all<{ id: string }>(
          'SELECT id FROM mails WHERE at_ms < ? ORDER BY at_ms LIMIT 20',
          clock.nowMs() - KEPT_MS,
        );
        for (const { id } of old) await sql.run('DELETE FROM mails WHERE id = ?', id);
      });
      outbox.wake();
    },
  };
}

const insertMail = (sql: Sql, row: MailRow): Promise<number> =>
  sql.run(
    `INSERT INTO mails (id, box, kind, message_id, context_id, task_id, subject, at_ms)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
    row.id,
    row.box,
    row.kind,
    row.message_id,
    row.context_id,
    row.task_id,
    row.subject,
    row.at_ms,
  );
