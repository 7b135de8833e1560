// May this run use this model, now? Policy is asked at every call, so a right that was taken back
// is gone at the next one. Only runs are asked about: what a person may do is settled by being let
// in.
import { requestOfModel } from '../../../policy/request.ts';
import type { PolicySource } from '../../../policy/source.ts';
import { fault } from '../../../wire/errors.ts';
import { fromMask } from '../rules/labels.ts';
import type { ModelCall, ModelUseDecision } from './model-call.ts';
import { readLabels } from './runs.ts';

export type ModelUseQuery = Pick<ModelCall, 'identity' | 'model' | 'context'>;
export type CheckModelUse = (asked: ModelUseQuery) => Promise<ModelUseDecision>;

export function makeCheckModelUse(policy: Pick<PolicySource, 'decide'>): CheckModelUse {
  return async ({ identity, model, context }) => {
    const labels = fromMask(context.labels | readLabels(identity));
    const { agent, taskId, rootTaskId } = identity;
    const answer = await policy.decide(
      requestOfModel({ agent, model: model.name, taskId, rootTaskId, labels }),
    );
    if (answer.answer === 'allow') return { ...answer, labels };
    const words = answer.answer === 'ask' ? ' without a person, and no step can wait for one' : '';
    const name = `the model ${model.name}${words}`;
    throw fault('denied', `policy does not let ${agent} use ${name}: ${answer.reason}`, {
      hint: `See agentctl policy show ${agent}. The manifest's model is allowed; a rule of the site can permit others.`,
      details: { ...answer, labels },
    });
  };
}
