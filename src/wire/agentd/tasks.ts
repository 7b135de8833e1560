// Views of tasks, runs and waits, and the briefing that a runner gets.
import * as z from 'zod';
import { BriefedMemories } from '../memoryd/for-agentd.ts';
import {
  AgentName,
  CallId,
  ContextId,
  Label,
  Principal,
  RunId,
  Sha256,
  TaskId,
  Timestamp,
  WaitId,
} from '../primitives.ts';
import { WorkspaceMode } from '../sandboxd/layers.ts';
import { ToolView, WaitKind } from '../toold.ts';
import { BriefedSkill } from './skills.ts';

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

export const Goal = z
  .string()
  .min(1, 'must not be empty')
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

export const WorkspacePath = z
  .string()
  .regex(/^\/[^\0\n]*$/, 'must be an absolute path')
  .max(4_095);

/**
 * When a root task fails: its dependents are rejected; it is tried again; it is tried
 * again by the agent that matches next best; or the runtime is halted.
 */
export const FailurePolicy = z.enum(['stop', 'retry', 'reassign', 'halt']);
export type FailurePolicy = z.infer<typeof FailurePolicy>;

const failureFields = {
  on_failure: FailurePolicy.optional(),
  /** How often it is tried with retry and reassign, the first time included. */
  attempts_max: z.int().min(1).max(10).optional(),
};

export const CreateTask = z.strictObject({
  goal: Goal,
  agent: AgentName.optional(),
  /**
   * Capabilities or tools that its agent must have. Given without an agent, even if empty, the
   * agent that matches best gets the task; if none clearly does, a person is asked.
   */
  needs: z.array(z.string().min(1).max(64)).max(64).optional(),
  ...failureFields,
  parent_task_id: TaskId.optional(),
  context_id: ContextId.optional(),
  inputs: z.array(TaskInput).max(64).optional(),
  limits: Limits.optional(),
  delegation: Delegation.optional(),
  after: z.array(TaskId).max(64).optional(),
  /**
   * A directory of this host, below one that the operator allows, in which the whole task tree
   * works. If absent, the tree gets a new one. For a subtask only `own`: a layer of its own, above
   * what the layer of its parent is now.
   */
  workspace: z.union([z.literal('own'), WorkspacePath]).optional(),
  /**
   * Only with `workspace`. `layer`: changes stay in a layer above the directory until a person
   * applies them. `live`: the directory itself is changed.
   */
  workspace_mode: WorkspaceMode.optional(),
  priority: z.int().min(-100).max(100).optional(),
  deadline: Timestamp.optional(),
});
export type CreateTask = z.infer<typeof CreateTask>;

/** A person's change of a task that has not ended. */
export const UpdateTask = z.strictObject({
  agent: AgentName.optional(),
  priority: z.int().min(-100).max(100).optional(),
  /** Replaces its dependencies; only before it has started. */
  after: z.array(TaskId).max(64).optional(),
  ...failureFields,
  /** Ends it by hand. */
  status: z.enum(['completed', 'failed']).optional(),
  result: z.string().min(1).max(65_536).optional(),
});
export type UpdateTask = z.infer<typeof UpdateTask>;

/** An agent's change of a task that it delegated; a subtask has no failure policy. */
export const UpdateSubtask = UpdateTask.omit({ on_failure: true, attempts_max: true });
export type UpdateSubtask = z.infer<typeof UpdateSubtask>;

export const TaskView = z.object({
  id: TaskId,
  parent_task_id: TaskId.nullable(),
  root_task_id: TaskId,
  context_id: ContextId,
  goal: z.string(),
  created_by: Principal,
  assigned_to: AgentName.nullable(),
  status: TaskStatus,
  /** Why it is blocked, waiting, failed, canceled or rejected. */
  reason: z.string().nullable(),
  priority: z.int(),
  inputs: z.array(TaskInput),
  limits: Limits,
  delegation: Delegation.nullable(),
  after: z.array(TaskId),
  deadline: Timestamp.nullable(),
  retry_of: TaskId.nullable(),
  on_failure: FailurePolicy,
  attempts_max: z.int(),
  /** Counts the tries that its failure policy made. */
  attempt: z.int(),
  /** Null when the tree has its own directory, created on first use. */
  workspace: z.string().nullable(),
  /** Null when the tree has its own directory. */
  workspace_mode: WorkspaceMode.nullable(),
  /** The subtask, this one or one above it, that has the layer it works on; absent: the tree's. */
  layer_task_id: TaskId.optional(),
  result: z.string().nullable(),
  result_ref: z.string().nullable(),
  error: z.object({ code: z.string(), message: z.string(), hint: z.string() }).nullable(),
  labels: z.array(Label),
  /** True when the rehearsal answered any of its model calls. */
  rehearsal: z.boolean(),
  /** Set when its run is a program that a person started: everything in its box is the agent. */
  program: z
    .object({
      argv: z.array(z.string()),
      model: z.string().optional(),
      hosts: z.array(z.string()).optional(),
      name: z.string().optional(),
      home: z.string().optional(),
    })
    .optional(),
  created_at: Timestamp,
  updated_at: Timestamp,
  ended_at: Timestamp.nullable(),
  /** Set while a person holds its tree: nothing of it is pruned. */
  kept: z.object({ by: Principal, reason: z.string(), since: Timestamp }).optional(),
  /** Set when parts of its tree were pruned before the tree itself. */
  pruned: z
    .object({
      workspaces: Timestamp.optional(),
      homes: Timestamp.optional(),
      model_contexts: Timestamp.optional(),
    })
    .optional(),
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
  /** The hash of the persona that it was started with; null for a program, and before it starts. */
  persona_sha256: Sha256.nullable(),
  lease_until: Timestamp.nullable(),
  created_at: Timestamp,
  ended_at: Timestamp.nullable(),
});
export type RunView = z.infer<typeof RunView>;

export const WaitView = z.object({
  id: WaitId,
  /** Null, like call_id, when agentd itself asks which agent gets the task. */
  run_id: RunId.nullable(),
  task_id: TaskId,
  call_id: CallId.nullable(),
  kind: WaitKind,
  /** The principals who can end it. */
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

/** Everything a runner needs to build its context. */
export const RunBriefing = z.object({
  run_id: RunId,
  fence: z.int(),
  mode: z.enum(['live', 'replay']),
  agent: AgentName,
  model: z.string(),
  persona: z.string(),
  /** A snapshot from the run's start, so that every activation sees the same tools. */
  tools: z.array(ToolView),
  /** The heartbeat interval. */
  beat_ms: z.int().positive(),
  task: TaskView,
  /** The agents it may delegate to. */
  colleagues: z.array(z.object({ name: AgentName, description: z.string() })),
  inputs: z.array(z.object({ name: z.string(), text: z.string(), labels: z.array(Label) })),
  /** Those that fit the goal, best first; absent in briefings of earlier releases. */
  skills: z.array(BriefedSkill).optional(),
  /** Its home outlives the task. */
  keeps_home: z.boolean().optional(),
  /** Recalled once, before the first activation; absent in briefings of earlier releases. */
  memory: BriefedMemories.optional(),
  limits: z.object({
    max_steps: z.int(),
    max_tokens: z.int().nullable(),
    max_cost_microusd: z.int().nullable(),
    ends_at: Timestamp.nullable(),
    /** Its model's context window; the runner keeps the context below it. */
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
