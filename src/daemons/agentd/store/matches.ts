// Stores how the agent of a task was chosen, for people who ask why, and for the next try.

import type { Sql } from '../../../platform/sql/database.ts';
import type { TaskMatch } from '../../../wire/agentd.ts';
import type { AgentdTx } from './tx.ts';

export type AgentMatch = Omit<TaskMatch, 'decided_at'>;

export async function saveMatch(tx: AgentdTx, taskId: string, match: AgentMatch): Promise<void> {
  const body: TaskMatch = {
    ...match,
    decided_at: new Date(tx.nowMs).toISOString() as TaskMatch['decided_at'],
  };
  await tx.sql.run(
    'INSERT INTO task_matches (task_id, body) VALUES (?, ?) ON CONFLICT (task_id) DO UPDATE SET body = excluded.body',
    taskId,
    JSON.stringify(body),
  );
}

export async function findMatch(sql: Sql, taskId: string): Promise<TaskMatch | undefined> {
  const row = await sql.one<{ body: string }>(
    'SELECT body FROM task_matches WHERE task_id = ?',
    taskId,
  );
  return row === undefined ? undefined : (JSON.parse(row.body) as TaskMatch);
}
