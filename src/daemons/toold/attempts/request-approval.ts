// A call that needs a person: asked for, waited for, and, once answered, looked at again with the
// rights of that moment before it may begin.
import { Fault } from '../../../wire/errors.ts';
import type { ApprovalId } from '../../../wire/primitives.ts';
import type { CallAnswer } from '../../../wire/toold.ts';
import type { Approvals, ReviewedState } from '../permission/approvals.ts';
import type { Permission, Permissions } from '../permission/permission.ts';
import type { ToolRuns } from '../runs.ts';
import type { ToolCallRow, TooldStore } from '../store/store.ts';
import type { ToolContext } from '../tools/tool.ts';
import { type Job, notApproved, notAskable, permanentFault, waitingFor } from './job.ts';
import type { CallRecorder } from './record-outcome.ts';

export type Permitted = Permission & { kind: 'go' };
type NeedsApproval = Permission & { kind: 'ask' };
/** `input`: what is done in the box of the call, where it is known. */
export type ContextOf = (job: Job, input?: unknown) => ToolContext;
export type Approved = { approvalId: ApprovalId; seen: ReviewedState };

export type ApprovalRequests = {
  /** Asked for as often as it takes: approvald knows the call, and answers the same. */
  requestApproval(job: Job, record: ToolCallRow, may: NeedsApproval): Promise<CallAnswer>;
  /** The rights are looked at again: between asking and answering, hours may have passed. */
  afterApproval(job: Job, record: ToolCallRow, approvalId: ApprovalId): Promise<CallAnswer>;
};

export function makeApprovalRequests(options: {
  store: TooldStore;
  runs: Pick<ToolRuns, 'progressOf'>;
  permissions: Permissions;
  approvals: Approvals;
  turnDown: CallRecorder['failDenied'];
  /** When it may begin. */
  attempt: (
    job: Job,
    record: ToolCallRow,
    may: Permitted,
    approved: Approved,
  ) => Promise<CallAnswer>;
  contextOf: ContextOf;
  failpoint(name: string): void;
}): ApprovalRequests {
  const { store, runs, permissions, approvals, turnDown, contextOf, failpoint } = options;

  const askPerson: ApprovalRequests['requestApproval'] = async (job, record, may) => {
    const asked = await approvals
      .request(job, may, contextOf(job, may.input))
      .catch(permanentFault);
    if (asked instanceof Fault) return turnDown(job, record, notAskable(asked));
    failpoint('toold.after-approval-asked');
    if (asked.status === 'answered') return afterApproval(job, record, asked.approvalId);
    if (record.status !== 'requested') await store.returnToRequested(job.callId);
    const wait = await approvals.wait(asked, contextOf(job));
    await store.recordApprovalWait(job.callId, wait, asked.approvalId);
    if (wait.status !== 'open') return afterApproval(job, record, asked.approvalId);
    return waitingFor(job, wait);
  };

  const afterApproval: ApprovalRequests['afterApproval'] = async (job, record, approvalId) => {
    const before = await permissions.decide(job, await runs.progressOf(job.run), { again: true });
    if (before.kind === 'no') return turnDown(job, record, before.decision);
    const { labels, input } = before;
    const now = { labels, input, context: contextOf(job, input) };
    const answer = await approvals.redeem(job, approvalId, now);
    if (!answer.approved) return turnDown(job, record, notApproved(approvalId, answer.error));
    const may =
      answer.edited === undefined ? before : await permissions.ofEdited(job, answer.edited);
    if (may.kind === 'no') return turnDown(job, record, may.decision);
    const edited = { input: may.input, context: contextOf(job, may.input) };
    const seen = await approvals.reviewedState(job, answer, { ...now, edited });
    if ('code' in seen) return turnDown(job, record, notApproved(approvalId, seen));
    const decision = { ...may.decision, approval: approvalId };
    const go: Permitted = { ...may, kind: 'go', decision };
    return options.attempt(job, record, go, { approvalId, seen });
  };

  return { requestApproval: askPerson, afterApproval };
}
