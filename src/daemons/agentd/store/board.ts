// Reads the board, and what is known of agents when one of them is chosen for a task.
import { toTimestamp } from '../../../platform/clock.ts';
import type { Database, Sql } from '../../../platform/sql/database.ts';
import {
  BOARD_COUNT_MAX,
  type BoardTask,
  type BoardView,
  type TaskMatch,
} from '../../../wire/agentd.ts';
import { findMatch } from './matches.ts';
import { type TaskRow, time } from './rows.ts';

/** The work that an agent has done so far. */
export type AgentRecord = {
  goals: string[];
  costsMicrousd: number[];
  counts: Record<string, number>;
};

export type BoardReads = {
  board(page: { limit: number; sinceMs: number }): Promise<BoardView>;
  match(taskId: string): Promise<TaskMatch | undefined>;
  agentRecord(agent: string): Promise<AgentRecord>;
};

const GOALS_MAX = 50;
const GOAL_CHARS = 240;

type CardRow = Pick<
  TaskRow,
  | 'id'
  | 'goal'
  | 'assigned_to'
  | 'status'
  | 'reason'
  | 'priority'
  | 'attempt'
  | 'created_ms'
  | 'ended_ms'
>;
const CARD = `id, substr(goal, 1, ${GOAL_CHARS}) AS goal, assigned_to, status, reason, priority,
  attempt, created_ms, ended_ms`;

/** Waiting ones wait for a person, a reply or a time; submitted ones for a person. */
const OPEN_COLUMNS = {
  blocked: ['blocked'],
  ready: ['ready'],
  working: ['working'],
  waiting: ['submitted', 'waiting'],
} as const;

export function makeBoardReads(db: Database): BoardReads {
  return {
    board: ({ limit, sinceMs }) =>
      db.read(async (sql) => {
        const columns: BoardView['columns'] = [];
        for (const [name, statuses] of Object.entries(OPEN_COLUMNS)) {
          const parts = await Promise.all(
            statuses.map((status) => readOpenColumn(sql, status, limit)),
          );
          const tasks = parts.flatMap(({ rows }) => rows.map(toBoardTask)).slice(0, limit);
          const count = parts.reduce((sum, part) => sum + part.count, 0);
          const more = count > tasks.length;
          columns.push({ name: name as keyof typeof OPEN_COLUMNS, count, more, tasks });
        }
        columns.push({ name: 'ended', ...(await readEnded(sql, { limit, sinceMs })) });
        return { columns, since: toTimestamp(sinceMs) as BoardView['since'] };
      }),
    match: (taskId) => db.read((sql) => findMatch(sql, taskId)),
    agentRecord: (agent) =>
      db.read(async (sql) => {
        const rows = await sql.all<{ goal: string; cost_microusd: number | null; again: number }>(
          `SELECT substr(t.goal, 1, 1000) AS goal, t.cost_microusd,
             (SELECT COUNT(*) FROM tasks r WHERE r.retry_of = t.id) AS again
           FROM tasks t WHERE t.assigned_to = ? AND t.status = 'completed'
           ORDER BY t.id DESC LIMIT ?`,
          agent,
          GOALS_MAX,
        );
        const accepted = rows.filter(({ again }) => Number(again) === 0);
        const counts = await sql.all<{ status: string; n: number }>(
          'SELECT status, n FROM task_counts WHERE agent = ?',
          agent,
        );
        return {
          goals: accepted.map(({ goal }) => goal),
          costsMicrousd: accepted.flatMap(({ cost_microusd: cost }) =>
            cost === null ? [] : [Number(cost)],
          ),
          counts: Object.fromEntries(counts.map(({ status, n }) => [status, Number(n)])),
        };
      }),
  };
}

async function readOpenColumn(sql: Sql, status: string, limit: number) {
  const rows = await sql.all<CardRow>(
    `SELECT ${CARD} FROM tasks
     WHERE depth = 0 AND ended_ms IS NULL AND status = ?
     ORDER BY priority DESC, id LIMIT ?`,
    status,
    limit,
  );
  const counted = await sql.one<{ n: number }>(
    `SELECT COUNT(*) AS n FROM (SELECT id FROM tasks
     WHERE depth = 0 AND ended_ms IS NULL AND status = ? LIMIT ?) AS found`,
    status,
    BOARD_COUNT_MAX,
  );
  return { rows, count: Number(counted?.n ?? 0) };
}

/** Ended ones are not counted: there may be any number of them. */
async function readEnded(sql: Sql, { limit, sinceMs }: { limit: number; sinceMs: number }) {
  const rows = await sql.all<CardRow>(
    `SELECT ${CARD} FROM tasks
     WHERE depth = 0 AND ended_ms IS NOT NULL AND ended_ms >= ?
     ORDER BY ended_ms DESC, id DESC LIMIT ?`,
    sinceMs,
    limit + 1,
  );
  const tasks = rows.slice(0, limit).map(toBoardTask);
  return { tasks, count: tasks.length, more: rows.length > limit };
}

const toBoardTask = ({ created_ms, ended_ms, ...row }: CardRow): BoardTask =>
  ({
    ...row,
    attempt: row.attempt ?? 1,
    created_at: time(created_ms),
    ended_at: time(ended_ms),
  }) as BoardTask;
