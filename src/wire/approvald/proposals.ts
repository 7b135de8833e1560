// The routes by which memoryd has people decide on proposed memories, long after the run that wrote
// them. approvald keeps no text of a memory: it shows what memoryd lets the reader see.
import * as z from 'zod';
import { MemoryClass, MemoryId, MemoryScope } from '../memoryd/records.ts';
import { ApprovalId, Label, Principal, RunId, TaskId } from '../primitives.ts';
import { route } from '../route.ts';
import { Redeemed } from './statement.ts';

/** A proposed memory, and who wrote it. */
export const ProposedMemory = z.object({
  memory_id: MemoryId,
  /** The version that an approval puts in force. */
  version: z.int().positive(),
  class: MemoryClass,
  scope: MemoryScope,
  by: Principal,
  run_id: RunId.nullable(),
  task_id: TaskId.nullable(),
});
export type ProposedMemory = z.infer<typeof ProposedMemory>;

export const AskProposal = z.strictObject({
  ...ProposedMemory.shape,
  labels: z.array(Label).max(16),
  /** The rules that make it a proposal. `reason` says why. */
  rules: z.array(z.string().max(200)).max(64),
  reason: z.string().max(2_000),
  /** A person named it, so that the limit of pending proposals does not hold it back. */
  is_named: z.boolean(),
});
export type AskProposal = z.infer<typeof AskProposal>;

/** The person for whom a daemon calls another. `key`: as authenticated; people may share one. */
export const ActingPerson = z.strictObject({
  principal: Principal,
  key: z.string().max(128),
});
export type ActingPerson = z.infer<typeof ActingPerson>;

export const routesForMemoryd = {
  /** Idempotent per memory and version; replaces a request for another version. */
  askProposal: route({
    method: 'POST',
    path: '/v1/approvals/proposals',
    callers: ['memoryd'],
    body: AskProposal,
    output: z.object({ approval_id: ApprovalId, status: z.enum(['pending', 'ended']) }),
  }),
  /** A person decides through memoryd, with the same checks as through approvald. */
  decideProposal: route({
    method: 'POST',
    path: '/v1/approvals/{id}/decide-proposal',
    callers: ['memoryd'],
    params: z.strictObject({ id: ApprovalId }),
    body: z.strictObject({
      person: ActingPerson,
      answer: z.enum(['approve', 'reject']),
      /** The version that the person saw. */
      version: z.int().positive(),
    }),
    output: z.object({ status: z.string() }),
  }),
  /** The decision for memoryd to do, signed; the same to each repetition. */
  redeemProposal: route({
    method: 'POST',
    path: '/v1/approvals/{id}/redeem-proposal',
    callers: ['memoryd'],
    params: z.strictObject({ id: ApprovalId }),
    body: z.strictObject({
      memory_id: MemoryId,
      /** The version for which approval was requested. */
      version: z.int().positive(),
      labels: z.array(Label).max(16),
    }),
    output: Redeemed,
  }),
  /** They no longer wait: forgotten, or ended otherwise. */
  withdrawProposals: route({
    method: 'POST',
    path: '/v1/approvals/proposals/withdraw',
    callers: ['memoryd'],
    body: z.strictObject({ memory_ids: z.array(MemoryId).min(1).max(1_000) }),
    output: z.object({ withdrawn: z.int() }),
  }),
};
