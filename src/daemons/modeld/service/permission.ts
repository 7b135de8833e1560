// Checks a run's use of a model against policy, and what the provider would fetch for it, on every
// call, so that a revoked right takes effect on the next one. A person's rights are checked by
// authentication.
import {
  type CallFacts,
  callRequests,
  modelRequest,
  type Request,
  type Touch,
  touchRequest,
} from '../../../policy/request.ts';
import type { PolicySource } from '../../../policy/source.ts';
import { fault } from '../../../wire/errors.ts';
import { fromMask } from '../rules/labels.ts';
import { hasFetches, type ProviderFetches } from '../rules/provider-fetches.ts';
import type { ModelCall, ModelUseDecision } from './model-call.ts';
import type { RecordFetches } from './ports.ts';
import { readLabels } from './runs.ts';

export type ModelUseQuery = Pick<ModelCall, 'identity' | 'model' | 'context'>;
export type CheckModelUse = (query: ModelUseQuery) => Promise<ModelUseDecision>;

export function makeCheckModelUse(policy: Pick<PolicySource, 'decide'>): CheckModelUse {
  return async ({ identity, model, context }) => {
    const labels = fromMask(context.labels | readLabels(identity));
    const { agent, taskId, rootTaskId, run } = identity;
    const decide = (name: string) =>
      policy.decide(modelRequest({ agent, model: name, taskId, rootTaskId, labels }));
    const own = await decide(model.name);
    // A person's choice for a program replaces the agent's own model, unless a rule forbids it.
    const isReplacement = run?.chosenModel === model.name && own.rules.length === 0;
    const decision = own.answer !== 'allow' && isReplacement ? await decide(run.model) : own;
    if (decision.answer === 'allow') return { ...decision, labels };
    const approval = decision.answer === 'ask' ? ' without approval, and a step cannot wait' : '';
    const what = `model ${model.name}${approval}`;
    throw fault('denied', `policy does not let ${agent} use ${what}: ${decision.reason}`, {
      hint: `Run agentctl policy show ${agent}; permit the model in a site rule or name it in the manifest.`,
      details: { ...decision, labels },
    });
  };
}

export type CheckFetches = (
  call: Pick<ModelCall, 'identity' | 'context' | 'callId' | 'fetches'>,
) => Promise<void>;

/** A query to a search engine can carry anything out, and nothing takes it back. */
const SERVER_TOOL = {
  risk: 'medium',
  reversibility: 'irreversible',
  idempotent: false,
  level: 'L0',
} as const;
const HOSTS_MAX = 64;
const HOST_CHARS_MAX = 255;

/**
 * Throws unless policy allows the run all that the provider would fetch for it, as if its own box
 * did. The run's task is marked before anything is sent.
 */
export function makeCheckFetches(
  policy: Pick<PolicySource, 'decideAll'>,
  recordFetches: RecordFetches,
): CheckFetches {
  return async ({ identity, context, callId, fetches }) => {
    if (identity.run === undefined || fetches === undefined || !hasFetches(fetches)) return;
    const { agent, taskId, rootTaskId, runId, fence } = identity;
    const labels = fromMask(context.labels | readLabels(identity));
    if (fetches.urls.length > HOSTS_MAX)
      throw fault('bad_request', `the request has more than ${HOSTS_MAX} URLs to fetch`);
    const facts = { agent, taskId: taskId!, rootTaskId: rootTaskId!, labels };
    const decisions = await Promise.all(
      listRequests(facts, fetches).map(async ({ what, hint, requests }) => ({
        what,
        hint,
        decision: await policy.decideAll(requests),
      })),
    );
    for (const { what, hint, decision } of decisions) {
      if (decision.answer === 'allow') continue;
      const approval = decision.answer === 'ask' ? ' without approval, and a step cannot wait' : '';
      throw fault(
        'denied',
        `policy does not let the provider ${what} for ${agent}${approval}: ${decision.reason}`,
        { hint, details: { fetch: what, rules: decision.rules } },
      );
    }
    const hosts = [...new Set(fetches.urls.map(({ host }) => host.slice(0, HOST_CHARS_MAX)))];
    await recordFetches({ runId: runId!, fence: fence!, callId, tools: fetches.tools, hosts });
  };
}

type FetchFacts = Pick<CallFacts, 'agent' | 'taskId' | 'rootTaskId' | 'labels'>;
type FetchRequests = { what: string; hint: string; requests: Request[] };

function listRequests(facts: FetchFacts, { tools, urls }: ProviderFetches): FetchRequests[] {
  const ofTools = tools.map((name): FetchRequests => {
    const requests = callRequests({ ...facts, tool: { name, ...SERVER_TOOL }, touches: [] });
    const hint = `Switch the tool off in the client, or allow ${name} in the agent's manifest (tools.allow).`;
    return { what: `run ${name}`, hint, requests };
  });
  const ofUrls = urls.map(({ host, port, path, method }): FetchRequests => {
    const connect = { action: 'net.connect', host, port, urlPath: path, ...(method && { method }) };
    const requests = fetchRequests(facts, connect as Touch);
    const name = host === '' ? 'a URL that is not http or https' : `${host}:${port}`;
    const hint = "Send the data itself, or allow the host in the agent's manifest (network.allow).";
    return { what: `fetch ${name}`, hint, requests };
  });
  return [...ofTools, ...ofUrls];
}

function fetchRequests({ agent, taskId, rootTaskId, labels }: FetchFacts, touch: Touch): Request[] {
  const run = { task_id: taskId, root_task_id: rootTaskId, labels: [...labels] };
  return [touchRequest(`agent:${agent}`, touch, run)];
}
