// Who may answer which approval: policy's action approval.decide. What policy wants a person for
// here, two people must do.
import type { PolicyDecision, Request } from '../../policy/request.ts';
import type { ApprovalReach, Reversibility, Risk } from '../../wire/approvald.ts';
import type { Label } from '../../wire/primitives.ts';

export type DecideQuestion = {
  person: string;
  answer: 'approve' | 'reject' | 'request-info' | 'escalate';
  reach: ApprovalReach;
  approval: {
    id: string;
    agent: string;
    action: string;
    class: string;
    risk: Risk;
    reversibility: Reversibility;
    taskId: string;
    rootTaskId: string;
    labels: readonly Label[];
  };
};
export type DecideAnswer = {
  allow: boolean;
  /** Not alone: a second person must approve too. */
  second: boolean;
  /** What decided, for the record. */
  rule: string;
  reason: string;
};
export type MayDecide = (question: DecideQuestion) => Promise<DecideAnswer>;

export function makeMayDecide(policy: {
  decide(request: Request): Promise<Pick<PolicyDecision, 'answer' | 'rules' | 'reason'>>;
}): MayDecide {
  return async ({ person, answer, reach, approval }) => {
    const decided = await policy.decide({
      principal: person,
      action: 'approval.decide',
      resource: { type: 'Approval', id: approval.id },
      context: {
        agent: approval.agent,
        tool: approval.action,
        class: approval.class,
        risk: approval.risk,
        reversibility: approval.reversibility,
        decision: answer,
        reach,
        labels: approval.labels,
        task_id: approval.taskId,
        root_task_id: approval.rootTaskId,
      },
    });
    return {
      allow: decided.answer !== 'deny',
      second: decided.answer === 'ask' && answer === 'approve',
      rule: decided.rules.join(' ') || 'policy',
      reason: decided.reason,
    };
  };
}
