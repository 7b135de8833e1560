// Checks a run's use of a model against policy, on every call, so that a revoked right takes effect
// on the next one. A person's rights are checked by authentication.
import { modelRequest } from '../../../policy/request.ts';
import type { PolicySource } from '../../../policy/source.ts';
import { fault } from '../../../wire/errors.ts';
import { fromMask } from '../rules/labels.ts';
import type { ModelCall, ModelUseDecision } from './model-call.ts';
import { readLabels } from './runs.ts';

export type ModelUseQuery = Pick<ModelCall, 'identity' | 'model' | 'context'>;
export type CheckModelUse = (query: ModelUseQuery) => Promise<ModelUseDecision>;

export function makeCheckModelUse(policy: Pick<PolicySource, 'decide'>): CheckModelUse {
  return async ({ identity, model, context }) => {
    const labels = fromMask(context.labels | readLabels(identity));
    const { agent, taskId, rootTaskId } = identity;
    const decision = await policy.decide(
      modelRequest({ agent, model: model.name, taskId, rootTaskId, labels }),
    );
    if (decision.answer === 'allow') return { ...decision, labels };
    const approval = decision.answer === 'ask' ? ' without approval, and a step cannot wait' : '';
    const what = `model ${model.name}${approval}`;
    throw fault('denied', `policy does not let ${agent} use ${what}: ${decision.reason}`, {
      hint: `Run agentctl policy show ${agent}; permit the model in a site rule or name it in the manifest.`,
      details: { ...decision, labels },
    });
  };
}
