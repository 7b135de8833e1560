// Decides by policy what may be pruned (data.delete), what must go early (data.retain), and who may
// hold a task tree (data.retain).
import type { Clock } from '../../../platform/clock.ts';
import type { Bundle } from '../../../policy/bundle.ts';
import { makePolicy, type Policy } from '../../../policy/decide.ts';
import type { PolicyDecision, Request } from '../../../policy/request.ts';
import { actionFits } from '../../../policy/rule.ts';
import type { RetentionKind } from '../../../wire/agentd/retention.ts';

/** Something that may be pruned, as rules see it. */
export type DataItem = {
  kind: RetentionKind;
  /** The agents of its task tree; none for an artifact that a person stored. */
  agents: readonly string[];
  rootTaskId: string | null;
  id: string;
  labels: readonly string[];
  ageMs: number;
};

export type DataPolicy = {
  mayDelete(principal: string, item: DataItem): Promise<PolicyDecision>;
  mayRetain(principal: string, item: DataItem): Promise<PolicyDecision>;
  /** True if a rule of the site could forbid retaining something. */
  limitsRetaining(): Promise<boolean>;
};

const DAY_MS = 86_400_000;

export function makeDataPolicy(deps: { bundle: () => Bundle; clock: Clock }): DataPolicy {
  let cached: Policy | undefined;
  const policy = (): Policy => {
    const bundle = deps.bundle();
    if (cached?.hash !== bundle.hash || cached.version !== bundle.version)
      cached = makePolicy(bundle, deps.clock);
    return cached;
  };
  return {
    mayDelete: (principal, item) => policy().decideAll(toRequests(principal, 'data.delete', item)),
    mayRetain: (principal, item) => policy().decideAll(toRequests(principal, 'data.retain', item)),
    async limitsRetaining() {
      const rules = await policy().listRules('service:agentd');
      return rules.some(
        ({ effect, scope, id }) =>
          effect === 'forbid' && id.startsWith('site:') && actionFits(scope.action, 'data.retain'),
      );
    },
  };
}

/** One request for each agent of the tree: the strictest decision counts. */
function toRequests(
  principal: string,
  action: 'data.delete' | 'data.retain',
  item: DataItem,
): Request[] {
  const owners = item.agents.length === 0 ? ['people'] : item.agents;
  return owners.map((owner) => {
    const scope = `${item.kind}:${owner}/${item.id}`;
    return {
      principal,
      action,
      resource: { type: 'Scope', id: scope },
      context: {
        scope,
        labels: [...item.labels],
        age_days: Math.floor(item.ageMs / DAY_MS),
        ...(item.rootTaskId === null ? {} : { root_task_id: item.rootTaskId }),
      },
    };
  });
}
