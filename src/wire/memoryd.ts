// memoryd's contract: writing, recalling, correcting and deleting memories, by people and by runs.
// Runs reach it through toold only.
import * as z from 'zod';
import { routesForAgentd } from './memoryd/for-agentd.ts';
import { routesForApprovald } from './memoryd/proposals.ts';
import {
  MEMORY_BATCH_MAX,
  MEMORY_BODY_BYTES_MAX,
  MEMORY_TEXT_CHARS_MAX,
  MemoryClass,
  MemoryId,
  MemoryScope,
  MemorySnapshot,
  MemorySnapshotId,
  MemoryStatus,
  MemoryVersion,
  MemoryView,
  NewMemory,
  RecalledMemory,
} from './memoryd/records.ts';
import { retentionRoutesOfMemory } from './memoryd/retention.ts';
import { AgentName, CallId, Label, pageQuery, RunId, TaskId, Timestamp } from './primitives.ts';
import { route, routes } from './route.ts';

export const RECALL_LIMIT_MAX = 100;

const memoryParams = z.strictObject({ id: MemoryId });
const memoryResponse = z.object({ memory: MemoryView });

const memoriesResponse = z.object({ memories: z.array(MemoryView) });
const rememberResponse = z.object({
  /** The first of them, for a request of one. */
  memory: MemoryView,
  memories: z.array(MemoryView),
});
const ids = z.array(MemoryId).min(1).max(MEMORY_BATCH_MAX);
const Which = z.strictObject({ ids });

const DECIDED_MAX = 100;

/** Each is decided on its own: one that cannot be does not keep the others. */
const decideMany = (path: string) =>
  route({
    method: 'POST',
    role: 'approver',
    path,
    callers: ['operator'],
    body: z.strictObject({ ids: z.array(MemoryId).min(1).max(DECIDED_MAX) }),
    output: z.object({
      decided: z.array(
        z.object({
          id: MemoryId,
          memory: MemoryView.nullable(),
          error: z.object({ code: z.string(), message: z.string(), hint: z.string() }).nullable(),
        }),
      ),
    }),
    streams: true,
  });

const EditMemory = NewMemory.omit({
  class: true,
  scope: true,
  expires_at: true,
  supersedes: true,
})
  .partial()
  .extend({
    /** Fails if it is not the newest. */
    version: z.int().positive().optional(),
    /** The person answers for the text as it is then: its marks are dropped. */
    vouch: z.boolean().optional(),
  });

const Combine = z.strictObject({
  ids,
  text: z.string().min(1).max(MEMORY_TEXT_CHARS_MAX),
  /** By default those of all memories, if they have the same. */
  class: MemoryClass.optional(),
  scope: MemoryScope.optional(),
});

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
const recalled = z.object({
  memories: z.array(RecalledMemory),
  /** Why it was searched by words only, where memories have vectors. */
  words_only: z.string().optional(),
  /** The rehearsal made the vectors. */
  rehearsal: z.literal(true).optional(),
});

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
  // toold, for runs
  runRecall: route({
    method: 'POST',
    path: '/v1/memory/run-calls/recall',
    callers: ['toold'],
    body: z.strictObject({ ...recallFields, run: MemoryRun }),
    output: recalled,
  }),
  /** Once per call. */
  runRemember: route({
    method: 'POST',
    path: '/v1/memory/run-calls/remember',
    callers: ['toold'],
    body: z.strictObject({
      run: MemoryRun,
      memories: z.array(NewMemory).min(1).max(MEMORY_BATCH_MAX),
      /** Only proposes. */
      propose: z.boolean(),
    }),
    output: memoriesResponse,
    bodySizeBytesMax: MEMORY_BODY_BYTES_MAX,
  }),
  runMemories: route({
    method: 'POST',
    path: '/v1/memory/run-calls/show',
    callers: ['toold'],
    body: z.strictObject({ run: MemoryRun, ids }),
    output: memoriesResponse,
  }),
  runForget: route({
    method: 'POST',
    path: '/v1/memory/run-calls/forget',
    callers: ['toold'],
    body: z.strictObject({
      run: MemoryRun,
      ids,
      /** A person has approved exactly these. */
      approved: z.boolean(),
    }),
    output: memoriesResponse,
    streams: true,
  }),
  // people
  remember: route({
    method: 'POST',
    path: '/v1/memory/remember',
    callers: ['operator'],
    creates: true,
    body: Remember,
    output: rememberResponse,
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
  /** Remembers them as proposals, which a person approves or rejects. */
  proposeMemory: route({
    method: 'POST',
    path: '/v1/memory/propose',
    callers: ['operator'],
    creates: true,
    body: Remember,
    output: rememberResponse,
    bodySizeBytesMax: MEMORY_BODY_BYTES_MAX,
  }),
  approveMemory: route({
    method: 'POST',
    role: 'approver',
    path: '/v1/memory/{id}/approve',
    callers: ['operator'],
    params: memoryParams,
    output: memoryResponse,
  }),
  rejectMemory: route({
    method: 'POST',
    role: 'approver',
    path: '/v1/memory/{id}/reject',
    callers: ['operator'],
    params: memoryParams,
    output: memoryResponse,
  }),
  approveMemories: decideMany('/v1/memory/approve'),
  rejectMemories: decideMany('/v1/memory/reject'),
  /** Adds a version. Its labels are those of the one before, unless a person vouches for it. */
  editMemory: route({
    method: 'POST',
    path: '/v1/memory/{id}/edit',
    callers: ['operator'],
    params: memoryParams,
    body: EditMemory,
    output: memoryResponse,
    bodySizeBytesMax: MEMORY_BODY_BYTES_MAX,
  }),
  /** Removes the texts for good; ids, labels and links stay. */
  forget: route({
    method: 'POST',
    path: '/v1/memory/forget',
    callers: ['operator'],
    body: Which,
    output: memoriesResponse,
    streams: true,
  }),
  expire: route({
    method: 'POST',
    path: '/v1/memory/expire',
    callers: ['operator'],
    body: Which.extend({
      /** By default now. */
      at: Timestamp.optional(),
    }),
    output: memoriesResponse,
  }),
  /** Replaces several by one; the caller brings its text. */
  merge: route({
    method: 'POST',
    path: '/v1/memory/merge',
    callers: ['operator'],
    creates: true,
    body: Combine,
    output: memoryResponse,
    bodySizeBytesMax: MEMORY_BODY_BYTES_MAX,
  }),
  /** Adds one beside those that it summarizes; the caller brings its text. */
  summarize: route({
    method: 'POST',
    path: '/v1/memory/summarize',
    callers: ['operator'],
    creates: true,
    body: Combine,
    output: memoryResponse,
    bodySizeBytesMax: MEMORY_BODY_BYTES_MAX,
  }),
  /** Names this moment of a scope and those below it. */
  takeMemorySnapshot: route({
    method: 'POST',
    path: '/v1/memory/snapshots',
    callers: ['operator'],
    creates: true,
    body: z.strictObject({ scope: MemoryScope, name: z.string().min(1).max(200).optional() }),
    output: z.object({ snapshot: MemorySnapshot }),
  }),
  listMemorySnapshots: route({
    method: 'GET',
    path: '/v1/memory/snapshots',
    callers: ['operator'],
    query: z.strictObject(pageQuery(100)),
    output: z.object({ snapshots: z.array(MemorySnapshot), cursor: z.string().nullable() }),
  }),
  /** Takes a scope back to a snapshot, or one memory back to a version of it. */
  rollBackMemory: route({
    method: 'POST',
    path: '/v1/memory/rollback',
    callers: ['operator'],
    body: z.union([
      z.strictObject({ snapshot_id: MemorySnapshotId }),
      z.strictObject({ id: MemoryId, version: z.int().positive() }),
    ]),
    output: z.object({ changed: z.int() }),
  }),
  /** Newest first. With a class or a status, a page may have fewer than `limit`. */
  listMemories: route({
    method: 'GET',
    path: '/v1/memory',
    callers: ['operator'],
    query: z.strictObject({
      ...pageQuery(100),
      scope: MemoryScope.optional(),
      class: MemoryClass.optional(),
      status: MemoryStatus.optional(),
    }),
    output: z.object({ memories: z.array(MemoryView), cursor: z.string().nullable() }),
  }),
  memoryHistory: route({
    method: 'GET',
    path: '/v1/memory/{id}/history',
    callers: ['operator'],
    params: memoryParams,
    output: z.object({ versions: z.array(MemoryVersion) }),
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
  ...routesForAgentd,
  ...retentionRoutesOfMemory,
  ...routesForApprovald,
});
