// The state of a call in flight, and the values made from it: the intent before the call, the
// charge and the outcome after it.
import { canonicalJson, sha256Hex } from '../../../platform/json.ts';
import type { Fault, FaultCode } from '../../../wire/errors.ts';
import type { Reservation, SpentAmount } from '../budgets.ts';
import { type Amount, type BudgetKey, sumTokens } from '../rules/budget.ts';
import { toMask } from '../rules/labels.ts';
import type { ModelRoute } from '../rules/models.ts';
import type { CallOutcome, Intent } from '../store/entries.ts';
import type { ContextPart } from '../store/parts.ts';
import { makeAttemptedEvent, makeEndedEvent } from './events.ts';
import type { ModelCall } from './model-call.ts';
import type { ModelResult, ProviderResult, RoutePlan, TryStats } from './ports.ts';
import { readLabels } from './runs.ts';

export type InFlightCall = {
  call: ModelCall;
  plan: RoutePlan;
  routes: readonly ModelRoute[];
  keys: BudgetKey[];
  /** One for the call, and one more for every try that may be billed without a response. */
  reservations: Reservation[];
  /** The maximum of one try. */
  bound: Amount;
  outputTokensMax: number;
  tries: TryStats;
  seq: number;
  createdMs: number;
};

export type CallEnd = {
  performed?: ProviderResult;
  end?: ModelResult;
  reason?: Fault;
};

const OWN = toMask(['own']);
const CANCELED: readonly FaultCode[] = ['canceled', 'stale_fence', 'stopping'];

export function multiply({ tokens, costMicrousd }: Amount, n: number): Amount {
  return { tokens: tokens * n, costMicrousd: costMicrousd * n };
}

/** Returns the reported usage, or the bound without a report, plus the bound per lost try. */
export function computeCharge(
  { bound, tries, plan }: InFlightCall,
  { performed, end }: CallEnd,
): Amount {
  const lost = multiply(bound, tries.lost);
  if (end === undefined || performed === undefined) return lost;
  const isKnown = end.fault === undefined && end.response.usageReported;
  const own = isKnown
    ? {
        tokens: sumTokens(end.response.usage),
        costMicrousd: plan.computeCost(performed.route, end.response),
      }
    : bound;
  return { tokens: lost.tokens + own.tokens, costMicrousd: lost.costMicrousd + own.costMicrousd };
}

export function makeIntent({ call, routes, bound, createdMs }: InFlightCall): Intent {
  const { identity, context, model } = call;
  return {
    callId: call.callId,
    attempt: call.attempt,
    runId: identity.runId,
    fence: identity.fence,
    principal: identity.principal,
    agent: identity.agent,
    taskId: identity.taskId,
    rootTaskId: identity.rootTaskId,
    via: call.via,
    model: model.name,
    provider: routes[0]!.provider,
    upstreamModel: routes[0]!.model,
    rehearsal: model.rehearsal,
    purpose: call.purpose,
    requestHash: context.requestHash,
    context: context.messages.map((part) => part.hash).join(''),
    params: context.params.hash,
    reserved: bound,
    createdMs,
    parts: [...context.messages, context.params],
    event: makeAttemptedEvent(call, routes[0]!, bound),
  };
}

export function makeOutcome(
  inFlight: InFlightCall,
  how: CallEnd & { charged: Amount; spent: SpentAmount[]; nowMs: number },
): CallOutcome {
  const { call, seq, tries, routes, createdMs } = inFlight;
  const { charged, spent, nowMs, performed } = how;
  const reason = how.reason ?? how.end?.fault;
  const response = reason === undefined ? how.end?.response : undefined;
  const status = reason === undefined ? 'completed' : chooseStatus(reason);
  const route = performed?.route ?? routes[0]!;
  return {
    seq,
    callId: call.callId,
    principal: call.identity.principal,
    agent: call.identity.agent,
    createdMs,
    status,
    provider: route.provider,
    upstreamModel: route.model,
    stopReason: response?.stopReason ?? null,
    usage: response?.usageReported === true ? response.usage : null,
    charged,
    response: response === undefined ? null : makeResponsePart(call, how),
    error: reason?.toBody() ?? null,
    tries: tries.count,
    endedMs: nowMs,
    spent,
    event: makeEndedEvent(call, {
      status,
      route,
      end: how.end,
      reason,
      charged,
      tries,
      tookMs: nowMs - createdMs,
    }),
  };
}

function chooseStatus(reason: Fault): 'canceled' | 'failed' {
  return CANCELED.includes(reason.code) ? 'canceled' : 'failed';
}

/** A client's whole response is stored unchanged; any other as a neutral message. */
function makeResponsePart(call: ModelCall, { performed, end }: CallEnd): ContextPart | null {
  const output = performed?.output;
  if (output === undefined || end === undefined || output.type === 'embeddings') return null;
  const { role, parts } = end.response.message;
  const body = output.type === 'bytes' ? toText(output.body) : canonicalJson({ role, parts });
  const labels = call.context.labels | readLabels(call.identity) | OWN;
  return { hash: sha256Hex(body), body, labels, source: `model:${performed!.route.model}` };
}

function toText(body: Uint8Array | string): string {
  if (typeof body === 'string') return body;
  return Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8');
}
