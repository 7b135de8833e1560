// Builds the notices that people receive about approvals: ids, sizes and the summary. Arguments and
// diff are not included; they are in the approval's view.
import { toTimestamp } from '../../platform/clock.ts';
import type { ApprovalSummary } from '../../wire/approvald.ts';

export type NoticeKind = 'requested' | 'escalated' | 'decided' | 'expired';
export type Notice = {
  type: `approval.${NoticeKind}`;
  timestamp: string;
  data: { approval: ApprovalSummary };
};

export function makeNotice(kind: NoticeKind, approval: ApprovalSummary, nowMs: number): Notice {
  return { type: `approval.${kind}`, timestamp: toTimestamp(nowMs), data: { approval } };
}
