// toold's contract: tools, calls, and what agentd tells it of a run.
import * as z from 'zod';
import { admissionRoutes, admitted } from './admission.ts';
import { CallId, FileProblem, pageQuery, RunId, TaskId, Timestamp, WaitId } from './primitives.ts';
import { route, routes } from './route.ts';

export const CALL_STATUSES = [
  'requested',
  'allowed',
  'waiting',
  'denied',
  'running',
  'completed',
  'failed',
  'canceled',
  'unknown',
] as const;
export const CallStatus = z.enum(CALL_STATUSES);
export type CallStatus = z.infer<typeof CallStatus>;

export const WaitKind = z.enum([
  'approval',
  'question',
  'child',
  'message',
  'timer',
  'input',
  'auth',
]);
export type WaitKind = z.infer<typeof WaitKind>;

export const ToolView = z.object({
  name: z.string(),
  description: z.string(),
  input_schema: z.record(z.string(), z.unknown()),
  output_schema: z.record(z.string(), z.unknown()),
  risk: z.enum(['low', 'medium', 'high']),
  reversibility: z.enum(['read-only', 'reversible', 'externally-reversible', 'irreversible']),
  idempotent: z.boolean(),
  level: z.enum(['L0', 'L1', 'L2', 'L3', 'L4']),
  /** The capability words that grant it. */
  capabilities: z.array(z.string()),
  /** Nobody can use it until a person lets it go on; since when, who said so, and why. */
  suspended: z.object({ since: Timestamp, by: z.string(), reason: z.string() }).optional(),
  /**
   * Root tasks that cannot use it, nor their subtasks, until then. At most two: the second suspends
   * it for everybody.
   */
  suspended_in: z
    .array(z.object({ task_id: TaskId, since: Timestamp, reason: z.string() }))
    .optional(),
});
export type ToolView = z.infer<typeof ToolView>;

export const CallRequest = z.strictObject({
  call_id: CallId,
  tool: z.string().min(1).max(64),
  arguments: z.record(z.string(), z.unknown()),
  purpose: z.string().max(1_000).optional(),
  /**
   * The other calls of the same step, so that a person who is asked about one sees what it is part
   * of. Arguments that are long may be left out.
   */
  beside: z
    .array(
      z.strictObject({
        call_id: CallId,
        tool: z.string().min(1).max(64),
        arguments: z.record(z.string(), z.unknown()).optional(),
      }),
    )
    .max(128)
    .optional(),
  /** Said for the record; must be the run's own when present. */
  task_id: TaskId.optional(),
  agent: z.string().max(64).optional(),
});
export type CallRequest = z.infer<typeof CallRequest>;

export const CallAnswer = z.object({
  call_id: CallId,
  status: CallStatus,
  /** With completed. */
  result: z.record(z.string(), z.unknown()).optional(),
  /** With failed, denied, canceled: written for the model to read. */
  error: z
    .object({ code: z.string(), message: z.string(), hint: z.string(), retry: z.boolean() })
    .optional(),
  /**
   * With waiting: what the run waits for. Park, exit, and ask again with the same call_id when
   * woken.
   */
  wait: z.object({ id: WaitId, kind: WaitKind }).optional(),
  recorded: z.boolean(),
});
export type CallAnswer = z.infer<typeof CallAnswer>;

export const ToolCallView = z.object({
  call_id: CallId,
  run_id: RunId,
  fence: z.int(),
  task_id: TaskId,
  agent: z.string(),
  tool: z.string(),
  purpose: z.string(),
  arguments: z.record(z.string(), z.unknown()),
  arguments_hash: z.string(),
  status: CallStatus,
  result: z.record(z.string(), z.unknown()).nullable(),
  error: z.record(z.string(), z.unknown()).nullable(),
  wait_id: WaitId.nullable(),
  attempts: z.int(),
  created_at: Timestamp,
  ended_at: Timestamp.nullable(),
});
export type ToolCallView = z.infer<typeof ToolCallView>;

/**
 * What agentd tells toold of a run when it starts an activation. The grant is held here, not in the
 * box.
 */
export const AdmitToolRunBody = z.strictObject({
  ...admitted,
  /** Names of the tools this run may call: manifest ∩ delegations. */
  tools: z.array(z.string().max(64)).max(512),
  /** The grant ends here; null when only the task's own end ends it. */
  grant_expires_at: Timestamp.nullable(),
  /** A directory of this host that the task works in; null: one of its tree's own. */
  workspace: z.string().max(4_095).nullable(),
  max_calls: z.int().positive(),
});
export type AdmitToolRunBody = z.infer<typeof AdmitToolRunBody>;

const toolInPath = z.strictObject({ name: z.string().min(1).max(64) });

export const tooldRoutes = routes({
  listTools: route({
    method: 'GET',
    path: '/v1/tools',
    callers: ['run', 'operator', 'agentd'],
    output: z.object({
      tools: z.array(ToolView),
      /** Declarations that are wrong, and so not among the tools; told to people only. */
      problems: z.array(FileProblem).optional(),
    }),
  }),
  call: route({
    method: 'POST',
    path: '/v1/tools/call',
    callers: ['run'],
    body: CallRequest,
    output: CallAnswer,
    bodySizeBytesMax: 4_000_000,
  }),
  getCall: route({
    method: 'GET',
    path: '/v1/tools/calls/{id}',
    callers: ['run', 'operator', 'agentd'],
    params: z.strictObject({ id: CallId }),
    output: z.object({ call: ToolCallView }),
  }),
  listCalls: route({
    method: 'GET',
    path: '/v1/tools/calls',
    callers: ['operator', 'agentd'],
    query: z.strictObject({
      ...pageQuery(100),
      run_id: RunId.optional(),
      task_id: TaskId.optional(),
      tool: z.string().max(64).optional(),
    }),
    output: z.object({ calls: z.array(ToolCallView), cursor: z.string().nullable() }),
  }),
  /** Whether a tool would take these, for whoever changes what they approve. Nothing is done. */
  checkArguments: route({
    method: 'POST',
    path: '/v1/tools/{name}/check',
    callers: ['operator'],
    params: toolInPath,
    body: z.strictObject({ arguments: z.record(z.string(), z.unknown()) }),
    output: z.object({ problem: z.string().nullable() }),
    bodySizeBytesMax: 4_000_000,
  }),
  /** For everybody, until somebody resumes it. Declared tools are suspended by themselves, too. */
  suspendTool: route({
    method: 'POST',
    path: '/v1/tools/{name}/suspend',
    callers: ['operator'],
    params: toolInPath,
    body: z.strictObject({ reason: z.string().min(1).max(1_000) }),
    output: z.object({ tool: ToolView }),
  }),
  /** For everybody, and in each task that it is suspended in. */
  resumeTool: route({
    method: 'POST',
    path: '/v1/tools/{name}/resume',
    callers: ['operator'],
    params: toolInPath,
    output: z.object({ tool: ToolView }),
  }),
  ...admissionRoutes(AdmitToolRunBody),
});
