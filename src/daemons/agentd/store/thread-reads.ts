// Reads threads: whose move is next, what they have cost, and what was asked and done in them.
import { readIdTime } from '../../../platform/ids.ts';
import type { Database } from '../../../platform/sql/database.ts';
import type { ThreadView } from '../../../wire/agentd.ts';
import type { Label } from '../../../wire/primitives.ts';
import type { MailWord } from '../threads/mail-rules.ts';
import { COMPARED_CHARS } from '../threads/similar-text.ts';
import { findNextMove } from './next-move.ts';
import type { TaskRow } from './rows.ts';
import { findThread, readStart } from './threads.ts';
import { missingFault } from './tombstones.ts';

export type ThreadReads = {
  thread(contextId: string): Promise<Omit<ThreadView, 'turns_max'>>;
  /** The beginnings of goals and results, oldest first. */
  earlierTasks(contextId: string): Promise<EarlierTask[]>;
  /** The messages and goals of a principal there since a time. */
  wordsOf(contextId: string, from: string, sinceMs: number): Promise<MailWord[]>;
  /** The cost of tasks that were open since a person last wrote; ids of those without a record. */
  threadCost(contextId: string): Promise<{
    recordedMicrousd: number;
    unrecorded: string[];
    sinceMs: number;
  }>;
};

/** A root task of the thread that has ended; `labels` are those of its result. */
export type EarlierTask = Pick<
  TaskRow,
  'id' | 'goal' | 'created_by' | 'assigned_to' | 'status' | 'result'
> & { labels: Label[] };

const EARLIER_TASKS_MAX = 50;
const EARLIER_CHARS = 400;
const WORDS_MAX = 500;

/** Beyond it the oldest do not count. */
const COSTED_TASKS_MAX = 200;

export function makeThreadReads(db: Pick<Database, 'read'>): ThreadReads {
  return {
    thread: (contextId) =>
      db.read(async (sql) => {
        const next = await findNextMove(sql, contextId);
        if (next === undefined)
          throw await missingFault(sql, {
            name: 'thread',
            id: contextId,
            hint: 'See the thread of a task: agentctl task show ID.',
          });
        const row = await findThread({ sql }, contextId);
        return {
          context_id: contextId as ThreadView['context_id'],
          turns: Number(row?.turns ?? 0),
          stopped_by: (row?.stopped_by ?? null) as ThreadView['stopped_by'],
          next_move: next,
        };
      }),
    earlierTasks: (contextId) =>
      db.read(async (sql) => {
        const rows = await sql.all<Omit<EarlierTask, 'labels'> & { labels: string }>(
          `SELECT id, substr(goal, 1, ${EARLIER_CHARS}) AS goal, created_by, assigned_to, status,
             substr(result, 1, ${EARLIER_CHARS}) AS result, labels
           FROM tasks WHERE context_id = ? AND depth = 0 AND ended_ms IS NOT NULL
           ORDER BY id DESC LIMIT ${EARLIER_TASKS_MAX}`,
          contextId,
        );
        return rows.map((row) => ({ ...row, labels: JSON.parse(row.labels) as Label[] })).reverse();
      }),
    wordsOf: (contextId, from, sinceMs) =>
      db.read(async (sql) => {
        const tasks = await sql.all<{ text: string; at_ms: number }>(
          `SELECT substr(goal, 1, ${COMPARED_CHARS}) AS text, created_ms AS at_ms FROM tasks
           WHERE context_id = ? AND depth = 0 AND created_by = ? AND created_ms >= ?
           ORDER BY id DESC LIMIT ${WORDS_MAX}`,
          contextId,
          from,
          sinceMs,
        );
        const messages = await sql.all<{ text: string; at_ms: number }>(
          `SELECT substr(parts, 1, ${COMPARED_CHARS}) AS text, sent_ms AS at_ms FROM messages
           WHERE context_id = ? AND from_principal = ? AND sent_ms >= ?
           ORDER BY id DESC LIMIT ${WORDS_MAX}`,
          contextId,
          from,
          sinceMs,
        );
        return [
          ...tasks.map(({ text, at_ms }) => ({ text, atMs: Number(at_ms) })),
          ...messages.map(({ text, at_ms }) => ({ text: readStart(text), atMs: Number(at_ms) })),
        ];
      }),
    threadCost: (contextId) =>
      db.read(async (sql) => {
        const since = (await findThread({ sql }, contextId))?.since_id ?? '';
        const sinceMs = since === '' ? 0 : readIdTime(since);
        const rows = await sql.all<{ id: string; cost: number | null; created_ms: number }>(
          `SELECT id, cost_microusd AS cost, created_ms FROM tasks
           WHERE context_id = ? AND (ended_ms IS NULL OR ended_ms >= ?)
           ORDER BY id DESC LIMIT ${COSTED_TASKS_MAX}`,
          contextId,
          sinceMs,
        );
        const isRecorded = (row: (typeof rows)[number]): boolean =>
          row.cost !== null && Number(row.created_ms) >= sinceMs;
        const recorded = rows.filter(isRecorded);
        return {
          recordedMicrousd: recorded.reduce((sum, { cost }) => sum + Number(cost), 0),
          unrecorded: rows.filter((row) => !isRecorded(row)).map(({ id }) => id),
          sinceMs,
        };
      }),
  };
}
