// Which model answers, in one sentence: nobody shall take a rehearsal for a model.
import type { ModelView, ProviderView } from '../../../wire/modeld.ts';

export type Models = { models: readonly ModelView[]; providers: readonly ProviderView[] };

export const isOnlyRehearsal = ({ models }: Models): boolean =>
  models.every((model) => model.rehearsal);

export function modelsText(all: Models): string {
  if (isOnlyRehearsal(all))
    return 'the rehearsal answers, not a real model; add one: agentctl model add --help';
  const names = all.providers.map(({ name, available }) =>
    available ? name : `${name} (not now)`,
  );
  return `${names.join(', ')}; see: agentctl model list`;
}
