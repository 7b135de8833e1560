// Evaluates policy on one call: on the tool itself and on every path and host it would touch. The
// strictest decision counts.
import { pickArguments } from '../../../policy/arguments.ts';
import { type CallFacts, callRequests } from '../../../policy/request.ts';
import type { PolicySource } from '../../../policy/source.ts';
import type { ApprovedHosts } from './approved-hosts.ts';
import type { Authority } from './permission.ts';

export function makeAuthority(
  policy: Pick<PolicySource, 'decideAll'>,
  approvedHosts: Pick<ApprovedHosts, 'markApproved'>,
): Authority {
  return {
    async check({ run, tool, input, labels }) {
      const { name, risk, idempotent, level } = tool;
      const reversibility = tool.assessReversibility?.(input) ?? tool.reversibility;
      const facts: CallFacts = {
        agent: run.agent,
        taskId: run.taskId,
        rootTaskId: run.rootTaskId,
        labels,
        tool: { name, risk, reversibility, idempotent, level },
        arguments: () => pickArguments(tool.view.input_schema, input),
        touches: await approvedHosts.markApproved(run, tool.touches?.(input) ?? []),
      };
      return { facts, ...(await policy.decideAll(callRequests(facts))) };
    },
  };
}
