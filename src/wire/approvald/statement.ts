// The statement that approvald signs when a decision is redeemed, and how its caller gets it.
import * as z from 'zod';
import {
  AgentName,
  ApprovalId,
  CallId,
  PermitId,
  Principal,
  RunId,
  Sha256,
  TaskId,
  Timestamp,
} from '../primitives.ts';

const Arguments = z.record(z.string(), z.unknown());

/** Signed by approvald when a decision is redeemed, as canonical JSON of exactly these members. */
export const Statement = z.object({
  v: z.literal(1),
  approval_id: ApprovalId,
  call_id: CallId,
  run_id: RunId,
  agent: AgentName,
  /** Null for a proposed memory. */
  task_id: TaskId.nullable(),
  action: z.string(),
  /** `changed`: the call's effects are no longer those that the person saw. */
  decision: z.enum(['approved', 'rejected', 'info', 'expired', 'canceled', 'changed']),
  /** The arguments as requested, and as approved: equal unless a person edited them. */
  asked_hash: Sha256,
  arguments_hash: Sha256,
  /** Hash of the diff that was shown; null when there was none or the arguments were edited. */
  diff_hash: Sha256.nullable(),
  by: z.array(Principal),
  permit_id: PermitId.nullable(),
  /** Single use: unique per call. */
  nonce: z.string(),
  at: Timestamp,
});
export type Statement = z.infer<typeof Statement>;

export const Redeemed = z.object({
  decision: z.enum(['pending', 'approved', 'rejected', 'info', 'expired', 'canceled', 'changed']),
  /** With approved: the exact arguments to use. */
  arguments: Arguments.nullable(),
  edited: z.boolean(),
  /** Why not, or the person's question. The model reads it. */
  text: z.string().nullable(),
  /** Null while pending. */
  statement: Statement.nullable(),
  /** Ed25519 over the canonical JSON of the statement, base64url. */
  signature: z.string().nullable(),
  key_id: z.string(),
});
export type Redeemed = z.infer<typeof Redeemed>;
