// agentd's routes for a run: called by its runner through the run's own socket, and by the daemons
// that act for it.
import * as z from 'zod';
import {
  AgentName,
  ApprovalId,
  ArtifactId,
  CallId,
  Label,
  Principal,
  RunId,
  Sha256,
  TaskId,
  Timestamp,
} from '../primitives.ts';
import { route, routes } from '../route.ts';
import { MovedRef } from '../sandboxd/layers.ts';
import { ArtifactContent, ArtifactView, PutArtifact } from './artifacts.ts';
import { changeRoutes } from './changes.ts';
import { MessageView, SendMessage } from './messages.ts';
import { Proposal, ProposedChange } from './proposals.ts';
import { SkillFiles, SkillName, SkillView } from './skills.ts';
import {
  Delegation,
  Goal,
  Limits,
  RunBriefing,
  TaskInput,
  TaskView,
  UpdateSubtask,
  WaitView,
} from './tasks.ts';

/** Identifies a call that toold performs here for a run, so that it happens once. */
const forRun = { run_id: RunId, fence: z.int().positive(), call_id: CallId };
const waitResponse = z.object({ wait: WaitView });

export const runRoutes = routes({
  // a runner, through its own socket
  runBriefing: route({ method: 'GET', path: '/v1/run', callers: ['run'], output: RunBriefing }),
  /** Returns the messages for this step. They are recorded: a rerun of the step sees the same. */
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
  /** parked: exit now. Not parked: all these waits have ended already; repeat the calls. */
  runPark: route({
    method: 'POST',
    path: '/v1/run/park',
    callers: ['run'],
    body: z.strictObject({ call_ids: z.array(CallId).min(1).max(256) }),
    output: z.object({ parked: z.boolean() }),
  }),
  /** The runner of a replay reports its result. */
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
      /** The runner requested more calls than were recorded. */
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
      /** `own`: a layer of its own, above what the one of this task is now. */
      workspace: z.enum(['shared', 'own']).optional(),
    }),
    output: z.object({ task: TaskView, wait: WaitView.nullable() }),
    streams: true,
  }),
  /** Only a task that the run's own task delegated. */
  toolUpdateTask: route({
    method: 'POST',
    path: '/v1/run-calls/update-task',
    callers: ['toold'],
    body: z.strictObject({ ...forRun, task_id: TaskId, ...UpdateSubtask.shape }),
    output: z.object({ task: TaskView }),
  }),
  /** Applies or discards the changes of a subtask's own layer; only its parent may. */
  toolChanges: route({
    method: 'POST',
    path: '/v1/run-calls/changes',
    callers: ['toold'],
    body: z.strictObject({
      ...forRun,
      action: z.enum(['apply', 'discard']),
      task_id: TaskId,
      paths: changeRoutes.applyChanges.body!.shape.paths,
    }),
    output: z.object({
      task_id: TaskId,
      applied: z.array(z.string()),
      commits: z.array(MovedRef),
      discarded: z.int(),
    }),
    streams: true,
    bodySizeBytesMax: 10_000_000,
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
    output: z.object({ task: TaskView }),
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
    /** Null: not sent, because a person is asked whether the two agents may go on. */
    output: z.object({ message: MessageView.nullable(), wait: WaitView.nullable() }),
  }),
  /** Reads only: the same call may be answered again. */
  toolTeam: route({
    method: 'POST',
    path: '/v1/run-calls/team',
    callers: ['toold'],
    body: z.strictObject(forRun),
    output: z.object({
      agents: z.array(
        z.object({
          name: AgentName,
          role: z.string().nullable(),
          purpose: z.string(),
          status: z.string(),
          working: z.int(),
          ready: z.int(),
          replicas: z.int(),
        }),
      ),
    }),
  }),
  toolReadSkill: route({
    method: 'POST',
    path: '/v1/run-calls/read-skill',
    callers: ['toold'],
    body: z.strictObject({
      ...forRun,
      name: SkillName,
      path: z.string().min(1).max(1_000).optional(),
    }),
    output: z.object({ skill: SkillView, text: z.string(), files: SkillFiles }),
  }),
  /** Shows what a proposal would change; refuses one that could not come into force. */
  toolPreviewProposal: route({
    method: 'POST',
    path: '/v1/run-calls/preview-proposal',
    callers: ['toold'],
    body: z.strictObject({ ...forRun, proposal: Proposal }),
    output: z.object({ changes: z.array(ProposedChange), basis: Sha256 }),
    bodySizeBytesMax: 8_500_000,
  }),
  /** Once a person has accepted it, and while its basis is as it was shown. */
  toolAcceptProposal: route({
    method: 'POST',
    path: '/v1/run-calls/accept-proposal',
    callers: ['toold'],
    body: z.strictObject({
      ...forRun,
      proposal: Proposal,
      basis: Sha256,
      approval_id: ApprovalId,
    }),
    output: z.object({ paths: z.array(z.string()) }),
    bodySizeBytesMax: 8_500_000,
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
  toolShareArtifact: route({
    method: 'POST',
    path: '/v1/run-calls/share-artifact',
    callers: ['toold'],
    body: z.strictObject({ ...forRun, id: ArtifactId }),
    output: z.object({ shared: z.boolean() }),
  }),
  toolListShared: route({
    method: 'POST',
    path: '/v1/run-calls/list-shared',
    callers: ['toold'],
    body: z.strictObject(forRun),
    output: z.object({
      artifacts: z.array(
        z.object({
          id: ArtifactId,
          /** Null for one with marks. */
          name: z.string().nullable(),
          by: Principal,
          labels: z.array(Label),
          size_bytes: z.int(),
          created_at: Timestamp,
        }),
      ),
    }),
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
    output: waitResponse,
  }),
  toolTimer: route({
    method: 'POST',
    path: '/v1/run-calls/timer',
    callers: ['toold'],
    body: z.strictObject({ ...forRun, after_s: z.number().positive().max(31_536_000) }),
    output: waitResponse,
  }),
  /** The call waits for an approval; approvald reports when that has ended. */
  toolAwaitApproval: route({
    method: 'POST',
    path: '/v1/run-calls/await-approval',
    callers: ['toold'],
    body: z.strictObject({
      ...forRun,
      approval_id: ApprovalId,
      /** The approval's own expiry, so that a repeated request is identical. */
      expires_at: Timestamp,
    }),
    output: waitResponse,
  }),
  /** ended: the call's wait has ended. Not ended: the call does not wait yet. */
  approvalEnded: route({
    method: 'POST',
    path: '/v1/approvals/{id}/ended',
    callers: ['approvald'],
    params: z.strictObject({ id: ApprovalId }),
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
   * Marks the run's task, and everything derived from it, with the labels of a tool's output.
   * Called before the run gets that output.
   */
  toolMark: route({
    method: 'POST',
    path: '/v1/run-calls/mark',
    callers: ['toold'],
    body: z.strictObject({
      ...forRun,
      labels: z.array(Label).min(1).max(8),
      why: z.string().max(200),
      /** Distinguishes several marks of one call. */
      part: z.string().max(64).optional(),
    }),
    output: z.object({ labels: z.array(Label) }),
  }),
  /**
   * Checks that no delegation excludes these tools of the provider, and marks the run's task with
   * what the provider may fetch for it. Called before the run's model call is sent.
   */
  modelFetch: route({
    method: 'POST',
    path: '/v1/run-calls/model-fetch',
    callers: ['modeld'],
    body: z.strictObject({
      ...forRun,
      tools: z.array(z.string().max(64)).max(16),
      hosts: z.array(z.string().max(255)).max(64),
    }),
    output: z.object({ labels: z.array(Label) }),
  }),
  /** Returns the current labels of the run's task. */
  runMarks: route({
    method: 'GET',
    path: '/v1/run-calls/marks/{id}',
    callers: ['toold'],
    params: z.strictObject({ id: RunId }),
    output: z.object({ labels: z.array(Label) }),
  }),
  /** Ends a run that makes no progress; sent by toold's breaker. */
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
