// Notices to people that maild has not delivered yet: results of their tasks, questions, messages
// to them, and digests. A row is written in the transaction that it is about.
import type { Database } from '../../../platform/sql/database.ts';
import { type IdempotencyKey, runOnce } from '../../../platform/sql/idempotency.ts';
import type { TaskRow } from './rows.ts';
import type { AgentdTx, AgentdWriteTx } from './tx.ts';

/** Its id is that of the task, wait or message, a dot, and what it is about. */
export type NoticeSubject = 'result' | 'question' | 'message' | 'digest';
export type DuePersonNotice = {
  id: string;
  /** Null: it is for no person in particular. */
  person: string | null;
  at_ms: number;
  /** JSON of a DigestOrder; null: it is no digest. */
  digest: string | null;
};

/** The digest that a person wants mailed, and the key with which they may read what is in it. */
export type DigestOrder = { since_ms: number; key: string };

export type NoticeMethods = {
  orderDigest(
    order: { person: string; digest: DigestOrder },
    once: IdempotencyKey | undefined,
  ): Promise<{ id: string }>;
  dueNotices(limit: number): Promise<DuePersonNotice[]>;
  endNotices(ids: readonly string[]): Promise<void>;
};

const PERSON = 'person:';
const OUTSIDE = 'external:';

const addDueNotice = async (tx: AgentdTx, id: string, person: string | null): Promise<void> => {
  await tx.sql.run(
    'INSERT INTO notices_due (id, person, at_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
    id,
    person,
    tx.nowMs,
  );
};

const findPerson = (principal: string): string | undefined =>
  principal.startsWith(PERSON) ? principal.slice(PERSON.length) : undefined;

/** Nobody is told of the end of a program, or of what a person cancels. */
export async function addResultNotice(tx: AgentdTx, task: TaskRow, status: string): Promise<void> {
  const person = findPerson(task.created_by);
  const isForNobody = person === undefined && !task.created_by.startsWith(OUTSIDE);
  if (isForNobody || task.program != null || status === 'canceled') return;
  await addDueNotice(tx, `${task.id}.result`, person ?? null);
}

/** Any person may answer; the one who created the root task is asked by mail. */
export async function addQuestionNotice(tx: AgentdTx, waitId: string, taskId: string) {
  const root = await tx.sql.one<{ created_by: string }>(
    'SELECT r.created_by FROM tasks t JOIN tasks r ON r.id = t.root_task_id WHERE t.id = ?',
    taskId,
  );
  await addDueNotice(tx, `${waitId}.question`, findPerson(root?.created_by ?? '') ?? null);
}

export async function addMessageNotice(tx: AgentdTx, id: string, to: string): Promise<void> {
  const person = findPerson(to);
  if (person !== undefined) await addDueNotice(tx, `${id}.message`, person);
}

export function makeNoticeMethods(db: Pick<Database, 'read'>, write: AgentdWriteTx): NoticeMethods {
  return {
    orderDigest: ({ person, digest }, once) =>
      write(
        (tx) =>
          runOnce(tx.sql, once, tx.nowMs, async () => {
            const id = tx.newId<string>('digest');
            await tx.sql.run(
              'INSERT INTO notices_due (id, person, at_ms, digest) VALUES (?, ?, ?, ?)',
              `${id}.digest`,
              person,
              tx.nowMs,
              JSON.stringify(digest),
            );
            return { id };
          }),
        { mayStart: false },
      ),
    dueNotices: (limit) =>
      db.read((sql) =>
        sql.all<DuePersonNotice>(
          'SELECT id, person, at_ms, digest FROM notices_due ORDER BY id LIMIT ?',
          limit,
        ),
      ),
    endNotices: (ids) =>
      write(
        async (tx) => {
          for (const id of ids) await tx.sql.run('DELETE FROM notices_due WHERE id = ?', id);
        },
        { mayStart: false },
      ),
  };
}
