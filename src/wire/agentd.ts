// agentd's contract: the routes for people, and those for runs. The schemas they carry are in the
// folder of the same name.
import * as z from 'zod';
import { AgentView, StatusView } from './agentd/agents.ts';
import { ArtifactContent, ArtifactView, PutArtifact } from './agentd/artifacts.ts';
import { backupRoutes } from './agentd/backups.ts';
import { boardRoutes } from './agentd/board.ts';
import { changeRoutes } from './agentd/changes.ts';
import { digestRoutes } from './agentd/digest.ts';
import { diskUsageRoutes } from './agentd/disk-usage.ts';
import { mailRoutes, outgoingMailRoutes } from './agentd/mail.ts';
import { MessageView, SendMessage } from './agentd/messages.ts';
import { personaRoutes } from './agentd/personas.ts';
import { policyRoutes } from './agentd/policy.ts';
import { presetRoutes } from './agentd/presets.ts';
import { programTaskRoutes } from './agentd/programs.ts';
import { retentionRoutes } from './agentd/retention.ts';
import { runRoutes } from './agentd/run-routes.ts';
import { skillRoutes } from './agentd/skills.ts';
import {
  CreateTask,
  ReplayView,
  RunView,
  TaskStatus,
  TaskView,
  TreeNode,
  WaitView,
} from './agentd/tasks.ts';
import { threadRoutes } from './agentd/threads.ts';
import { erasureRoutes } from './copies.ts';
import {
  AgentName,
  ArtifactId,
  ContextId,
  FileProblem,
  Principal,
  pageQuery,
  RunId,
  TaskId,
  WaitId,
} from './primitives.ts';
import { route, routes } from './route.ts';
import { WaitKind } from './toold.ts';

export * from './agentd/agents.ts';
export * from './agentd/artifacts.ts';
export * from './agentd/board.ts';
export * from './agentd/changes.ts';
export * from './agentd/digest.ts';
export * from './agentd/disk-usage.ts';
export * from './agentd/messages.ts';
export * from './agentd/personas.ts';
export {
  AgentPolicyView,
  PolicyCheckView,
  type PolicyFile,
  RuleView,
  SimulationView,
} from './agentd/policy.ts';
export * from './agentd/presets.ts';
export * from './agentd/programs.ts';
export * from './agentd/proposals.ts';
export * from './agentd/retention.ts';
export * from './agentd/skills.ts';
export * from './agentd/tasks.ts';
export * from './agentd/threads.ts';

const idParam = <S extends z.ZodType>(schema: S) => z.strictObject({ id: schema });
const nameParam = z.strictObject({ name: AgentName });
const taskResponse = z.object({ task: TaskView });
const reason = z.strictObject({ reason: z.string().max(1_000).optional() });
const waitResponse = z.object({ wait: WaitView });

export const agentdRoutes = routes({
  ...policyRoutes,
  ...personaRoutes,
  ...skillRoutes,
  ...retentionRoutes,
  ...diskUsageRoutes,
  ...threadRoutes,
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
  ...backupRoutes,
  ...changeRoutes,
  ...mailRoutes,
  ...outgoingMailRoutes,
  ...erasureRoutes,
  // tasks
  createTask: route({
    method: 'POST',
    path: '/v1/tasks',
    callers: ['operator'],
    body: CreateTask,
    output: taskResponse,
    creates: true,
    bodySizeBytesMax: 8_000_000,
  }),
  ...programTaskRoutes,
  ...boardRoutes,
  ...digestRoutes,
  ...presetRoutes,
  listTasks: route({
    method: 'GET',
    path: '/v1/tasks',
    callers: ['operator'],
    query: z.strictObject({
      ...pageQuery(50),
      status: TaskStatus.optional(),
      agent: AgentName.optional(),
      parent_task_id: TaskId.optional(),
      root_task_id: TaskId.optional(),
      context_id: ContextId.optional(),
      /** Only programs of people. */
      program: z.literal('true').optional(),
    }),
    output: z.object({ tasks: z.array(TaskView), cursor: z.string().nullable() }),
  }),
  getTask: route({
    method: 'GET',
    path: '/v1/tasks/{id}',
    callers: ['operator', 'memoryd', 'maild', 'approvald'],
    params: idParam(TaskId),
    output: taskResponse,
  }),
  getTree: route({
    method: 'GET',
    path: '/v1/tasks/{id}/tree',
    callers: ['operator'],
    params: idParam(TaskId),
    output: z.object({ tree: TreeNode }),
  }),
  cancelTask: route({
    method: 'POST',
    path: '/v1/tasks/{id}/cancel',
    callers: ['operator'],
    params: idParam(TaskId),
    body: reason,
    output: taskResponse,
  }),
  retryTask: route({
    method: 'POST',
    path: '/v1/tasks/{id}/retry',
    callers: ['operator'],
    params: idParam(TaskId),
    output: taskResponse,
    creates: true,
  }),
  assignTask: route({
    method: 'POST',
    path: '/v1/tasks/{id}/assign',
    callers: ['operator'],
    params: idParam(TaskId),
    body: z.strictObject({ agent: AgentName }),
    output: taskResponse,
  }),
  replayTask: route({
    method: 'POST',
    path: '/v1/tasks/{id}/replay',
    callers: ['operator'],
    params: idParam(TaskId),
    output: z.object({ replay: ReplayView }),
  }),
  listRuns: route({
    method: 'GET',
    path: '/v1/runs',
    callers: ['operator'],
    query: z.strictObject({ ...pageQuery(50), task_id: TaskId.optional() }),
    output: z.object({ runs: z.array(RunView), cursor: z.string().nullable() }),
  }),
  getRun: route({
    method: 'GET',
    path: '/v1/runs/{id}',
    callers: ['operator', 'approvald'],
    params: idParam(RunId),
    output: z.object({ run: RunView }),
  }),
  // agents
  listAgents: route({
    method: 'GET',
    path: '/v1/agents',
    callers: ['operator', 'maild'],
    output: z.object({ agents: z.array(AgentView), problems: z.array(FileProblem) }),
  }),
  getAgent: route({
    method: 'GET',
    path: '/v1/agents/{name}',
    callers: ['operator'],
    params: nameParam,
    output: z.object({ agent: AgentView, manifest: z.record(z.string(), z.unknown()) }),
  }),
  putAgent: route({
    method: 'PUT',
    path: '/v1/agents/{name}',
    callers: ['operator'],
    params: nameParam,
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
    params: nameParam,
    output: z.object({ agent: AgentView }),
  }),
  pauseAgent: route({
    method: 'POST',
    path: '/v1/agents/{name}/pause',
    callers: ['operator'],
    params: nameParam,
    output: z.object({ agent: AgentView }),
  }),
  resumeAgent: route({
    method: 'POST',
    path: '/v1/agents/{name}/resume',
    callers: ['operator'],
    params: nameParam,
    output: z.object({ agent: AgentView }),
  }),
  stopAgent: route({
    method: 'POST',
    path: '/v1/agents/{name}/stop',
    callers: ['operator'],
    params: nameParam,
    output: z.object({ agent: AgentView }),
  }),
  // waits and questions
  listWaits: route({
    method: 'GET',
    path: '/v1/waits',
    callers: ['operator'],
    query: z.strictObject({
      ...pageQuery(50),
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
    params: idParam(WaitId),
    output: waitResponse,
  }),
  answerWait: route({
    method: 'POST',
    role: 'approver',
    path: '/v1/waits/{id}/answer',
    callers: ['operator'],
    params: idParam(WaitId),
    body: z.strictObject({ answer: z.string().min(1).max(65_536) }),
    output: waitResponse,
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
      ...pageQuery(50),
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
      ...pageQuery(50),
      task_id: TaskId.optional(),
      context_id: ContextId.optional(),
    }),
    output: z.object({ artifacts: z.array(ArtifactView), cursor: z.string().nullable() }),
  }),
  getArtifact: route({
    method: 'GET',
    path: '/v1/artifacts/{id}',
    callers: ['operator', 'modeld'],
    params: idParam(ArtifactId),
    query: z.strictObject({ run_id: RunId.optional() }),
    output: ArtifactContent,
  }),
  ...runRoutes,
});
