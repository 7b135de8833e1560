// Finds tools and models by name, and states which model responds, so that a rehearsal is never
// mistaken for a model.
import { findNearest } from '../../../platform/did-you-mean.ts';
import { fault } from '../../../wire/errors.ts';
import type { ModelView, ProviderView } from '../../../wire/modeld.ts';
import type { ToolView } from '../../../wire/toold.ts';
import type { RuntimeClient } from '../runtime.ts';

export type Models = { models: readonly ModelView[]; providers: readonly ProviderView[] };

export const isOnlyRehearsal = ({ models }: Models): boolean =>
  models.every((model) => model.rehearsal);

export function describeModels(all: Models): string {
  if (isOnlyRehearsal(all))
    return 'the rehearsal responds, not a real model; add one: agentctl model add --help';
  const names = all.providers.map(({ name, available }) =>
    available ? name : `${name} (unavailable)`,
  );
  return `${names.join(', ')}; see: agentctl model list`;
}

/**
 * Throws for an unknown model, which calls would silently replace with the default. While only the
 * rehearsal responds, any name is accepted, for a model to be added.
 */
export async function assertModelOffered(
  runtime: RuntimeClient,
  name: string | undefined,
): Promise<void> {
  if (name === undefined || name === 'default') return;
  const all = await runtime.call('modeld', 'listModels', {});
  const known = all.models.map((model) => model.name);
  const isFromProvider = all.providers.some((provider) => name.startsWith(`${provider.name}/`));
  if (isOnlyRehearsal(all) || known.includes(name) || isFromProvider) return;
  const near = findNearest(name, known);
  const guess = near === undefined ? '' : `; did you mean ${near}?`;
  throw fault('not_found', `model ${name} not found${guess}`, {
    hint: 'List them with agentctl model list, or add one with agentctl model add.',
  });
}

export async function findTool(runtime: RuntimeClient, name: string): Promise<ToolView> {
  const { tools } = await runtime.call('toold', 'listTools', {});
  const found = tools.find((tool) => tool.name === name || tool.name.replaceAll('.', '_') === name);
  if (found !== undefined) return found;
  throw fault('not_found', `tool ${name} not found`, { hint: 'List them: agentctl tool list' });
}
