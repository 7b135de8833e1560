// The board: tasks of people by status, and why an agent got one of them.
import * as z from 'zod';
import { AgentName, TaskId, Timestamp } from '../primitives.ts';
import { route, routes } from '../route.ts';
import { TaskStatus, TaskView, UpdateTask } from './tasks.ts';

/** `unassigned`: none matches clearly, so a person is asked. */
export const MatchReason = z.enum([
  'named',
  'only',
  'score',
  'tie',
  'person',
  'next',
  'unassigned',
]);

/** How an agent was chosen, or the question for it, as it was at that time. */
export const TaskMatch = z.object({
  needs: z.array(z.string()),
  agent: AgentName.nullable(),
  reason: MatchReason,
  /** Those that may do it, best first. */
  candidates: z.array(
    z.object({
      agent: AgentName,
      score: z.number(),
      /** The words that count most, with what they add to the score. */
      words: z.array(z.object({ word: z.string(), score: z.number() })),
      /** Tasks that wait or work, for each run it may have at once. */
      load: z.number(),
      accepted: z.int(),
      failed: z.int(),
      median_cost_microusd: z.int().nullable(),
    }),
  ),
  /** Those that lack what it needs. */
  excluded: z.array(z.object({ agent: AgentName, lacks: z.array(z.string()) })),
  /** Agents that tried it before and failed. */
  tried: z.array(AgentName),
  decided_at: Timestamp,
});
export type TaskMatch = z.infer<typeof TaskMatch>;

export const BOARD_COLUMNS = ['blocked', 'ready', 'working', 'waiting', 'ended'] as const;

export const BoardTask = z.object({
  id: TaskId,
  /** Its beginning. */
  goal: z.string(),
  assigned_to: AgentName.nullable(),
  status: TaskStatus,
  reason: z.string().nullable(),
  priority: z.int(),
  attempt: z.int(),
  created_at: Timestamp,
  ended_at: Timestamp.nullable(),
});
export type BoardTask = z.infer<typeof BoardTask>;

export const BoardView = z.object({
  columns: z.array(
    z.object({
      name: z.enum(BOARD_COLUMNS),
      /** Open ones up to BOARD_COUNT_MAX; of ended ones, those that are listed. */
      count: z.int(),
      more: z.boolean(),
      tasks: z.array(BoardTask),
    }),
  ),
  /** Since when ended tasks are shown. */
  since: Timestamp,
});
export type BoardView = z.infer<typeof BoardView>;

export const BOARD_COUNT_MAX = 10_000;

const params = z.strictObject({ id: TaskId });

export const boardRoutes = routes({
  /** Root tasks without programs: the next to start first, ended ones newest first. */
  getBoard: route({
    method: 'GET',
    path: '/v1/board',
    callers: ['operator'],
    query: z.strictObject({
      /** Tasks per column. */
      limit: z.coerce.number().int().min(1).max(200).default(20),
      /** Ended tasks of the last hours. */
      hours: z.coerce.number().int().min(1).max(8_760).default(24),
    }),
    output: z.object({ board: BoardView }),
  }),
  getTaskMatch: route({
    method: 'GET',
    path: '/v1/tasks/{id}/match',
    callers: ['operator'],
    params,
    /** Null: the task was created with an agent, or for the default one. */
    output: z.object({ task: TaskView, match: TaskMatch.nullable() }),
  }),
  updateTask: route({
    method: 'POST',
    path: '/v1/tasks/{id}/update',
    callers: ['operator'],
    params,
    body: UpdateTask,
    output: z.object({ task: TaskView }),
  }),
});
