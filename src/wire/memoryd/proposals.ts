// The routes that approvald calls: what a person may see and do about a proposed memory, a person's
// edit of it, and that it was decided.
import * as z from 'zod';
import { ActingPerson } from '../approvald/proposals.ts';
import { ApprovalId, Label } from '../primitives.ts';
import { route } from '../route.ts';
import { MEMORY_BODY_BYTES_MAX, MEMORY_TEXT_CHARS_MAX, MemoryId, MemoryStatus } from './records.ts';

/** A longer text is cut where its changes are shown to a person. */
export const PROPOSAL_SHOWN_CHARS_MAX = 200_000;

const which = { memory_id: MemoryId, person: ActingPerson };

export const routesForApprovald = {
  /** `not_found` for whoever may not read it. */
  reviewProposal: route({
    method: 'POST',
    path: '/v1/memory/proposals/review',
    callers: ['approvald'],
    body: z.strictObject(which),
    output: z.object({
      version: z.int().positive(),
      status: MemoryStatus,
      labels: z.array(Label),
      /** The texts that it would replace, and its own. */
      diff: z.string(),
      /** Why this person may not approve it, and why not even reject it. */
      approve_obstacle: z.string().nullable(),
      reject_obstacle: z.string().nullable(),
    }),
  }),
  /** A person words a proposal anew. It stays one, and keeps its marks. */
  editProposal: route({
    method: 'POST',
    path: '/v1/memory/proposals/edit',
    callers: ['approvald'],
    body: z.strictObject({
      ...which,
      /** The version that the person saw. */
      version: z.int().positive(),
      text: z.string().min(1).max(MEMORY_TEXT_CHARS_MAX),
    }),
    output: z.object({ version: z.int().positive(), labels: z.array(Label) }),
    bodySizeBytesMax: MEMORY_BODY_BYTES_MAX,
  }),
  /** Answered when the decision is done; may be repeated. */
  proposalDecided: route({
    method: 'POST',
    path: '/v1/memory/proposals/decided',
    callers: ['approvald'],
    body: z.strictObject({
      approval_id: ApprovalId,
      memory_id: MemoryId,
      /** The version for which approval was requested. */
      version: z.int().positive(),
    }),
    output: z.object({ status: MemoryStatus }),
  }),
  /** Returns those that still wait for a person. */
  filterProposed: route({
    method: 'POST',
    path: '/v1/memory/proposals/open',
    callers: ['approvald'],
    body: z.strictObject({ memory_ids: z.array(MemoryId).max(1_000) }),
    output: z.object({ memory_ids: z.array(MemoryId) }),
  }),
};
