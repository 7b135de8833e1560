// The ended tasks whose episodes memoryd has not kept yet. A row is written in the transaction that
// ends the task, and its tree is not pruned before the row is gone.
import type { Database, Sql } from '../../../platform/sql/database.ts';
import { RUN_COLUMNS, type RunRow, type TaskRow } from './rows.ts';
import type { AgentdTx, AgentdWriteTx } from './tx.ts';

export type DueEpisode = {
  task: TaskRow;
  root: TaskRow;
  /** The run that worked on it last. */
  run: RunRow;
  subtasks: number;
};

export type EpisodeMethods = {
  dueEpisodes(limit: number): Promise<DueEpisode[]>;
  endEpisode(taskId: string): Promise<void>;
};

/** A task on which nobody worked has no episode, and that of a program is not an agent's. */
export async function addDueEpisode(tx: AgentdTx, task: TaskRow): Promise<void> {
  await tx.sql.run(
    `INSERT INTO episodes_due (task_id)
     SELECT DISTINCT t.id FROM tasks t JOIN runs r ON r.task_id = t.id
     WHERE t.id = ? AND t.program IS NULL AND r.activations > 0
     ON CONFLICT DO NOTHING`,
    task.id,
  );
}

export function makeEpisodeMethods(
  db: Pick<Database, 'read'>,
  write: AgentdWriteTx,
): EpisodeMethods {
  return {
    dueEpisodes: (limit) =>
      db.read(async (sql) => {
        const due = await sql.all<{ task_id: string }>(
          'SELECT task_id FROM episodes_due ORDER BY task_id LIMIT ?',
          limit,
        );
        return Promise.all(due.map(({ task_id }) => readEpisode(sql, task_id)));
      }),
    endEpisode: (taskId) =>
      write(
        async (tx) => {
          await tx.sql.run('DELETE FROM episodes_due WHERE task_id = ?', taskId);
        },
        { mayStart: false },
      ),
  };
}

async function readEpisode(sql: Sql, taskId: string): Promise<DueEpisode> {
  const find = async (id: string): Promise<TaskRow> =>
    (await sql.one<TaskRow>('SELECT * FROM tasks WHERE id = ?', id))!;
  const task = await find(taskId);
  const run = (await sql.one<RunRow>(
    `SELECT ${RUN_COLUMNS} FROM runs WHERE task_id = ? AND activations > 0 ORDER BY id DESC LIMIT 1`,
    taskId,
  ))!;
  const children = await sql.one<{ n: number }>(
    'SELECT COUNT(*) AS n FROM tasks WHERE parent_task_id = ?',
    taskId,
  );
  return { task, root: await find(task.root_task_id), run, subtasks: Number(children?.n ?? 0) };
}
