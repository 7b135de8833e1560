// Decides by policy (action approval.decide) who may decide which approval. The effect `ask` means
// here that two people must approve.
import type { PolicyDecision, Request } from '../../policy/request.ts';
import type { ApprovalReach, DecisionChannel, Reversibility, Risk } from '../../wire/approvald.ts';
import type { Label } from '../../wire/primitives.ts';
import { toolOf } from './rules.ts';

export type MayDecideQuery = {
  person: string;
  answer: 'approve' | 'reject' | 'request-info' | 'escalate';
  reach: ApprovalReach;
  channel: DecisionChannel;
  approval: {
    id: string;
    agent: string;
    action: string;
    class: string;
    risk: Risk;
    reversibility: Reversibility;
    /** A proposed memory has none. */
    task: { task_id: string; root_task_id: string } | undefined;
    labels: readonly Label[];
  };
};
export type MayDecideResult = {
  allow: boolean;
  /** A second person must approve too. */
  second: boolean;
  /** The rules that decided, for the record. */
  rule: string;
  reason: string;
};
export type MayDecide = (question: MayDecideQuery) => Promise<MayDecideResult>;

export function makeMayDecide(policy: {
  decide(request: Request): Promise<Pick<PolicyDecision, 'answer' | 'rules' | 'reason'>>;
}): MayDecide {
  return async ({ person, answer, reach, channel, approval }) => {
    const decision = await policy.decide({
      principal: person,
      action: 'approval.decide',
      resource: { type: 'Approval', id: approval.id },
      context: {
        agent: approval.agent,
        tool: toolOf(approval.action),
        class: approval.class,
        risk: approval.risk,
        reversibility: approval.reversibility,
        decision: answer,
        reach,
        channel,
        labels: approval.labels,
        ...approval.task,
      },
    });
    return {
      allow: decision.answer !== 'deny',
      second: decision.answer === 'ask' && answer === 'approve',
      rule: decision.rules.join(' ') || 'policy',
      reason: decision.reason,
    };
  };
}
