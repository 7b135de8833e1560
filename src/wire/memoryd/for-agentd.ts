// The routes that agentd calls: what a run's scopes know about its goal, and the episodes of tasks.
import * as z from 'zod';
import { eraseCopiesRoute } from '../copies.ts';
import { AgentName, Label, Principal, RunId, TaskId, Timestamp } from '../primitives.ts';
import { route } from '../route.ts';
import { MemoryClass, MemoryId, MemoryScope } from './records.ts';

/** A memory as a briefing has it. */
export const BriefedMemory = z.object({
  id: MemoryId,
  version: z.int(),
  class: MemoryClass,
  scope: z.string(),
  labels: z.array(Label),
  /** When it happened, or was recorded. */
  at: Timestamp,
  /** Null for a marked one, which is only named. */
  text: z.string().nullable(),
});
export type BriefedMemory = z.infer<typeof BriefedMemory>;

/** The memories of a briefing. `silent`: memoryd did not answer in time. */
export const BriefedMemories = z.object({
  recall: z.enum(['done', 'silent', 'off']),
  found: z.array(BriefedMemory),
});
export type BriefedMemories = z.infer<typeof BriefedMemories>;

export const RECALL_QUERY_CHARS_MAX = 8_192;
const scopes = z.array(MemoryScope).min(1).max(130);
const task = {
  agent: AgentName,
  run_id: RunId,
  task_id: TaskId,
  root_task_id: TaskId,
  /** The marks of the task as they are now. */
  labels: z.array(Label).max(16),
  /** The person who created its root task with a key of their own. */
  owner: z.string().max(64).nullable(),
  scopes,
};

export const Episode = z.strictObject({
  ...task,
  occurred_at: Timestamp,
  /** Written by the platform: what it took. */
  structure: z.string().min(1).max(4_096),
  /** Its goal and its result: written by people and models. */
  words: z.string().min(1).max(16_384),
});
export type Episode = z.infer<typeof Episode>;

export const BriefingQuery = z.strictObject({
  ...task,
  query: z.string().min(1).max(RECALL_QUERY_CHARS_MAX),
  /** About as many tokens as all texts together may have. */
  max_tokens: z.int().min(0).max(10_000),
});
export type BriefingQuery = z.infer<typeof BriefingQuery>;

/** Who gives or gets memories as inputs of a task. `owner`: a person, with a key of their own. */
const InputReader = z.strictObject({ principal: Principal, owner: z.string().max(64).nullable() });
export type InputReader = z.infer<typeof InputReader>;

/** A memory as an input of a task. */
export const InputMemory = z.object({
  id: MemoryId,
  scope: z.string(),
  labels: z.array(Label),
  text: z.string(),
});
export type InputMemory = z.infer<typeof InputMemory>;

export const routesForAgentd = {
  /** `not_found` for what the first reader may not read, `denied` for what another may not. */
  readInputMemories: route({
    method: 'POST',
    path: '/v1/memory/inputs',
    callers: ['agentd'],
    body: z.strictObject({
      ids: z.array(z.string().max(128)).min(1).max(64),
      readers: z.array(InputReader).min(1).max(2),
      /** The run that gets them; absent while the task is created. */
      run: z.strictObject({ run_id: RunId, task_id: TaskId, root_task_id: TaskId }).optional(),
      labels: z.array(Label).max(16),
    }),
    output: z.object({ memories: z.array(InputMemory) }),
    bodySizeBytesMax: 64_000,
  }),
  recallForBriefing: route({
    method: 'POST',
    path: '/v1/memory/briefings',
    callers: ['agentd'],
    body: BriefingQuery,
    output: z.object({ memories: z.array(BriefedMemory) }),
  }),
  /** Kept once per task, however often it is sent. */
  keepEpisode: route({
    method: 'POST',
    path: '/v1/memory/episodes',
    callers: ['agentd'],
    body: Episode,
    output: z.object({ ids: z.array(MemoryId) }),
  }),
  /** Forgets the episodes, and what agents remembered, that have a forgotten text. */
  eraseCopies: eraseCopiesRoute('/v1/memory/copies/erase'),
};
