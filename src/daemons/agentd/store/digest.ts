// Reads what a digest says of tasks: the root tasks that ended since a time, the questions that
// wait for a person, and the layers that nobody has applied or discarded. Programs of people are
// theirs.
import type { Database, Sql } from '../../../platform/sql/database.ts';
import { DIGEST_COUNT_MAX, type DigestTask, type DigestView } from '../../../wire/agentd.ts';
import { type TaskRow, time } from './rows.ts';

export type DigestReads = {
  digestTasks(page: DigestPage): Promise<DigestTasks>;
  digestQuestions(limit: number): Promise<DigestQuestions>;
};

type DigestPage = {
  sinceMs: number;
  untilMs: number;
  /** The length of each list. */
  limit: number;
};
type Found<T> = { rows: T[]; more: boolean };
export type DigestTasks = Pick<DigestView, 'completed' | 'failed' | 'canceled'> & {
  unapplied: Found<DigestTask>;
};
export type DigestQuestions = Found<DigestView['waiting']['questions'][number]>;

type DigestRow = Pick<
  TaskRow,
  'id' | 'goal' | 'assigned_to' | 'status' | 'created_by' | 'reason' | 'rehearsal' | 'created_ms'
> & {
  error: string | null;
  ended_ms: number;
  retried_as: string | null;
  cost_microusd: number | null;
};

/** A task that ended in time. */
type EndedRow = { id: string; status: string; workspace_mode: string | null; is_program: number };

const TEXT_CHARS = 240;
/** So many tasks with layers are looked at. */
const LAYERS_MAX = 200;
const FAILED = ['failed', 'rejected'];

export function makeDigestReads(db: Database): DigestReads {
  return {
    digestTasks: (page) =>
      db.read(async (sql) => {
        const { rows, more } = await readEnded(sql, page);
        const readList = async (statuses: readonly string[]) => {
          const own = rows.filter(({ status }) => statuses.includes(status));
          const shown = own.slice(0, page.limit);
          return { count: own.length, more, tasks: await readTasks(sql, shown) };
        };
        return {
          completed: await readList(['completed']),
          failed: await readList(FAILED),
          canceled: rows.filter(({ status }) => status === 'canceled').length,
          unapplied: await readUnapplied(sql, rows, page.limit),
        };
      }),
    digestQuestions: (limit) => db.read((sql) => readQuestions(sql, limit)),
  };
}

async function readEnded(sql: Sql, { sinceMs, untilMs }: DigestPage): Promise<Found<EndedRow>> {
  const rows = await sql.all<EndedRow>(
    `SELECT id, status, workspace_mode, CASE WHEN program IS NULL THEN 0 ELSE 1 END AS is_program
     FROM tasks
     WHERE depth = 0 AND ended_ms IS NOT NULL AND ended_ms >= ? AND ended_ms <= ?
     ORDER BY ended_ms DESC, id DESC LIMIT ?`,
    sinceMs,
    untilMs,
    DIGEST_COUNT_MAX + 1,
  );
  return {
    rows: rows.slice(0, DIGEST_COUNT_MAX).filter(({ is_program }) => is_program === 0),
    more: rows.length > DIGEST_COUNT_MAX,
  };
}

async function readTasks(sql: Sql, found: readonly EndedRow[]): Promise<DigestTask[]> {
  const tasks: DigestTask[] = [];
  for (const { id } of found) {
    const row = await sql.one<DigestRow>(
      `SELECT t.id, substr(t.goal, 1, ${TEXT_CHARS}) AS goal, t.assigned_to, t.status, t.created_by,
         t.reason, t.error, t.rehearsal, t.created_ms, t.ended_ms,
         (SELECT MAX(r.id) FROM tasks r WHERE r.retry_of = t.id) AS retried_as,
         (SELECT SUM(s.cost_microusd) FROM tasks s WHERE s.root_task_id = t.id) AS cost_microusd
       FROM tasks t WHERE t.id = ?`,
      id,
    );
    if (row !== undefined) tasks.push(toDigestTask(row));
  }
  return tasks;
}

/** The changes of a directory of a person that are neither there nor gone. */
async function readUnapplied(
  sql: Sql,
  ended: readonly EndedRow[],
  limit: number,
): Promise<Found<DigestTask>> {
  const layered = ended.filter(({ workspace_mode }) => workspace_mode === 'layer');
  const open: EndedRow[] = [];
  for (const row of layered.slice(0, LAYERS_MAX)) {
    const actions = await sql.all<{ action: string; status: string }>(
      'SELECT action, status FROM layer_actions WHERE root_task_id = ?',
      row.id,
    );
    const isOver = actions.some(({ action, status }) => action !== 'undo' && status === 'done');
    if (!isOver) open.push(row);
    if (open.length > limit) break;
  }
  const more = open.length > limit || layered.length > LAYERS_MAX;
  return { rows: await readTasks(sql, open.slice(0, limit)), more };
}

function toDigestTask(row: DigestRow): DigestTask {
  const { assigned_to, created_ms, ended_ms, error, reason, rehearsal, cost_microusd, ...columns } =
    row;
  const { message } = (error === null ? {} : JSON.parse(error)) as { message?: string };
  const why = row.status === 'completed' ? null : (message ?? reason);
  return {
    ...columns,
    agent: assigned_to,
    reason: why?.slice(0, TEXT_CHARS) ?? null,
    cost_microusd: cost_microusd === null ? null : Number(cost_microusd),
    rehearsal: rehearsal === 1,
    created_at: time(created_ms),
    ended_at: time(ended_ms),
  } as DigestTask;
}

/** Oldest first: any person may answer them. */
async function readQuestions(sql: Sql, limit: number): Promise<DigestQuestions> {
  const rows = await sql.all<{
    id: string;
    task_id: string;
    question: string | null;
    expires_ms: number | null;
    agent: string | null;
  }>(
    `SELECT w.id, w.task_id, substr(w.question, 1, ${TEXT_CHARS}) AS question, w.expires_ms,
       t.assigned_to AS agent
     FROM waits w JOIN tasks t ON t.id = w.task_id
     WHERE w.status = 'open' AND w.kind = 'question' ORDER BY w.id LIMIT ?`,
    limit + 1,
  );
  const views = rows.slice(0, limit).map(({ expires_ms, question, ...row }) => ({
    ...row,
    question: question ?? '',
    expires_at: time(expires_ms),
  }));
  return { rows: views as DigestQuestions['rows'], more: rows.length > limit };
}
