// What people are told about approvals, wherever they are told it: ids, sizes and the summary. The
// arguments and the diff stay here; whoever wants them looks at the approval.
import { toTimestamp } from '../../platform/clock.ts';
import type { ApprovalSummary } from '../../wire/approvald.ts';

export type NoticeKind = 'requested' | 'escalated' | 'decided' | 'expired';
export type Notice = {
  type: `approval.${NoticeKind}`;
  timestamp: string;
  data: { approval: ApprovalSummary };
};

export function noticeOf(kind: NoticeKind, approval: ApprovalSummary, nowMs: number): Notice {
  return { type: `approval.${kind}`, timestamp: toTimestamp(nowMs), data: { approval } };
}
