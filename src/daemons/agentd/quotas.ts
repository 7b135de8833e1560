// The daily budgets that manifests declare. modeld keeps them; here they are told to it, at the
// latest before a run of that agent is admitted. What an operator has set there stands above them.
import type { Client } from '../../platform/link.ts';
import type { modeldRoutes } from '../../wire/modeld.ts';
import type { DeclaredAgent } from './manifests.ts';

type Budget = DeclaredAgent['budget'];
export type Quotas = { tell(agent: Pick<DeclaredAgent, 'name' | 'budget'>): Promise<void> };

const NONE: Budget = { tokens_per_day: null, cost_microusd_per_day: null };

export function makeQuotas(modeld: Pick<Client<typeof modeldRoutes>, 'setBudget'>): Quotas {
  const told = new Map<string, Budget>();
  /** What a manifest never named stays as the site has it; what it no longer names is lifted. */
  const changed = (now: number | null, before: number | null) => (now === before ? undefined : now);
  return {
    async tell({ name, budget }) {
      const before = told.get(name) ?? NONE;
      const tokens = changed(budget.tokens_per_day, before.tokens_per_day);
      const cost = changed(budget.cost_microusd_per_day, before.cost_microusd_per_day);
      if (tokens === undefined && cost === undefined) return;
      await modeld.setBudget({
        body: {
          subject: 'agent',
          name,
          ...(tokens === undefined ? {} : { tokens_limit: tokens }),
          ...(cost === undefined ? {} : { cost_limit_microusd: cost }),
        },
      });
      told.set(name, budget);
    },
  };
}
