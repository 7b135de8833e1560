// toold's contract: tools, tool calls, and the admission of runs.
import * as z from 'zod';
import { admissionFields, admissionRoutes } from './admission.ts';
import { eraseCopiesRoute } from './copies.ts';
import {
  AgentName,
  BoxId,
  CallId,
  FileProblem,
  Label,
  MARKS,
  pageQuery,
  RunId,
  TaskId,
  Timestamp,
  WaitId,
} from './primitives.ts';
import { expireRoute, pruneRoute } from './prune.ts';
import { route, routes } from './route.ts';
import { WorkspaceMode } from './sandboxd/layers.ts';
import { AttachToken, HomeId, ProgramCommand } from './sandboxd/programs.ts';

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
  'mail',
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
  /** The capabilities that grant it. */
  capabilities: z.array(z.string()),
  /** Set while it is suspended for all tasks, until a person resumes it. */
  suspended: z.object({ since: Timestamp, by: z.string(), reason: z.string() }).optional(),
  /**
   * Root tasks that cannot use it, nor their subtasks, until a person resumes it. Up to two: the
   * second suspends it for all tasks.
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
   * The other calls of the same step, so that a person who decides on one sees its context. Long
   * arguments may be omitted.
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
  /** Optional claims; they must match the run's own identity. */
  task_id: TaskId.optional(),
  agent: z.string().max(64).optional(),
});
export type CallRequest = z.infer<typeof CallRequest>;

export const CallAnswer = z.object({
  call_id: CallId,
  status: CallStatus,
  /** With completed. */
  result: z.record(z.string(), z.unknown()).optional(),
  /** With failed, denied or canceled. The model reads it. */
  error: z
    .object({ code: z.string(), message: z.string(), hint: z.string(), retry: z.boolean() })
    .optional(),
  /** With waiting: park the run, exit, and repeat the call with the same call_id when resumed. */
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

/** Sent by agentd when it starts an activation. toold keeps the grant; the run does not. */
export const AdmitToolRunBody = z.strictObject({
  ...admissionFields,
  /** Names of the tools this run may call: manifest ∩ delegations. */
  tools: z.array(z.string().max(64)).max(512),
  /** When the grant expires; null when it lasts as long as the task. */
  grant_expires_at: Timestamp.nullable(),
  /** The host directory that the task works in; null when its tree has its own. */
  workspace: z.string().max(4_095).nullable(),
  /** Null without such a directory, and for tasks of earlier releases, which are live. */
  workspace_mode: WorkspaceMode.nullable().default(null),
  /** The subtasks, outermost first, whose layers of their own are below what it works on. */
  layer_task_ids: z.array(TaskId).max(64).optional(),
  max_calls: z.int().positive(),
  /** The agent's main persona, for the author of its commits. */
  persona: z.string().min(1).max(64).optional(),
  /** Hosts that a person opened for a program, whatever it reads. */
  hosts: z
    .array(z.strictObject({ host: z.string().max(260), port: z.int().min(1).max(65_535) }))
    .max(128)
    .optional(),
  /** The home of a program, which is a place with marks. */
  home: HomeId.optional(),
  /**
   * Set when its task tree was restored from a backup while open: it may have acted afterwards, so
   * that calls could repeat what happened. `changed`: its files are newer than the record.
   */
  restored: z
    .strictObject({ backup: z.string().max(64), taken_at: Timestamp, changed: z.boolean() })
    .nullable()
    .default(null),
});
export type AdmitToolRunBody = z.infer<typeof AdmitToolRunBody>;

const Answer = z.enum(['allow', 'ask', 'deny']);

export const CallDecisionView = z.object({
  answer: Answer,
  /** False when the arguments are unknown: what the call would touch is not decided. */
  is_whole: z.boolean(),
  policy_version: z.int(),
  /** One for the tool, one for each thing it would touch, and what toold itself requires. */
  parts: z.array(
    z.object({
      action: z.string(),
      resource: z.string(),
      answer: Answer,
      /** None: no rule permits it. */
      rules: z.array(z.string()),
      reason: z.string(),
    }),
  ),
});
export type CallDecisionView = z.infer<typeof CallDecisionView>;

const toolParam = z.strictObject({ name: z.string().min(1).max(64) });

export const tooldRoutes = routes({
  listTools: route({
    method: 'GET',
    path: '/v1/tools',
    callers: ['run', 'operator', 'agentd'],
    output: z.object({
      tools: z.array(ToolView),
      /** Invalid declarations, whose tools are missing here; only for operators. */
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
  /** Checks arguments that a person edited before approving. The tool is not called. */
  checkArguments: route({
    method: 'POST',
    path: '/v1/tools/{name}/check',
    callers: ['operator'],
    params: toolParam,
    body: z.strictObject({ arguments: z.record(z.string(), z.unknown()) }),
    output: z.object({ problem: z.string().nullable() }),
    bodySizeBytesMax: 4_000_000,
  }),
  /** Decides a call that nobody makes. Hosts that a person would grant to a run are not counted. */
  decideCall: route({
    method: 'POST',
    path: '/v1/tools/{name}/decide',
    callers: ['operator'],
    params: toolParam,
    body: z.strictObject({
      agent: AgentName,
      /** Absent: only the tool itself is decided, if it needs arguments. */
      arguments: z.record(z.string(), z.unknown()).optional(),
      /** Marks that the run would have. */
      labels: z.array(z.enum(MARKS)).max(MARKS.length).optional(),
    }),
    output: z.object({ decision: CallDecisionView }),
    bodySizeBytesMax: 4_000_000,
  }),
  /**
   * Suspends a tool for all tasks until a person resumes it. toold also suspends declared tools.
   */
  suspendTool: route({
    method: 'POST',
    path: '/v1/tools/{name}/suspend',
    callers: ['operator'],
    params: toolParam,
    body: z.strictObject({ reason: z.string().min(1).max(1_000) }),
    output: z.object({ tool: ToolView }),
  }),
  /** Resumes a tool for all tasks. */
  resumeTool: route({
    method: 'POST',
    path: '/v1/tools/{name}/resume',
    callers: ['operator'],
    params: toolParam,
    output: z.object({ tool: ToolView }),
  }),
  /**
   * Marks a directory, or the layer of a task, before the changes of a layer are written into it:
   * with these marks and with those of that layer. Returns all of them.
   */
  markPlace: route({
    method: 'POST',
    path: '/v1/tools/places/mark',
    callers: ['agentd'],
    body: z.strictObject({
      root_task_id: TaskId,
      /** The task whose layer the changes are in. */
      layer_task_id: TaskId,
      /** A directory, or a task that has a layer. */
      target: z.union([TaskId, z.string().regex(/^\//, 'must be an absolute path').max(4_095)]),
      labels: z.array(Label).max(16),
    }),
    output: z.object({ labels: z.array(Label) }),
  }),
  /** Opens the box of a run whose process is a person's program, and prepares the program there. */
  openProgram: route({
    method: 'PUT',
    path: '/v1/runs/{id}/program',
    callers: ['agentd'],
    params: z.strictObject({ id: RunId }),
    body: z.strictObject({ fence: z.int().positive(), command: ProgramCommand }),
    output: z.object({ box_id: BoxId, epoch: z.string(), token: AttachToken }),
    bodySizeBytesMax: 8_000_000,
  }),
  prune: pruneRoute('/v1/tools/prune'),
  expireTombstones: expireRoute('/v1/tools/tombstones/expire'),
  eraseCopies: eraseCopiesRoute('/v1/tools/copies/erase'),
  ...admissionRoutes(AdmitToolRunBody),
});
