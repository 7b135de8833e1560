// agentd's contract: tasks, runs, agents, waits, messages, artifacts, halt.
import { z } from 'zod';
import { route, routes } from './route.ts';
import { WaitKind } from './toold.ts';
import {
  AgentName,
  ArtifactId,
  CallId,
  ContextId,
  Label,
  MessageId,
  PageQuery,
  Principal,
  RunId,
  Sha256,
  TaskId,
  Timestamp,
  WaitId,
} from './words.ts';

export const TASK_STATUSES = [
  'submitted',
  'blocked',
  'ready',
  'working',
  'waiting',
  'completed',
  'failed',
  'canceled',
  'rejected',
] as const;
export const TaskStatus = z.enum(TASK_STATUSES);
export type TaskStatus = z.infer<typeof TaskStatus>;

const goal = z
  .string()
  .min(1, 'must say what to do')
  .max(65_536, 'must be at most 64 KiB; store longer text as an artifact and name it in inputs');

export const Limits = z.strictObject({
  max_steps: z.int().min(1).max(10_000).optional(),
  max_tokens: z.int().positive().optional(),
  max_cost_microusd: z.int().nonnegative().optional(),
  max_time_s: z.int().min(1).max(31_536_000).optional(),
});
export type Limits = z.infer<typeof Limits>;

/** An agent can delegate only what it has, only within the task, only for a bounded time. */
export const Delegation = z.strictObject({
  allow: z.array(z.string().max(64)).max(256).optional(),
  deny: z.array(z.string().max(64)).max(256).optional(),
  expires_at: Timestamp.optional(),
});
export type Delegation = z.infer<typeof Delegation>;

export const TaskInput = z.strictObject({
  kind: z.enum(['artifact_ref', 'memory_ref', 'text']),
  id: z.string().max(128).optional(),
  text: z.string().max(65_536).optional(),
});
export type TaskInput = z.infer<typeof TaskInput>;

export const CreateTask = z.strictObject({
  goal,
  agent: AgentName.optional(),
  parent_task_id: TaskId.optional(),
  context_id: ContextId.optional(),
  inputs: z.array(TaskInput).max(64).optional(),
  limits: Limits.optional(),
  delegation: Delegation.optional(),
  after: z.array(TaskId).max(64).optional(),
  priority: z.int().min(-100).max(100).optional(),
  deadline: Timestamp.optional(),
});
export type CreateTask = z.infer<typeof CreateTask>;

export const TaskView = z.object({
  id: TaskId,
  parent_task_id: TaskId.nullable(),
  root_task_id: TaskId,
  context_id: ContextId,
  goal: z.string(),
  created_by: Principal,
  assigned_to: AgentName.nullable(),
  status: TaskStatus,
  /** Why it is blocked, waiting, failed, canceled or rejected, in words. */
  reason: z.string().nullable(),
  priority: z.int(),
  inputs: z.array(TaskInput),
  limits: Limits,
  delegation: Delegation.nullable(),
  after: z.array(TaskId),
  deadline: Timestamp.nullable(),
  retry_of: TaskId.nullable(),
  result: z.string().nullable(),
  result_ref: z.string().nullable(),
  error: z.object({ code: z.string(), message: z.string(), hint: z.string() }).nullable(),
  labels: z.array(Label),
  /** True when the rehearsal and not a real model answered any of its calls. */
  rehearsal: z.boolean(),
  created_at: Timestamp,
  updated_at: Timestamp,
  ended_at: Timestamp.nullable(),
});
export type TaskView = z.infer<typeof TaskView>;

export const RunStatus = z.enum(['queued', 'live', 'parked', 'ended']);
export const RunView = z.object({
  id: RunId,
  task_id: TaskId,
  agent: AgentName,
  fence: z.int(),
  status: RunStatus,
  outcome: z.enum(['completed', 'failed', 'canceled', 'lost']).nullable(),
  activations: z.int(),
  crashes: z.int(),
  lease_until: Timestamp.nullable(),
  created_at: Timestamp,
  ended_at: Timestamp.nullable(),
});
export type RunView = z.infer<typeof RunView>;

export const WaitView = z.object({
  id: WaitId,
  run_id: RunId,
  task_id: TaskId,
  call_id: CallId,
  kind: WaitKind,
  /** Who can end it. */
  by: z.array(z.string()),
  question: z.string().nullable(),
  choices: z.array(z.string()),
  child_task_id: TaskId.nullable(),
  from: Principal.nullable(),
  due_at: Timestamp.nullable(),
  expires_at: Timestamp.nullable(),
  status: z.enum(['open', 'ended']),
  outcome: z.enum(['answered', 'completed', 'failed', 'expired', 'canceled']).nullable(),
  answer: z.record(z.string(), z.unknown()).nullable(),
  answered_by: Principal.nullable(),
  opened_at: Timestamp,
  ended_at: Timestamp.nullable(),
});
export type WaitView = z.infer<typeof WaitView>;

export const AgentView = z.object({
  name: AgentName,
  description: z.string(),
  linux_user: z.string(),
  model: z.string(),
  status: z.enum(['active', 'paused', 'stopped', 'removed']),
  replicas: z.int(),
  capabilities: z.array(z.string()),
  tools: z.array(z.string()),
  manifest_hash: Sha256,
  manifest_file: z.string().nullable(),
  tasks: z.object({ ready: z.int(), working: z.int(), waiting: z.int(), ended: z.int() }),
  budget: z.object({
    tokens_per_day: z.int().nullable(),
    cost_microusd_per_day: z.int().nullable(),
  }),
  created_at: Timestamp,
  updated_at: Timestamp,
});
export type AgentView = z.infer<typeof AgentView>;

export const ManifestProblem = z.object({
  file: z.string(),
  line: z.int().nullable(),
  message: z.string(),
  hint: z.string(),
});
export type ManifestProblem = z.infer<typeof ManifestProblem>;

export const MESSAGE_TYPES = [
  'TaskRequest',
  'TaskAccepted',
  'TaskRejected',
  'TaskProgress',
  'TaskResult',
  'ArtifactReady',
  'MemoryRecallRequest',
  'MemoryWriteProposal',
  'ToolRequest',
  'ApprovalRequest',
  'Error',
  'Heartbeat',
] as const;
export const MessageType = z.enum(MESSAGE_TYPES);
export type MessageType = z.infer<typeof MessageType>;

export const MessagePart = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('text'), text: z.string().max(65_536) }),
  z.strictObject({ kind: z.literal('artifact_ref'), id: ArtifactId }),
  z.strictObject({ kind: z.literal('memory_ref'), id: z.string().max(128) }),
  z.strictObject({ kind: z.literal('data'), data: z.record(z.string(), z.unknown()) }),
]);
export type MessagePart = z.infer<typeof MessagePart>;

export const MessageView = z.object({
  id: MessageId,
  type: MessageType,
  context_id: ContextId,
  task_id: TaskId.nullable(),
  from: Principal,
  to: Principal,
  in_reply_to: MessageId.nullable(),
  labels: z.array(Label),
  parts: z.array(MessagePart),
  /** Its place in the order of this pair. */
  pair_seq: z.int(),
  sent_at: Timestamp,
  delivered_at: Timestamp.nullable(),
});
export type MessageView = z.infer<typeof MessageView>;

export const SendMessage = z.strictObject({
  type: MessageType,
  to: Principal,
  context_id: ContextId.optional(),
  task_id: TaskId.optional(),
  in_reply_to: MessageId.optional(),
  parts: z.array(MessagePart).min(1).max(32),
});
export type SendMessage = z.infer<typeof SendMessage>;

export const ArtifactView = z.object({
  id: ArtifactId,
  ref: z.string(),
  name: z.string(),
  mime_type: z.string(),
  size_bytes: z.int(),
  object_hash: Sha256,
  created_by: Principal,
  task_id: TaskId.nullable(),
  context_id: ContextId.nullable(),
  labels: z.array(Label),
  created_at: Timestamp,
});
export type ArtifactView = z.infer<typeof ArtifactView>;

export const artifactSizeBytesMax = 8_000_000;
export const PutArtifact = z.strictObject({
  name: z.string().min(1).max(200),
  mime_type: z
    .string()
    .regex(/^[\w.+-]+\/[\w.+-]+(; ?[\w-]+=[\w.-]+)?$/, 'must look like text/plain')
    .max(100)
    .optional(),
  /** Exactly one of the two. */
  text: z.string().max(artifactSizeBytesMax).optional(),
  base64: z.base64().max(12_000_000).optional(),
});
export type PutArtifact = z.infer<typeof PutArtifact>;
export const ArtifactContent = z.object({
  artifact: ArtifactView,
  text: z.string().nullable(),
  base64: z.string().nullable(),
});

/** Everything a runner needs to build its context. */
export const RunBriefing = z.object({
  run_id: RunId,
  fence: z.int(),
  mode: z.enum(['live', 'replay']),
  agent: AgentName,
  model: z.string(),
  persona: z.string(),
  task: TaskView,
  /** Colleagues it may delegate to: name and what each does. */
  colleagues: z.array(z.object({ name: AgentName, description: z.string() })),
  inputs: z.array(z.object({ name: z.string(), text: z.string(), labels: z.array(Label) })),
  limits: z.object({
    max_steps: z.int(),
    max_tokens: z.int().nullable(),
    max_cost_microusd: z.int().nullable(),
    ends_at: Timestamp.nullable(),
    /** The window of its model: context is kept below it. */
    context_tokens: z.int().positive(),
  }),
});
export type RunBriefing = z.infer<typeof RunBriefing>;

export const TreeNode: z.ZodType<TreeNode> = z.lazy(() =>
  z.object({
    task: TaskView,
    runs: z.array(RunView),
    waits: z.array(WaitView),
    children: z.array(TreeNode),
  }),
);
export type TreeNode = { task: TaskView; runs: RunView[]; waits: WaitView[]; children: TreeNode[] };

export const ReplayView = z.object({
  run_id: RunId,
  same: z.boolean(),
  calls: z.int(),
  differences: z.array(z.object({ at: z.string(), expected: z.string(), got: z.string() })),
  result_same: z.boolean(),
});
export type ReplayView = z.infer<typeof ReplayView>;

export const StatusView = z.object({
  version: z.string(),
  mode: z.enum(['embedded', 'split']),
  state_dir: z.string(),
  started_at: Timestamp,
  halted: z.boolean(),
  halt_reason: z.string().nullable(),
  agents: z.object({ active: z.int(), paused: z.int(), stopped: z.int() }),
  tasks: z.record(z.string(), z.int()),
  runs: z.object({ queued: z.int(), live: z.int(), parked: z.int() }),
  waits_open: z.int(),
  problems: z.array(ManifestProblem),
});
export type StatusView = z.infer<typeof StatusView>;

const idOf = <S extends z.ZodType>(schema: S) => z.strictObject({ id: schema });
const named = z.strictObject({ name: AgentName });
const taskAnswer = z.object({ task: TaskView });
const reason = z.strictObject({ reason: z.string().max(1_000).optional() });
/** A call that toold performs here for a run: named by the run's fence and call, so that it happens once. */
const forRun = { run_id: RunId, fence: z.int().positive(), call_id: CallId };
const waitAnswer = z.object({ wait: WaitView });

export const agentdRoutes = routes({
  status: route({ method: 'GET', path: '/v1/status', callers: ['operator'], output: StatusView }),
  halt: route({
    method: 'POST',
    path: '/v1/halt',
    callers: ['operator'],
    body: reason,
    output: z.object({ halted: z.boolean(), stopped_runs: z.int() }),
  }),
  unhalt: route({
    method: 'POST',
    path: '/v1/unhalt',
    callers: ['operator'],
    output: z.object({ halted: z.boolean() }),
  }),
  // tasks
  createTask: route({
    method: 'POST',
    path: '/v1/tasks',
    callers: ['operator'],
    body: CreateTask,
    output: taskAnswer,
    creates: true,
    bodySizeBytesMax: 8_000_000,
  }),
  listTasks: route({
    method: 'GET',
    path: '/v1/tasks',
    callers: ['operator'],
    query: z.strictObject({
      ...PageQuery,
      status: TaskStatus.optional(),
      agent: AgentName.optional(),
      parent_task_id: TaskId.optional(),
      root_task_id: TaskId.optional(),
      context_id: ContextId.optional(),
    }),
    output: z.object({ tasks: z.array(TaskView), cursor: z.string().nullable() }),
  }),
  getTask: route({
    method: 'GET',
    path: '/v1/tasks/{id}',
    callers: ['operator'],
    params: idOf(TaskId),
    output: taskAnswer,
  }),
  getTree: route({
    method: 'GET',
    path: '/v1/tasks/{id}/tree',
    callers: ['operator'],
    params: idOf(TaskId),
    output: z.object({ tree: TreeNode }),
  }),
  cancelTask: route({
    method: 'POST',
    path: '/v1/tasks/{id}/cancel',
    callers: ['operator'],
    params: idOf(TaskId),
    body: reason,
    output: taskAnswer,
  }),
  retryTask: route({
    method: 'POST',
    path: '/v1/tasks/{id}/retry',
    callers: ['operator'],
    params: idOf(TaskId),
    output: taskAnswer,
    creates: true,
  }),
  assignTask: route({
    method: 'POST',
    path: '/v1/tasks/{id}/assign',
    callers: ['operator'],
    params: idOf(TaskId),
    body: z.strictObject({ agent: AgentName }),
    output: taskAnswer,
  }),
  replayTask: route({
    method: 'POST',
    path: '/v1/tasks/{id}/replay',
    callers: ['operator'],
    params: idOf(TaskId),
    output: z.object({ replay: ReplayView }),
  }),
  listRuns: route({
    method: 'GET',
    path: '/v1/runs',
    callers: ['operator'],
    query: z.strictObject({ ...PageQuery, task_id: TaskId.optional() }),
    output: z.object({ runs: z.array(RunView), cursor: z.string().nullable() }),
  }),
  getRun: route({
    method: 'GET',
    path: '/v1/runs/{id}',
    callers: ['operator'],
    params: idOf(RunId),
    output: z.object({ run: RunView }),
  }),
  // agents
  listAgents: route({
    method: 'GET',
    path: '/v1/agents',
    callers: ['operator'],
    output: z.object({ agents: z.array(AgentView), problems: z.array(ManifestProblem) }),
  }),
  getAgent: route({
    method: 'GET',
    path: '/v1/agents/{name}',
    callers: ['operator'],
    params: named,
    output: z.object({ agent: AgentView, manifest: z.record(z.string(), z.unknown()) }),
  }),
  putAgent: route({
    method: 'PUT',
    path: '/v1/agents/{name}',
    callers: ['operator'],
    params: named,
    body: z.strictObject({
      manifest_yaml: z.string().max(262_144),
      create_only: z.boolean().optional(),
    }),
    output: z.object({ agent: AgentView }),
  }),
  removeAgent: route({
    method: 'DELETE',
    path: '/v1/agents/{name}',
    callers: ['operator'],
    params: named,
    output: z.object({ agent: AgentView }),
  }),
  pauseAgent: route({
    method: 'POST',
    path: '/v1/agents/{name}/pause',
    callers: ['operator'],
    params: named,
    output: z.object({ agent: AgentView }),
  }),
  resumeAgent: route({
    method: 'POST',
    path: '/v1/agents/{name}/resume',
    callers: ['operator'],
    params: named,
    output: z.object({ agent: AgentView }),
  }),
  stopAgent: route({
    method: 'POST',
    path: '/v1/agents/{name}/stop',
    callers: ['operator'],
    params: named,
    output: z.object({ agent: AgentView }),
  }),
  // waits and questions
  listWaits: route({
    method: 'GET',
    path: '/v1/waits',
    callers: ['operator'],
    query: z.strictObject({
      ...PageQuery,
      status: z.enum(['open', 'ended']).optional(),
      kind: WaitKind.optional(),
      task_id: TaskId.optional(),
    }),
    output: z.object({ waits: z.array(WaitView), cursor: z.string().nullable() }),
  }),
  getWait: route({
    method: 'GET',
    path: '/v1/waits/{id}',
    callers: ['operator', 'toold'],
    params: idOf(WaitId),
    output: waitAnswer,
  }),
  answerWait: route({
    method: 'POST',
    path: '/v1/waits/{id}/answer',
    callers: ['operator'],
    params: idOf(WaitId),
    body: z.strictObject({ answer: z.string().min(1).max(65_536) }),
    output: waitAnswer,
  }),
  // messages
  sendMessage: route({
    method: 'POST',
    path: '/v1/messages',
    callers: ['operator'],
    body: SendMessage,
    output: z.object({ message: MessageView }),
    creates: true,
  }),
  listMessages: route({
    method: 'GET',
    path: '/v1/messages',
    callers: ['operator'],
    query: z.strictObject({
      ...PageQuery,
      context_id: ContextId.optional(),
      task_id: TaskId.optional(),
      to: Principal.optional(),
    }),
    output: z.object({ messages: z.array(MessageView), cursor: z.string().nullable() }),
  }),
  // artifacts
  putArtifact: route({
    method: 'POST',
    path: '/v1/artifacts',
    callers: ['operator'],
    body: PutArtifact,
    output: z.object({ artifact: ArtifactView }),
    creates: true,
    bodySizeBytesMax: 17_000_000,
  }),
  listArtifacts: route({
    method: 'GET',
    path: '/v1/artifacts',
    callers: ['operator'],
    query: z.strictObject({
      ...PageQuery,
      task_id: TaskId.optional(),
      context_id: ContextId.optional(),
    }),
    output: z.object({ artifacts: z.array(ArtifactView), cursor: z.string().nullable() }),
  }),
  getArtifact: route({
    method: 'GET',
    path: '/v1/artifacts/{id}',
    callers: ['operator', 'modeld'],
    params: idOf(ArtifactId),
    query: z.strictObject({ run_id: RunId.optional() }),
    output: ArtifactContent,
  }),
  // a runner, through its own socket
  runBriefing: route({ method: 'GET', path: '/v1/run', callers: ['run'], output: RunBriefing }),
  /** Messages for this step, recorded, so that the same step sees the same messages when run again. */
  runInbox: route({
    method: 'POST',
    path: '/v1/run/inbox',
    callers: ['run'],
    body: z.strictObject({ step: z.int().nonnegative() }),
    output: z.object({ messages: z.array(MessageView) }),
  }),
  runBeat: route({
    method: 'POST',
    path: '/v1/run/beat',
    callers: ['run'],
    output: z.object({ lease_until: Timestamp }),
  }),
  /** parked: exit now. Not parked: everything waited for has ended already; ask the calls again. */
  runPark: route({
    method: 'POST',
    path: '/v1/run/park',
    callers: ['run'],
    body: z.strictObject({ call_ids: z.array(CallId).min(1).max(256) }),
    output: z.object({ parked: z.boolean() }),
  }),
  /** What a replay found, told by the runner that replayed. */
  runReplayed: route({
    method: 'POST',
    path: '/v1/run/replayed',
    callers: ['run'],
    body: z.strictObject({
      calls: z.int().nonnegative(),
      differences: z
        .array(
          z.strictObject({
            at: z.string().max(200),
            expected: z.string().max(4_000),
            got: z.string().max(4_000),
          }),
        )
        .max(100),
      result: z.string().max(4_000_000).nullable(),
    }),
    output: z.object({ noted: z.boolean() }),
  }),
  // toold, for a run
  toolDelegate: route({
    method: 'POST',
    path: '/v1/run-calls/delegate',
    callers: ['toold'],
    body: z.strictObject({
      ...forRun,
      agent: AgentName,
      goal,
      inputs: z.array(TaskInput).max(64).optional(),
      limits: Limits.optional(),
      delegation: Delegation.optional(),
      wait: z.boolean(),
    }),
    output: z.object({ task: TaskView, wait: WaitView.nullable() }),
  }),
  toolFinish: route({
    method: 'POST',
    path: '/v1/run-calls/finish',
    callers: ['toold'],
    body: z.strictObject({
      ...forRun,
      status: z.enum(['completed', 'failed']),
      result: z.string().max(4_000_000),
      error_code: z.string().max(64).optional(),
      artifacts: z.array(ArtifactId).max(64).optional(),
      rehearsal: z.boolean().optional(),
    }),
    output: taskAnswer,
  }),
  toolMessage: route({
    method: 'POST',
    path: '/v1/run-calls/message',
    callers: ['toold'],
    body: z.strictObject({
      ...forRun,
      message: SendMessage,
      wait_reply: z.boolean(),
      expires_in_s: z.int().positive().max(31_536_000).optional(),
    }),
    output: z.object({ message: MessageView, wait: WaitView.nullable() }),
  }),
  toolPutArtifact: route({
    method: 'POST',
    path: '/v1/run-calls/put-artifact',
    callers: ['toold'],
    body: z.strictObject({ ...forRun, artifact: PutArtifact }),
    output: z.object({ artifact: ArtifactView }),
    bodySizeBytesMax: 17_000_000,
  }),
  toolGetArtifact: route({
    method: 'POST',
    path: '/v1/run-calls/get-artifact',
    callers: ['toold'],
    body: z.strictObject({ ...forRun, id: ArtifactId }),
    output: ArtifactContent,
  }),
  toolAsk: route({
    method: 'POST',
    path: '/v1/run-calls/ask',
    callers: ['toold'],
    body: z.strictObject({
      ...forRun,
      question: z.string().min(1).max(16_384),
      choices: z.array(z.string().max(200)).max(16).optional(),
      expires_in_s: z.int().positive().max(31_536_000).optional(),
      wait_key: z.string().max(64).optional(),
    }),
    output: waitAnswer,
  }),
  toolTimer: route({
    method: 'POST',
    path: '/v1/run-calls/timer',
    callers: ['toold'],
    body: z.strictObject({ ...forRun, after_s: z.number().positive().max(31_536_000) }),
    output: waitAnswer,
  }),
  /** toold's breaker: this run makes no progress; end it. */
  toolBreak: route({
    method: 'POST',
    path: '/v1/run-calls/break',
    callers: ['toold'],
    body: z.strictObject({
      run_id: RunId,
      fence: z.int().positive(),
      reason: z.string().max(1_000),
    }),
    output: z.object({ ended: z.boolean() }),
  }),
});
