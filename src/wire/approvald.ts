// approvald's contract: what may not happen without a person, what people answered, and the permits
// they gave. An answer holds for exactly what was shown, for who asked, once.
import * as z from 'zod';
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
import { route, routes } from './route.ts';

export const APPROVAL_STATUSES = [
  'pending',
  'approved',
  'rejected',
  /** A person wants to know more: this one is over, the agent may ask again and say it. */
  'info',
  'expired',
  /** Nobody asks any more: the task was canceled or the run ended. */
  'canceled',
] as const;
export const ApprovalStatus = z.enum(APPROVAL_STATUSES);
export type ApprovalStatus = z.infer<typeof ApprovalStatus>;

/** How far an approval reaches. All but `once` give a permit. */
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

const ActionName = z.string().min(1).max(64);
const Arguments = z.record(z.string(), z.unknown());

export const DIFF_CHARS_MAX = 1_048_576;
/** Of the canonical text. */
export const ARGUMENTS_BYTES_MAX = 262_144;

/** One thing that would happen with a call. All of them are judged by the riskiest. */
export const ChainLink = z.strictObject({
  class: ActionName,
  risk: Risk,
  reversibility: Reversibility,
  /** The call itself, what it brings along, or another call of the same run that is open too. */
  part: z.enum(['call', 'brings', 'beside']).default('brings'),
  /** In words, for whoever decides. */
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
  /** The capability word this use of the tool falls under. */
  class: ActionName,
  risk: Risk,
  reversibility: Reversibility,
  /** What would happen besides. */
  chain: z.array(ChainLink).max(CHAIN_LINKS_MAX).optional(),
  /** What "for this repo" would mean; null when the call touches no repository. */
  repo: z.string().min(1).max(4_096).nullable(),
  summary: z.string().min(1).max(2_000),
  /** The agent's own words for why it wants this. */
  purpose: z.string().max(1_000).optional(),
  arguments: Arguments,
  /** SHA-256 of the canonical JSON of the arguments; checked. */
  arguments_hash: Sha256,
  diff: z.string().max(DIFF_CHARS_MAX).nullable(),
  rollback: z.string().max(16_384).nullable(),
  /** The marks of the run as they are now. */
  labels: z.array(Label).max(16),
  /** The rules that want a person, and why in words. */
  rules: z.array(z.string().max(200)).max(64),
  reason: z.string().max(2_000),
  /** The tool itself requires approval of every single call: no permit may cover it. */
  each_call: z.boolean(),
});
export type AskApproval = z.infer<typeof AskApproval>;

/** One thing a person said about an approval. */
export const PersonAnswer = z.object({
  by: Principal,
  answer: z.enum(['approve', 'reject', 'request-info', 'escalate']),
  for: ApprovalReach.nullable(),
  /** Why, or the question. */
  text: z.string().nullable(),
  to: Principal.nullable(),
  edited_hash: Sha256.nullable(),
  /** The rule that let this person answer. */
  rule: z.string(),
  at: Timestamp,
});
export type PersonAnswer = z.infer<typeof PersonAnswer>;

export const ApprovalSummary = z.object({
  id: ApprovalId,
  status: ApprovalStatus,
  agent: AgentName,
  task_id: TaskId,
  root_task_id: TaskId,
  action: z.string(),
  class: z.string(),
  risk: Risk,
  reversibility: Reversibility,
  repo: z.string().nullable(),
  summary: z.string(),
  /** Why a person is needed. */
  reason: z.string(),
  rules: z.array(z.string()),
  labels: z.array(Label),
  arguments_hash: Sha256,
  arguments_bytes: z.int(),
  diff_bytes: z.int().nullable(),
  /** How many equal calls one answer answers. */
  calls: z.int(),
  approvers_needed: z.int(),
  approved_by: z.array(Principal),
  /** Who is asked after somebody passed it on; null: anybody who may. */
  escalated_to: Principal.nullable(),
  permit_id: PermitId.nullable(),
  requested_at: Timestamp,
  expires_at: Timestamp,
  decided_at: Timestamp.nullable(),
  decided_by: Principal.nullable(),
});
export type ApprovalSummary = z.infer<typeof ApprovalSummary>;

export const ApprovalView = ApprovalSummary.extend({
  /** Exactly what would be done, after any edit. */
  arguments: Arguments,
  /** As the agent asked, when a person has changed it. */
  arguments_asked: Arguments.nullable(),
  chain: z.array(ChainLink),
  diff: z.string().nullable(),
  rollback: z.string().nullable(),
  /** Changes whenever what would be approved changes; an answer names the one it saw. */
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
  /** Earlier asks that a person answered with a question, oldest first. */
  thread: z.array(
    z.object({ approval_id: ApprovalId, question: z.string(), by: Principal, at: Timestamp }),
  ),
  /** What each kind of approval would permit, in words; a kind not there is not possible. */
  would_permit: z.record(z.string(), z.string()),
});
export type ApprovalView = z.infer<typeof ApprovalView>;

export const PermitView = z.object({
  id: PermitId,
  scope: z.enum(['task', 'repo', 'class']),
  agent: AgentName,
  /** The tool; null when it covers every tool of its class. */
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

/** What approvald signs when an answer is redeemed: canonical JSON of exactly these members. */
export const Statement = z.object({
  v: z.literal(1),
  approval_id: ApprovalId,
  call_id: CallId,
  run_id: RunId,
  agent: AgentName,
  task_id: TaskId,
  action: z.string(),
  /** `changed`: what it would do is not what the person saw any more. */
  decision: z.enum(['approved', 'rejected', 'info', 'expired', 'canceled', 'changed']),
  /** What the agent asked for, and what may be done: the same unless a person changed it. */
  asked_hash: Sha256,
  arguments_hash: Sha256,
  /** Of the diff that was shown; null when there was none, or a person changed the arguments. */
  diff_hash: Sha256.nullable(),
  by: z.array(Principal),
  permit_id: PermitId.nullable(),
  /** Single use: no two calls get the same. */
  nonce: z.string(),
  at: Timestamp,
});
export type Statement = z.infer<typeof Statement>;

export const Redeemed = z.object({
  decision: z.enum(['pending', 'approved', 'rejected', 'info', 'expired', 'canceled', 'changed']),
  /** With approved: what may be done, exactly. */
  arguments: Arguments.nullable(),
  edited: z.boolean(),
  /** Why not, or the person's question: for the model to read. */
  text: z.string().nullable(),
  /** Null while it is pending. */
  statement: Statement.nullable(),
  /** Ed25519 over the canonical JSON of the statement, base64url. */
  signature: z.string().nullable(),
  key_id: z.string(),
});
export type Redeemed = z.infer<typeof Redeemed>;

const approvalId = z.strictObject({ id: ApprovalId });
const approvalAnswer = z.object({ approval: ApprovalView });
/** Of what the person saw: an answer is to that, and to nothing it has become since. */
const nonce = z.string().min(1).max(64);

export const approvaldRoutes = routes({
  // toold
  /** The same call asked again is answered from the record. `granted`: a permit covers it. */
  askApproval: route({
    method: 'POST',
    path: '/v1/approvals',
    callers: ['toold'],
    body: AskApproval,
    output: z.object({ approval: ApprovalView, status: z.enum(['pending', 'granted', 'ended']) }),
    bodySizeBytesMax: 8_000_000,
  }),
  /** Once per call; the same call asked again gets the same. Anything that differs is denied. */
  redeemApproval: route({
    method: 'POST',
    path: '/v1/approvals/{id}/redeem',
    callers: ['toold'],
    params: approvalId,
    body: z.strictObject({
      call_id: CallId,
      run_id: RunId,
      /** As the agent asked, not as a person edited it. */
      arguments_hash: Sha256,
      /** Of the diff as it would be now; null when there is none; absent: not compared. */
      diff_hash: Sha256.nullable().optional(),
      /** What the call would bring along now; absent: not compared. */
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
      /** Absent: every call of the run. */
      call_id: CallId.optional(),
      reason: z.string().max(1_000),
    }),
    output: z.object({ withdrawn: z.int() }),
  }),
  /** The public half of the key that signs answers and webhooks. */
  approvalKey: route({
    method: 'GET',
    path: '/v1/approvals/key',
    callers: ['toold', 'operator'],
    output: z.object({ key_id: z.string(), public_key_pem: z.string() }),
  }),
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
      /** How many wait for a person, whatever the query asks for. */
      pending: z.int(),
    }),
  }),
  getApproval: route({
    method: 'GET',
    path: '/v1/approvals/{id}',
    callers: ['operator'],
    params: approvalId,
    output: approvalAnswer,
  }),
  approve: route({
    method: 'POST',
    path: '/v1/approvals/{id}/approve',
    callers: ['operator'],
    params: approvalId,
    body: z.strictObject({
      for: ApprovalReach.optional(),
      /** Lifetime of the permit. */
      expires_in_s: z.int().min(1).max(31_536_000).optional(),
      /** Approve this instead of what was asked. */
      edited_arguments: Arguments.optional(),
      nonce,
    }),
    output: approvalAnswer,
  }),
  reject: route({
    method: 'POST',
    path: '/v1/approvals/{id}/reject',
    callers: ['operator'],
    params: approvalId,
    body: z.strictObject({ reason: z.string().max(2_000).optional(), nonce }),
    output: approvalAnswer,
  }),
  requestInfo: route({
    method: 'POST',
    path: '/v1/approvals/{id}/request-info',
    callers: ['operator'],
    params: approvalId,
    body: z.strictObject({ question: z.string().min(1).max(2_000), nonce }),
    output: approvalAnswer,
  }),
  escalate: route({
    method: 'POST',
    path: '/v1/approvals/{id}/escalate',
    callers: ['operator'],
    params: approvalId,
    body: z.strictObject({
      to: Principal.optional(),
      reason: z.string().max(2_000).optional(),
      nonce,
    }),
    output: approvalAnswer,
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
    path: '/v1/permits/{id}',
    callers: ['operator'],
    params: z.strictObject({ id: PermitId }),
    output: z.object({ permit: PermitView }),
  }),
});
