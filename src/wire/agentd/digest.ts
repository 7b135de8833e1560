// The digest: what was done since a time, what it cost, what waits for the person who asks, and
// what went wrong. It is made by rule from records that the person may read anyway.
import * as z from 'zod';
import { Risk } from '../approvald.ts';
import { EVENT_KINDS } from '../events.ts';
import { AgentName, ApprovalId, Principal, TaskId, Timestamp, WaitId } from '../primitives.ts';
import { route, routes } from '../route.ts';
import { TaskStatus } from './tasks.ts';

/** A root task that ended. */
export const DigestTask = z.object({
  id: TaskId,
  /** Its beginning. */
  goal: z.string(),
  agent: AgentName.nullable(),
  status: TaskStatus,
  created_by: Principal,
  /** Why it did not complete. */
  reason: z.string().nullable(),
  /** The newest retry of it. */
  retried_as: TaskId.nullable(),
  /** The cost of its whole tree; null when none of its tasks has finished by itself. */
  cost_microusd: z.int().nullable(),
  rehearsal: z.boolean(),
  created_at: Timestamp,
  ended_at: Timestamp,
});
export type DigestTask = z.infer<typeof DigestTask>;

const taskList = z.object({
  count: z.int(),
  /** Counted up to DIGEST_COUNT_MAX. */
  more: z.boolean(),
  /** Newest first. */
  tasks: z.array(DigestTask),
});

export const DIGEST_COUNT_MAX = 10_000;

/** Events of the log that say the same, as one. */
export const DigestIncident = z.object({
  event: z.enum(EVENT_KINDS),
  text: z.string(),
  count: z.int(),
  /** It happened at least so often. */
  more: z.boolean(),
  last_at: Timestamp,
  /** The number of its last event in the log. */
  last_seq: z.int(),
});
export type DigestIncident = z.infer<typeof DigestIncident>;

export const DIGEST_PARTS = ['cost', 'approvals', 'incidents'] as const;

export const DigestView = z.object({
  since: Timestamp,
  until: Timestamp,
  completed: taskList,
  failed: taskList,
  canceled: z.int(),
  cost: z.object({
    calls: z.int(),
    input_tokens: z.int(),
    output_tokens: z.int(),
    cost_microusd: z.int(),
    /** True when a model has no known price, so that the cost is a high guess. */
    is_guess: z.boolean(),
    /** The most expensive first; null: calls of people and programs. */
    agents: z.array(
      z.object({ agent: z.string().nullable(), calls: z.int(), cost_microusd: z.int() }),
    ),
  }),
  waiting: z.object({
    questions: z.array(
      z.object({
        id: WaitId,
        task_id: TaskId,
        agent: AgentName.nullable(),
        question: z.string(),
        expires_at: Timestamp.nullable(),
      }),
    ),
    approvals: z.array(
      z.object({
        id: ApprovalId,
        agent: AgentName,
        task_id: TaskId.nullable(),
        risk: Risk,
        summary: z.string(),
        expires_at: Timestamp,
      }),
    ),
    /** Ended tasks in a layer that nobody has applied or discarded. There may be no changes. */
    unapplied: z.array(DigestTask),
    /** More of some of them wait. */
    more: z.boolean(),
  }),
  incidents: z.array(DigestIncident),
  /** The columns of the board, as they are now. */
  board: z.object({
    blocked: z.int(),
    ready: z.int(),
    working: z.int(),
    waiting: z.int(),
  }),
  /** The parts that could not be read, so that they are empty above. */
  missing: z.array(z.object({ part: z.enum(DIGEST_PARTS), message: z.string() })),
  /** All of it as lines of up to 80 characters, as it is mailed. */
  text: z.string(),
});
export type DigestView = z.infer<typeof DigestView>;

export const digestRoutes = routes({
  getDigest: route({
    method: 'GET',
    path: '/v1/digest',
    callers: ['operator'],
    query: z.strictObject({
      /** By default the last 24 hours. */
      since: Timestamp.optional(),
      /** The length of each list. */
      limit: z.coerce.number().int().min(1).max(200).default(20),
    }),
    output: z.object({ digest: DigestView }),
  }),
  /** To the caller's own mailbox. */
  mailDigest: route({
    method: 'POST',
    role: 'reader',
    path: '/v1/digest/mail',
    callers: ['operator'],
    creates: true,
    body: z.strictObject({ since: Timestamp.optional() }),
    output: z.object({ mail: z.object({ id: z.string(), to: z.string() }) }),
  }),
});
