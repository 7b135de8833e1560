// approvald's contract: approvals, people's decisions on them, and permits. A decision is valid for
// exactly the call that was shown, for its requester, once.
import * as z from 'zod';
import { ActingPerson, ProposedMemory, routesForMemoryd } from './approvald/proposals.ts';
import { routesForMaild } from './approvald/replies.ts';
import { Redeemed } from './approvald/statement.ts';
import { eraseCopiesRoute } from './copies.ts';
import {
  AgentName,
  ApprovalId,
  CallId,
  Label,
  PermitId,
  Principal,
  pageQuery,
  RunId,
  Sha256,
  TaskId,
  Timestamp,
} from './primitives.ts';
import { expireRoute, pruneRoute } from './prune.ts';
import { route, routes } from './route.ts';

export const APPROVAL_STATUSES = [
  'pending',
  'approved',
  'rejected',
  /** A person asked a question; the agent may request approval again with the answer. */
  'info',
  'expired',
  /** The task was canceled or the run ended. */
  'canceled',
] as const;
export const ApprovalStatus = z.enum(APPROVAL_STATUSES);
export type ApprovalStatus = z.infer<typeof ApprovalStatus>;

/** The scope of an approval. All but `once` create a permit. */
export const ApprovalReach = z.enum(['once', 'task', 'repo', 'class']);
export type ApprovalReach = z.infer<typeof ApprovalReach>;

export const Risk = z.enum(['low', 'medium', 'high']);
export type Risk = z.infer<typeof Risk>;
export const Reversibility = z.enum([
  'read-only',
  'reversible',
  'externally-reversible',
  'irreversible',
]);
export type Reversibility = z.infer<typeof Reversibility>;

/** How a decision came: over the API, which agentctl uses, too, or as a reply to a mail. */
export const DecisionChannel = z.enum(['api', 'mail']);
export type DecisionChannel = z.infer<typeof DecisionChannel>;

const ActionName = z.string().min(1).max(64);
const Arguments = z.record(z.string(), z.unknown());

export const DIFF_CHARS_MAX = 1_048_576;
/** Measured on the canonical JSON. */
export const ARGUMENTS_BYTES_MAX = 262_144;

/** One effect that a call would have. The riskiest link decides for the whole chain. */
export const ChainLink = z.strictObject({
  class: ActionName,
  risk: Risk,
  reversibility: Reversibility,
  /** The call itself, a consequence of it, or another open call of the same run. */
  part: z.enum(['call', 'brings', 'beside']).default('brings'),
  /** Describes the effect to the person who decides. */
  what: z.string().max(500).default(''),
});
export type ChainLink = z.infer<typeof ChainLink>;
export const CHAIN_LINKS_MAX = 256;

export const AskApproval = z.strictObject({
  call_id: CallId,
  run_id: RunId,
  agent: AgentName,
  task_id: TaskId,
  root_task_id: TaskId,
  /** The tool. */
  action: ActionName,
  /** The capability that this use of the tool falls under. */
  class: ActionName,
  risk: Risk,
  reversibility: Reversibility,
  /** Further effects of the call. */
  chain: z.array(ChainLink).max(CHAIN_LINKS_MAX).optional(),
  /** The repository that an approval `for: repo` covers; null when the call touches none. */
  repo: z.string().min(1).max(4_096).nullable(),
  summary: z.string().min(1).max(2_000),
  /** The agent's stated reason. */
  purpose: z.string().max(1_000).optional(),
  arguments: Arguments,
  /** SHA-256 of the arguments' canonical JSON; approvald verifies it. */
  arguments_hash: Sha256,
  diff: z.string().max(DIFF_CHARS_MAX).nullable(),
  rollback: z.string().max(16_384).nullable(),
  /** The marks of the run as they are now. */
  labels: z.array(Label).max(16),
  /** The rules that require approval. `reason` says why. */
  rules: z.array(z.string().max(200)).max(64),
  reason: z.string().max(2_000),
  /** True when the tool requires approval of every single call, so that no permit covers it. */
  each_call: z.boolean(),
});
export type AskApproval = z.infer<typeof AskApproval>;

/** One decision of a person on an approval. */
export const PersonAnswer = z.object({
  by: Principal,
  answer: z.enum(['approve', 'reject', 'request-info', 'escalate']),
  for: ApprovalReach.nullable(),
  /** The reason, or the question. */
  text: z.string().nullable(),
  to: Principal.nullable(),
  edited_hash: Sha256.nullable(),
  /** The rule that entitled this person to decide. */
  rule: z.string(),
  channel: DecisionChannel,
  at: Timestamp,
});
export type PersonAnswer = z.infer<typeof PersonAnswer>;

export const ApprovalSummary = z.object({
  id: ApprovalId,
  status: ApprovalStatus,
  agent: AgentName,
  /** Null for a proposed memory, which outlives the task that wrote it. */
  task_id: TaskId.nullable(),
  root_task_id: TaskId.nullable(),
  action: z.string(),
  class: z.string(),
  risk: Risk,
  reversibility: Reversibility,
  repo: z.string().nullable(),
  summary: z.string(),
  /** Why approval is needed. */
  reason: z.string(),
  rules: z.array(z.string()),
  labels: z.array(Label),
  arguments_hash: Sha256,
  arguments_bytes: z.int(),
  diff_bytes: z.int().nullable(),
  /** Number of identical calls that one decision covers. */
  calls: z.int(),
  approvers_needed: z.int(),
  approved_by: z.array(Principal),
  /** The person it was escalated to; null when any approver may decide. */
  escalated_to: Principal.nullable(),
  permit_id: PermitId.nullable(),
  requested_at: Timestamp,
  expires_at: Timestamp,
  decided_at: Timestamp.nullable(),
  decided_by: Principal.nullable(),
  /** The memory that it is about; listed for those who may read its scope. */
  memory: ProposedMemory.nullable(),
});
export type ApprovalSummary = z.infer<typeof ApprovalSummary>;

export const ApprovalView = ApprovalSummary.extend({
  /** The arguments that would be used, including a person's edits. */
  arguments: Arguments,
  /** The agent's own arguments, when a person has edited them. */
  arguments_asked: Arguments.nullable(),
  chain: z.array(ChainLink),
  diff: z.string().nullable(),
  rollback: z.string().nullable(),
  /** Changes with what would be approved; a decision names the nonce that its author saw. */
  nonce: z.string(),
  asks: z.array(
    z.object({
      call_id: CallId,
      run_id: RunId,
      task_id: TaskId,
      purpose: z.string(),
      asked_at: Timestamp,
      redeemed_at: Timestamp.nullable(),
    }),
  ),
  answers: z.array(PersonAnswer),
  /** Earlier requests that a person answered with a question, oldest first. */
  thread: z.array(
    z.object({ approval_id: ApprovalId, question: z.string(), by: Principal, at: Timestamp }),
  ),
  /** For each possible scope of an approval, a description of what it would permit. */
  would_permit: z.record(z.string(), z.string()),
});
export type ApprovalView = z.infer<typeof ApprovalView>;

export const PermitView = z.object({
  id: PermitId,
  scope: z.enum(['task', 'repo', 'class']),
  agent: AgentName,
  /** The tool; null when the permit covers every tool of its class. */
  action: z.string().nullable(),
  class: z.string(),
  risk: Risk,
  reversibility: Reversibility,
  root_task_id: TaskId.nullable(),
  repo: z.string().nullable(),
  approval_id: ApprovalId,
  granted_by: z.array(Principal),
  granted_at: Timestamp,
  expires_at: Timestamp,
  revoked_at: Timestamp.nullable(),
  revoked_by: Principal.nullable(),
  uses: z.int(),
  active: z.boolean(),
});
export type PermitView = z.infer<typeof PermitView>;

const approvalId = z.strictObject({ id: ApprovalId });
const approvalResponse = z.object({ approval: ApprovalView });
/** The nonce that the person saw, so that a decision never applies to a later version. */
const nonce = z.string().min(1).max(64);

export const approvaldRoutes = routes({
  // agentd
  prune: pruneRoute('/v1/approvals/prune'),
  expireTombstones: expireRoute('/v1/approvals/tombstones/expire'),
  eraseCopies: eraseCopiesRoute('/v1/approvals/copies/erase'),
  // toold
  /** Idempotent per call. `granted`: a permit covers the call. */
  askApproval: route({
    method: 'POST',
    path: '/v1/approvals',
    callers: ['toold', 'agentd'],
    body: AskApproval,
    output: z.object({ approval: ApprovalView, status: z.enum(['pending', 'granted', 'ended']) }),
    bodySizeBytesMax: 8_000_000,
  }),
  /** Redeems once per call; a repeat gets the same response. Any difference is denied. */
  redeemApproval: route({
    method: 'POST',
    path: '/v1/approvals/{id}/redeem',
    callers: ['toold', 'agentd'],
    params: approvalId,
    body: z.strictObject({
      call_id: CallId,
      run_id: RunId,
      /** Hash of the agent's own arguments, before a person's edits. */
      arguments_hash: Sha256,
      /** Hash of the current diff; null when there is none; absent: not compared. */
      diff_hash: Sha256.nullable().optional(),
      /** The call's current consequences; absent: not compared. */
      brings: z.array(ChainLink).max(CHAIN_LINKS_MAX).optional(),
      /** The marks of the run as they are now. */
      labels: z.array(Label).max(16),
    }),
    output: Redeemed,
  }),
  withdrawApprovals: route({
    method: 'POST',
    path: '/v1/approvals/withdraw',
    callers: ['agentd'],
    body: z.strictObject({
      run_id: RunId,
      /** If absent, every call of the run. */
      call_id: CallId.optional(),
      reason: z.string().max(1_000),
    }),
    output: z.object({ withdrawn: z.int() }),
  }),
  /** The pending approvals that a person would be shown, newest first. */
  listPendingFor: route({
    method: 'POST',
    path: '/v1/approvals/pending',
    callers: ['agentd'],
    body: z.strictObject({ person: ActingPerson, limit: z.int().min(1).max(1_000) }),
    output: z.object({ approvals: z.array(ApprovalSummary), pending: z.int() }),
  }),
  /** Returns the public key that verifies signed decisions and webhooks. */
  approvalKey: route({
    method: 'GET',
    path: '/v1/approvals/key',
    callers: ['toold', 'agentd', 'memoryd', 'operator'],
    output: z.object({ key_id: z.string(), public_key_pem: z.string() }),
  }),
  ...routesForMemoryd,
  ...routesForMaild,
  // people
  listApprovals: route({
    method: 'GET',
    path: '/v1/approvals',
    callers: ['operator'],
    query: z.strictObject({
      ...pageQuery(100),
      status: ApprovalStatus.optional(),
      task_id: TaskId.optional(),
      root_task_id: TaskId.optional(),
      agent: AgentName.optional(),
    }),
    output: z.object({
      approvals: z.array(ApprovalSummary),
      cursor: z.string().nullable(),
      /** Number of pending approvals, independent of the query. */
      pending: z.int(),
    }),
  }),
  getApproval: route({
    method: 'GET',
    path: '/v1/approvals/{id}',
    callers: ['operator'],
    params: approvalId,
    output: approvalResponse,
  }),
  approve: route({
    method: 'POST',
    role: 'approver',
    path: '/v1/approvals/{id}/approve',
    callers: ['operator'],
    params: approvalId,
    body: z.strictObject({
      for: ApprovalReach.optional(),
      /** Lifetime of the permit. */
      expires_in_s: z.int().min(1).max(31_536_000).optional(),
      /** Approved instead of the agent's own arguments; for a proposed memory, its `text`. */
      edited_arguments: Arguments.optional(),
      nonce,
    }),
    output: approvalResponse,
  }),
  reject: route({
    method: 'POST',
    role: 'approver',
    path: '/v1/approvals/{id}/reject',
    callers: ['operator'],
    params: approvalId,
    body: z.strictObject({ reason: z.string().max(2_000).optional(), nonce }),
    output: approvalResponse,
  }),
  requestInfo: route({
    method: 'POST',
    role: 'approver',
    path: '/v1/approvals/{id}/request-info',
    callers: ['operator'],
    params: approvalId,
    body: z.strictObject({ question: z.string().min(1).max(2_000), nonce }),
    output: approvalResponse,
  }),
  escalate: route({
    method: 'POST',
    role: 'approver',
    path: '/v1/approvals/{id}/escalate',
    callers: ['operator'],
    params: approvalId,
    body: z.strictObject({
      to: Principal.optional(),
      reason: z.string().max(2_000).optional(),
      nonce,
    }),
    output: approvalResponse,
  }),
  listPermits: route({
    method: 'GET',
    path: '/v1/permits',
    callers: ['operator'],
    query: z.strictObject({ ...pageQuery(100), active: z.enum(['true', 'false']).optional() }),
    output: z.object({ permits: z.array(PermitView), cursor: z.string().nullable() }),
  }),
  revokePermit: route({
    method: 'DELETE',
    role: 'approver',
    path: '/v1/permits/{id}',
    callers: ['operator'],
    params: z.strictObject({ id: PermitId }),
    output: z.object({ permit: PermitView }),
  }),
});
