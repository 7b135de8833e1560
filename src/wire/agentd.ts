// agentd's contract: its routes. What they carry is in the files of the folder beside this one.
import * as z from 'zod';
import { AgentView, ManifestProblem, StatusView } from './agentd/agents.ts';
import { ArtifactContent, ArtifactView, PutArtifact } from './agentd/artifacts.ts';
import { MessageView, SendMessage } from './agentd/messages.ts';
import { policyRoutes } from './agentd/policy.ts';
import {
  CreateTask,
  Delegation,
  Goal,
  Limits,
  ReplayView,
  RunBriefing,
  RunView,
  TaskInput,
  TaskStatus,
  TaskView,
  TreeNode,
  WaitView,
} from './agentd/tasks.ts';
import { route, routes } from './route.ts';
import { WaitKind } from './toold.ts';
import {
  AgentName,
  ApprovalId,
  ArtifactId,
  CallId,
  ContextId,
  Label,
  PageQuery,
  Principal,
  RunId,
  TaskId,
  Timestamp,
  WaitId,
} from './words.ts';

export * from './agentd/agents.ts';
export * from './agentd/artifacts.ts';
export * from './agentd/messages.ts';
export {
  AgentPolicyView,
  PolicyCheckView,
  type PolicyFile,
  RuleView,
  SimulationView,
} from './agentd/policy.ts';
export * from './agentd/tasks.ts';

const idOf = <S extends z.ZodType>(schema: S) => z.strictObject({ id: schema });
const named = z.strictObject({ name: AgentName });
const taskAnswer = z.object({ task: TaskView });
const reason = z.strictObject({ reason: z.string().max(1_000).optional() });
/**
 * A call that toold performs here for a run: named by the run's fence and call, so that it happens
 * once.
 */
const forRun = { run_id: RunId, fence: z.int().positive(), call_id: CallId };
const waitAnswer = z.object({ wait: WaitView });

export const agentdRoutes = routes({
  ...policyRoutes,
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
    callers: ['operator', 'approvald'],
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
  /**
   * Messages for this step, recorded, so that the same step sees the same messages when run again.
   */
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
      /** It asked for more than was recorded. */
      record_ended: z.boolean().optional(),
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
      goal: Goal,
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
  /** The call waits for people; approvald says when it need not any more. */
  toolAwaitApproval: route({
    method: 'POST',
    path: '/v1/run-calls/await-approval',
    callers: ['toold'],
    body: z.strictObject({
      ...forRun,
      approval_id: ApprovalId,
      /** As approvald has it: the same however often this is asked. */
      expires_at: Timestamp,
    }),
    output: waitAnswer,
  }),
  /** ended: the call's wait is over. Not ended: the call does not wait yet. */
  approvalEnded: route({
    method: 'POST',
    path: '/v1/approvals/{id}/ended',
    callers: ['approvald'],
    params: idOf(ApprovalId),
    body: z.strictObject({
      run_id: RunId,
      call_id: CallId,
      outcome: z.enum(['answered', 'expired']),
      decision: z.enum(['approved', 'rejected', 'info', 'expired', 'canceled']),
      by: Principal,
    }),
    output: z.object({ ended: z.boolean() }),
  }),
  /**
   * What a tool brought into the run: from now on its task is marked, and so is all that comes of
   * it. Told before the run is shown the output.
   */
  toolMark: route({
    method: 'POST',
    path: '/v1/run-calls/mark',
    callers: ['toold'],
    body: z.strictObject({
      ...forRun,
      labels: z.array(Label).min(1).max(8),
      why: z.string().max(200),
      /** Tells apart several marks that one call brings. */
      part: z.string().max(64).optional(),
    }),
    output: z.object({ labels: z.array(Label) }),
  }),
  /** The labels of the run's task, as they are now. */
  runMarks: route({
    method: 'GET',
    path: '/v1/run-calls/marks/{id}',
    callers: ['toold'],
    params: idOf(RunId),
    output: z.object({ labels: z.array(Label) }),
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
