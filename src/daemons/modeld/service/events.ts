// Makes the audit events of model calls: ids, hashes, counts and sums, never content. Event ids
// derive from call and attempt, so that journal and log compare one to one.
import { joinRules, recordModelUse } from '../../../policy/recorded.ts';
import type { Fault } from '../../../wire/errors.ts';
import type { EventDraft } from '../../../wire/events.ts';
import type { Amount } from '../rules/budget.ts';
import type { ModelRoute } from '../rules/models.ts';
import { hasFetches, type ProviderFetches } from '../rules/provider-fetches.ts';
import type { ModelCallRow } from '../store/calls.ts';
import type { ModelCall, ModelUseDecision } from './model-call.ts';
import type { ModelResult, TryStats } from './ports.ts';

type Subject = {
  principal: string;
  agent: string;
  taskId: string | null;
  rootTaskId: string | null;
  runId: string | null;
};

function writeSubject({ principal, agent, taskId, rootTaskId, runId }: Subject) {
  return {
    principal,
    ...(agent === '' ? {} : { agent }),
    ...(taskId === null ? {} : { task_id: taskId }),
    ...(rootTaskId === null ? {} : { root_task_id: rootTaskId }),
    ...(runId === null ? {} : { run_id: runId }),
  };
}

export function makeAttemptedEvent(call: ModelCall, route: ModelRoute, bound: Amount): EventDraft {
  const { callId, attempt, identity, model, context, via, fetches } = call;
  const decision = call.decision && recordModelUse(call.decision);
  return {
    id: `${callId}.attempted.${attempt}`,
    event: 'model.call.attempted',
    ...writeSubject(identity),
    call_id: callId,
    model: model.name,
    ...(decision === undefined ? {} : { allowed: true, policy: decision.policy }),
    data: {
      ...decision?.data,
      attempt,
      via,
      provider: route.provider,
      upstream_model: route.model,
      request_hash: context.requestHash,
      parts: context.messages.length,
      ...(fetches === undefined || !hasFetches(fetches) ? {} : { fetches: listFetches(fetches) }),
      reserved_tokens: bound.tokens,
      reserved_microusd: bound.costMicrousd,
    },
  };
}

/** As many as fit into an event; paths are left out, because they may contain secrets. */
function listFetches({ tools, urls }: ProviderFetches): string {
  const hosts = urls.map(({ host, port }) => `${host}:${port}`);
  return [...tools, ...new Set(hosts)].join(' ').slice(0, 1_024);
}

export type CallEndFacts = {
  status: string;
  route: ModelRoute;
  end: ModelResult | undefined;
  reason: Fault | undefined;
  charged: Amount;
  tries: TryStats;
  tookMs: number;
};

export function makeEndedEvent(call: ModelCall, facts: CallEndFacts): EventDraft {
  const { callId, attempt, identity, model } = call;
  const { status, route, end, reason, charged, tries, tookMs } = facts;
  const usage = end?.response.usageReported === true ? end.response.usage : undefined;
  return {
    id: `${callId}.ended.${attempt}`,
    event: 'model.call.ended',
    ...writeSubject(identity),
    call_id: callId,
    model: model.name,
    status,
    data: {
      attempt,
      provider: route.provider,
      upstream_model: route.model,
      ...(reason === undefined ? {} : { error: reason.code }),
      ...(usage === undefined
        ? {}
        : {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            reasoning_tokens: usage.reasoning_tokens,
          }),
      charged_tokens: charged.tokens,
      cost_microusd: charged.costMicrousd,
      tries: tries.count,
      tries_lost: tries.lost,
      ...(tries.count > 1 ? { chain: tries.chain.join(' > ').slice(0, 1024) } : {}),
      took_ms: tookMs,
    },
  };
}

/** For a call that a crash left open: its outcome is unknown, so it is charged in full. */
export function makeUnknownEvent(row: ModelCallRow): EventDraft {
  return {
    id: `${row.call_id}.ended.${row.attempt}`,
    event: 'model.call.ended',
    ...writeSubject({
      principal: row.principal,
      agent: row.agent,
      taskId: row.task_id,
      rootTaskId: row.root_task_id,
      runId: row.run_id,
    }),
    call_id: row.call_id,
    model: row.model,
    status: 'unknown',
    data: {
      attempt: row.attempt,
      provider: row.provider,
      upstream_model: row.upstream_model,
      charged_tokens: row.reserved_tokens,
      cost_microusd: row.reserved_cost,
    },
  };
}

export function makeRefusedEvent(id: string, call: ModelCall, reason: Fault): EventDraft {
  const { subject, name, unit, left, labels, fetch, rules, answer } = reason.details ?? {};
  const decision =
    reason.code === 'denied' && answer !== undefined
      ? recordModelUse(reason.details as unknown as ModelUseDecision)
      : undefined;
  return {
    id,
    event: 'model.call.refused',
    ...writeSubject(call.identity),
    call_id: call.callId,
    model: call.model.name,
    allowed: false,
    status: reason.code,
    ...(decision === undefined ? {} : { policy: decision.policy }),
    // Without an answer: it was not the use of the model that was denied.
    ...(typeof fetch === 'string' && Array.isArray(rules)
      ? { policy: joinRules(rules as string[]) }
      : {}),
    data: {
      request_hash: call.context.requestHash,
      ...(typeof subject === 'string' ? { subject } : {}),
      ...(typeof fetch === 'string' ? { fetch: fetch.slice(0, 1_024) } : {}),
      ...(typeof name === 'string' ? { name } : {}),
      ...(typeof unit === 'string' ? { unit } : {}),
      ...(typeof left === 'number' ? { left } : {}),
      ...(Array.isArray(labels) ? { labels: labels.join(',') } : {}),
      ...decision?.data,
    },
  };
}
