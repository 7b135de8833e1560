// agentctl model remove: removes a provider that was added, with its key, or one of its models.
import { fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import type { RuntimeClient } from '../runtime.ts';

type Target = { provider: string; model?: string };

export async function remove({ args, out, runtime }: Session): Promise<void> {
  const name = args.positionals[0]!;
  const target = await findTarget(runtime(), name);
  const answer = await runtime().call('modeld', 'removeProvider', {
    params: { name: target.provider },
    query: target.model === undefined ? {} : { model: target.model },
  });
  out.print(answer, () => [
    target.model === undefined
      ? `Removed provider ${target.provider} and its key; calls in progress end by themselves.`
      : `${target.provider} no longer offers ${target.model}.`,
  ]);
}

/** A provider, `provider/model`, or a model that one provider offers. */
async function findTarget(runtime: RuntimeClient, name: string): Promise<Target> {
  const { models, providers } = await runtime.call('modeld', 'listModels', {});
  const isProvider = (one: string): boolean => providers.some((provider) => provider.name === one);
  if (isProvider(name)) return { provider: name };
  const slash = name.indexOf('/');
  if (slash > 0 && isProvider(name.slice(0, slash)))
    return { provider: name.slice(0, slash), model: name.slice(slash + 1) };
  const model = models.find((one) => one.name === name);
  if (model === undefined)
    throw fault('not_found', `no provider or model is called ${name}`, {
      hint: 'List them: agentctl model list',
    });
  return { provider: model.routes[0]!.provider, model: name };
}
