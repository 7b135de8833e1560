// Manifests whose model nobody offers: a call of such an agent is answered by the default model,
// and nobody meant that. While only the rehearsal answers, every name is as good as another.
import { nearest } from '../../platform/did-you-mean.ts';
import type { AgentView } from '../../wire/agentd.ts';
import type { ModelView, ProviderView } from '../../wire/modeld.ts';
import type { FileProblem } from '../../wire/primitives.ts';

type Offered = {
  models: readonly Pick<ModelView, 'name' | 'rehearsal' | 'is_default'>[];
  providers: readonly Pick<ProviderView, 'name'>[];
};
type Named = Pick<AgentView, 'name' | 'model' | 'manifest_file'>;

export function modelProblems(
  agents: readonly Named[],
  { models, providers }: Offered,
): FileProblem[] {
  if (models.every(({ rehearsal }) => rehearsal)) return [];
  const known = models.map(({ name }) => name);
  const isKnown = (name: string) =>
    name === 'default' ||
    known.includes(name) ||
    providers.some((provider) => name.startsWith(`${provider.name}/`));
  const standIn = models.find(({ is_default }) => is_default)?.name;
  return agents
    .filter(({ model }) => !isKnown(model))
    .map(({ name, model, manifest_file }) => {
      const near = nearest(model, known);
      const guess = near === undefined ? '' : `; did you mean ${near}?`;
      const instead = standIn === undefined ? '' : `; ${standIn} answers instead`;
      return {
        file: manifest_file ?? name,
        line: null,
        message: `spec.model: no provider offers ${model}${guess}`,
        hint: `See agentctl model list${instead}.`,
      };
    });
}
