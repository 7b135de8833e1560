// Sends the daily budgets that manifests declare to modeld. A limit that an operator has set there
// takes precedence.
import type { Client } from '../../../platform/link.ts';
import type { modeldRoutes } from '../../../wire/modeld.ts';
import type { DeclaredAgent } from './read-manifest.ts';

type Budget = DeclaredAgent['budget'];
export type DailyBudgets = { sync(agent: Pick<DeclaredAgent, 'name' | 'budget'>): Promise<void> };

const NONE: Budget = { tokens_per_day: null, cost_microusd_per_day: null };

export function makeDailyBudgets(
  modeld: Pick<Client<typeof modeldRoutes>, 'setBudget'>,
): DailyBudgets {
  const sent = new Map<string, Budget>();
  /** A limit that the manifest never set stays as the site has it; a dropped one is lifted. */
  const findChange = (now: number | null, before: number | null) =>
    now === before ? undefined : now;
  return {
    async sync({ name, budget }) {
      const before = sent.get(name) ?? NONE;
      const tokens = findChange(budget.tokens_per_day, before.tokens_per_day);
      const cost = findChange(budget.cost_microusd_per_day, before.cost_microusd_per_day);
      if (tokens === undefined && cost === undefined) return;
      await modeld.setBudget({
        body: {
          subject: 'agent',
          name,
          ...(tokens === undefined ? {} : { tokens_limit: tokens }),
          ...(cost === undefined ? {} : { cost_limit_microusd: cost }),
        },
      });
      sent.set(name, budget);
    },
  };
}
