// Requests approval for a call and waits for it. Once a person has decided, the call is decided
// again, because policy may have changed meanwhile, before it may begin.
import { Fault } from '../../../wire/errors.ts';
import type { ApprovalId } from '../../../wire/primitives.ts';
import type { CallAnswer } from '../../../wire/toold.ts';
import type { Approvals, ReviewedState } from '../permission/approvals.ts';
import type { Permission, Permissions } from '../permission/permission.ts';
import type { Denied } from '../rules.ts';
import type { ToolRuns } from '../runs.ts';
import type { ToolCallRow, TooldStore } from '../store/store.ts';
import {
  type BoxProvider,
  buildWaitingAnswer,
  type Job,
  makeToolContext,
  notApprovedDenial,
  permanentFault,
  unshowableDenial,
} from './job.ts';
import type { CallRecorder } from './record-outcome.ts';

export type Permitted = Permission & { kind: 'go' };
type NeedsApproval = Permission & { kind: 'ask' };
export type Approved = { approvalId: ApprovalId; seen: ReviewedState };

/** Either the call's answer for now, or the permission to begin it. */
export type ApprovalStep = { answer: CallAnswer } | { permitted: Permitted; approved: Approved };

export type ApprovalRequests = {
  /** Idempotent: approvald knows the call and returns the same approval. */
  requestApproval(job: Job, record: ToolCallRow, may: NeedsApproval): Promise<ApprovalStep>;
  /** Decides again first: hours may have passed since the approval was requested. */
  afterApproval(job: Job, record: ToolCallRow, approvalId: ApprovalId): Promise<ApprovalStep>;
};

export function makeApprovalRequests(options: {
  store: TooldStore;
  runs: Pick<ToolRuns, 'loadProgress'>;
  permissions: Permissions;
  approvals: Approvals;
  recorder: CallRecorder;
  boxOf: BoxProvider;
  failpoint(name: string): void;
}): ApprovalRequests {
  const { store, runs, permissions, approvals, recorder, boxOf, failpoint } = options;

  const fail = async (job: Job, record: ToolCallRow, decision: Denied): Promise<ApprovalStep> => ({
    answer: await recorder.failDenied(job, record, decision),
  });

  const afterApproval: ApprovalRequests['afterApproval'] = async (job, record, approvalId) => {
    const before = await permissions.decide(job, await runs.loadProgress(job.run), { again: true });
    if (before.kind === 'no') return fail(job, record, before.decision);
    const { labels, input } = before;
    const current = { labels, input, context: makeToolContext(job, input, boxOf) };
    const result = await approvals.redeem(job, approvalId, current);
    if (!result.approved) return fail(job, record, notApprovedDenial(approvalId, result.error));
    const may =
      result.edited === undefined ? before : await permissions.decideEdited(job, result.edited);
    if (may.kind === 'no') return fail(job, record, may.decision);
    const edited = { input: may.input, context: makeToolContext(job, may.input, boxOf) };
    const seen = await approvals.reviewedState(job, result, { ...current, edited });
    if ('code' in seen) return fail(job, record, notApprovedDenial(approvalId, seen));
    const decision = { ...may.decision, approval: approvalId };
    return { permitted: { ...may, kind: 'go', decision }, approved: { approvalId, seen } };
  };

  return {
    async requestApproval(job, record, may) {
      const pending = await approvals
        .request(job, may, makeToolContext(job, may.input, boxOf))
        .catch(permanentFault);
      if (pending instanceof Fault) return fail(job, record, unshowableDenial(pending));
      failpoint('toold.after-approval-asked');
      if (pending.status === 'answered') return afterApproval(job, record, pending.approvalId);
      if (record.status !== 'requested') await store.returnToRequested(job.callId);
      const wait = await approvals.wait(pending, makeToolContext(job, undefined, boxOf));
      await store.recordApprovalWait(job.callId, wait, pending.approvalId);
      if (wait.status !== 'open') return afterApproval(job, record, pending.approvalId);
      return { answer: buildWaitingAnswer(job, wait) };
    },
    afterApproval,
  };
}
