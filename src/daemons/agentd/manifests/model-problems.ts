// Finds manifests whose model no provider offers, because their calls go to the default model
// instead. With only the rehearsal available every name is accepted.
import { findNearest } from '../../../platform/did-you-mean.ts';
import { fitsPattern } from '../../../platform/name-pattern.ts';
import type { AgentView } from '../../../wire/agentd.ts';
import type { AliasView, ModelView, ProviderView } from '../../../wire/modeld.ts';
import type { FileProblem } from '../../../wire/primitives.ts';

type AvailableModels = {
  models: readonly Pick<ModelView, 'name' | 'rehearsal' | 'is_default'>[];
  providers: readonly Pick<ProviderView, 'name'>[];
  aliases: readonly AliasView[];
};
type AgentModel = Pick<AgentView, 'name' | 'model' | 'manifest_file'>;

export function findModelProblems(
  agents: readonly AgentModel[],
  { models, providers, aliases }: AvailableModels,
): FileProblem[] {
  if (models.every(({ rehearsal }) => rehearsal)) return [];
  const known = models.map(({ name }) => name);
  const isKnown = (name: string) =>
    name === 'default' ||
    known.includes(name) ||
    aliases.some(({ pattern, set_by }) => set_by !== 'built-in' && fitsPattern(pattern, name)) ||
    providers.some((provider) => name.startsWith(`${provider.name}/`));
  const defaultModel = models.find(({ is_default }) => is_default)?.name;
  return agents
    .filter(({ model }) => !isKnown(model))
    .map(({ name, model, manifest_file }) => {
      const near = findNearest(model, known);
      const guess = near === undefined ? '' : `; did you mean ${near}?`;
      const instead = defaultModel === undefined ? '' : `; ${defaultModel} is used instead`;
      return {
        file: manifest_file ?? name,
        line: null,
        message: `spec.model: no provider offers ${model}${guess}`,
        hint: `See agentctl model list${instead}.`,
      };
    });
}
