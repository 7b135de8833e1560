// The model behind a name that a person's program asks for. Programs have names of their own built
// in, so one that its agent may not use stands for the model that it may.
import { modelRequest } from '../../../policy/request.ts';
import type { PolicySource } from '../../../policy/source.ts';
import { fromMask } from '../rules/labels.ts';
import type { Providers } from './providers.ts';
import { type CallerIdentity, readLabels } from './runs.ts';

export type ChooseModel = (identity: CallerIdentity, asked: string) => Promise<string>;

export function makeChooseModel(parts: {
  providers: Pick<Providers, 'resolve'>;
  policy: Pick<PolicySource, 'decide'>;
}): ChooseModel {
  const { providers, policy } = parts;
  return async (identity, asked) => {
    const { run, agent, taskId, rootTaskId } = identity;
    if (run?.isProgram !== true) return asked;
    if (run.chosenModel !== undefined) return run.chosenModel;
    const meant = providers.resolve(asked, 'chat', run.model).model.name;
    if (meant === run.model) return asked;
    const labels = fromMask(readLabels(identity));
    const { answer } = await policy.decide(
      modelRequest({ agent, model: meant, taskId, rootTaskId, labels }),
    );
    return answer === 'allow' ? asked : run.model;
  };
}
