// What is held while a call is under way, and what it comes to: the intent before, the charge and
// the outcome after. Values only; calls.ts does things with them.
import { canonicalJson, sha256Hex } from '../../../platform/json.ts';
import type { Fault, FaultCode } from '../../../wire/errors.ts';
import type { Reservation, Spent } from '../budgets.ts';
import { type Amount, type BudgetKey, tokensOf } from '../rules/budget.ts';
import { toMask } from '../rules/labels.ts';
import type { ModelRoute } from '../rules/models.ts';
import type { CallOutcome, Intent } from '../store/entries.ts';
import type { ContextPart } from '../store/parts.ts';
import { attemptedEvent, endedEvent } from './events.ts';
import type { Order } from './order.ts';
import type { ModelResult, Performed, RoutePlan, TryStats } from './ports.ts';
import { labelsNow } from './runs.ts';

export type InFlightCall = {
  order: Order;
  plan: RoutePlan;
  routes: readonly ModelRoute[];
  keys: BudgetKey[];
  /** One for the call, and one more for every try that may be billed without an answer. */
  reservations: Reservation[];
  /** What one try may take. */
  bound: Amount;
  outputTokensMax: number;
  tries: TryStats;
  seq: number;
  createdMs: number;
};

export type CallEnd = {
  performed?: Performed;
  end?: ModelResult;
  reason?: Fault;
};

const OWN = toMask(['own']);
const CANCELED: readonly FaultCode[] = ['canceled', 'stale_fence', 'stopping'];

export function times({ tokens, costMicrousd }: Amount, n: number): Amount {
  return { tokens: tokens * n, costMicrousd: costMicrousd * n };
}

/**
 * What was used as far as it is known, and the bound for every try that may be billed without a
 * word.
 */
export function chargeOf(
  { bound, tries, plan }: InFlightCall,
  { performed, end }: CallEnd,
): Amount {
  const lost = times(bound, tries.lost);
  if (end === undefined || performed === undefined) return lost;
  const isKnown = end.fault === undefined && end.answer.usageReported;
  const own = isKnown
    ? {
        tokens: tokensOf(end.answer.usage),
        costMicrousd: plan.costOf(performed.route, end.answer),
      }
    : bound;
  return { tokens: lost.tokens + own.tokens, costMicrousd: lost.costMicrousd + own.costMicrousd };
}

export function intentOf({ order, routes, bound, createdMs }: InFlightCall): Intent {
  const { who, context, model } = order;
  return {
    callId: order.callId,
    attempt: order.attempt,
    runId: who.runId,
    fence: who.fence,
    principal: who.principal,
    agent: who.agent,
    taskId: who.taskId,
    rootTaskId: who.rootTaskId,
    via: order.via,
    model: model.name,
    provider: routes[0]!.provider,
    upstreamModel: routes[0]!.model,
    rehearsal: model.rehearsal,
    purpose: order.purpose,
    requestHash: context.requestHash,
    context: context.messages.map((part) => part.hash).join(''),
    params: context.params.hash,
    reserved: bound,
    createdMs,
    parts: [...context.messages, context.params],
    event: attemptedEvent(order, routes[0]!, bound),
  };
}

export function outcomeOf(
  held: InFlightCall,
  how: CallEnd & { charged: Amount; spent: Spent[]; nowMs: number },
): CallOutcome {
  const { order, seq, tries, routes, createdMs } = held;
  const { charged, spent, nowMs, performed } = how;
  const reason = how.reason ?? how.end?.fault;
  const answer = reason === undefined ? how.end?.answer : undefined;
  const status = reason === undefined ? 'completed' : endedAs(reason);
  const route = performed?.route ?? routes[0]!;
  return {
    seq,
    callId: order.callId,
    status,
    provider: route.provider,
    upstreamModel: route.model,
    stopReason: answer?.stopReason ?? null,
    usage: answer?.usageReported === true ? answer.usage : null,
    charged,
    response: answer === undefined ? null : responsePart(order, how),
    error: reason?.toBody() ?? null,
    tries: tries.count,
    endedMs: nowMs,
    spent,
    event: endedEvent(order, {
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

function endedAs(reason: Fault): 'canceled' | 'failed' {
  return CANCELED.includes(reason.code) ? 'canceled' : 'failed';
}

/** A client's whole answer is kept as it came; everything else as our own message. */
function responsePart(order: Order, { performed, end }: CallEnd): ContextPart | null {
  const output = performed?.output;
  if (output === undefined || end === undefined || output.type === 'embeddings') return null;
  const { role, parts } = end.answer.message;
  const body = output.type === 'bytes' ? textOf(output.body) : canonicalJson({ role, parts });
  const labels = order.context.labels | labelsNow(order.who) | OWN;
  return { hash: sha256Hex(body), body, labels, source: `model:${performed!.route.model}` };
}

function textOf(body: Uint8Array | string): string {
  if (typeof body === 'string') return body;
  return Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8');
}
