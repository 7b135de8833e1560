// memoryd's contract: writing, recalling, correcting and deleting memories, by people and by runs.
// Runs reach it through toold only.
import * as z from 'zod';
import {
  MEMORY_BATCH_MAX,
  MEMORY_BODY_BYTES_MAX,
  MemoryId,
  MemoryScope,
  MemoryView,
  NewMemory,
  RecalledMemory,
} from './memoryd/records.ts';
import { AgentName, CallId, Label, RunId, TaskId, Timestamp } from './primitives.ts';
import { route, routes } from './route.ts';

export const RECALL_LIMIT_MAX = 100;

const memoryParams = z.strictObject({ id: MemoryId });
const memoryResponse = z.object({ memory: MemoryView });

/** One memory, or several that are remembered together or not at all. */
const Remember = z.union([
  NewMemory,
  z.strictObject({ memories: z.array(NewMemory).min(1).max(MEMORY_BATCH_MAX) }),
]);

const recallFields = {
  scope: MemoryScope.optional(),
  /** Without scopes, everything that the caller may read. A scope includes those below it. */
  scopes: z.array(MemoryScope).min(1).max(64).optional(),
  query: z.string().min(1).max(8_192),
  limit: z.int().min(1).max(RECALL_LIMIT_MAX).default(10),
  /** Recalls what was known and valid at this time. */
  as_of: Timestamp.optional(),
  /** About as many tokens as all texts together may have. */
  max_tokens: z.int().min(1).max(1_000_000).optional(),
};
const recalled = z.object({ memories: z.array(RecalledMemory) });

/** The run that toold calls for. */
export const MemoryRun = z.strictObject({
  run_id: RunId,
  call_id: CallId,
  agent: AgentName,
  task_id: TaskId,
  root_task_id: TaskId,
  /** The marks of the run as they are now. */
  labels: z.array(Label).max(16),
});
export type MemoryRun = z.infer<typeof MemoryRun>;

export const memorydRoutes = routes({
  // people
  remember: route({
    method: 'POST',
    path: '/v1/memory/remember',
    callers: ['operator'],
    creates: true,
    body: Remember,
    output: z.object({
      /** The first of them, for a request of one. */
      memory: MemoryView,
      memories: z.array(MemoryView),
    }),
    bodySizeBytesMax: MEMORY_BODY_BYTES_MAX,
  }),
  recall: route({
    method: 'POST',
    path: '/v1/memory/recall',
    callers: ['operator'],
    body: z.strictObject({
      ...recallFields,
      /** Recalls from the scopes that this agent may read, as far as the caller may read them. */
      agent: AgentName.optional(),
      explain: z.boolean().optional(),
    }),
    output: recalled,
  }),
  /** Makes everything but the journal and the objects again. */
  rebuildMemory: route({
    method: 'POST',
    path: '/v1/memory/rebuild',
    callers: ['operator'],
    output: z.object({
      /** The operations that the journal has. */
      applied: z.int(),
      /** Damaged lines of the journal: their operations are lost. */
      problems: z.array(z.object({ day: z.string(), line: z.int() })),
    }),
    streams: true,
  }),
  getMemory: route({
    method: 'GET',
    path: '/v1/memory/{id}',
    callers: ['operator'],
    params: memoryParams,
    query: z.strictObject({ version: z.coerce.number().int().positive().optional() }),
    output: memoryResponse,
  }),
});
