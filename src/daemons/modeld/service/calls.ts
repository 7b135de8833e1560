// Makes every model call: reserve → intent → audit → provider → settle → outcome. Nothing is sent
// before the attempt is committed here and durable in the audit log, and each reservation is
// settled exactly once.
import type { Clock } from '../../../platform/clock.ts';
import type { Log } from '../../../platform/log.ts';
import type { Metrics } from '../../../platform/metrics.ts';
import type { Outbox } from '../../../platform/outbox.ts';
import { Fault, type FaultCode, fault } from '../../../wire/errors.ts';
import type { EventDraft } from '../../../wire/events.ts';
import type { Budgets, Reservation } from '../budgets.ts';
import {
  type Amount,
  type BudgetKey,
  budgetFault,
  listBudgets,
  listPayers,
  toDay,
} from '../rules/budget.ts';
import { filterRoutes } from '../rules/labels.ts';
import type { ModelRoute, ResolvedModel } from '../rules/models.ts';
import type { CallOutcome } from '../store/entries.ts';
import type { Journal, WrittenIntent } from '../store/journal.ts';
import type { KeyUse } from './api-keys.ts';
import { BudgetQueue, type ReserveAttempt } from './budget-queue.ts';
import { assertFits, assertStepLeft, isStep } from './call-limits.ts';
import { makeRefusedEvent } from './events.ts';
import {
  type CallEnd,
  computeCharge,
  type InFlightCall,
  makeIntent,
  makeOutcome,
  multiply,
} from './in-flight-call.ts';
import { type ModelCall, type ModelUseDecision, makeAbortFault } from './model-call.ts';
import type { CheckFetches, CheckModelUse } from './permission.ts';
import type {
  ModelResult,
  ProviderResult,
  ResponseObserver,
  RoutePlan,
  Upstream,
} from './ports.ts';
import { type CallerIdentity, readLabels } from './runs.ts';

/** A call whose provider has responded, or started to. */
export type CallResponse = ProviderResult & {
  /** Resolves when settled and, where a replay depends on it, durable. Throws the call's fault. */
  finished: Promise<{ ended: ModelResult; costMicrousd: number }>;
};

export type CallsDeps = {
  checkModelUse: CheckModelUse;
  /** Throws if this API key may not make this call. */
  admitKey(key: KeyUse, model: Pick<ResolvedModel, 'asked' | 'kind'>): void;
  checkFetches: CheckFetches;
  upstream: Upstream;
  budgets: Budgets;
  journal: Journal;
  outbox: Outbox;
  clock: Clock;
  log: Log;
  metrics: Metrics;
  recordRefusal(makeEvent: (id: string) => EventDraft): void;
  observerFor(call: ModelCall): ResponseObserver | undefined;
  failpoint(name: string): void;
};

const NO_AMOUNT: Amount = { tokens: 0, costMicrousd: 0 };
const REFUSALS: readonly FaultCode[] = [
  'denied',
  'budget',
  'limit',
  'data_not_allowed',
  'context_too_long',
];
const REFUSALS_MAX = 10_000;
const REFUSAL_INTERVAL_MS = 1_000;
const ABORT_TIMEOUT_MS = 2_000;
const POLL_INTERVAL_MS = 5;
/** The least of a call's time that a wait leaves for the provider. */
const WAIT_MARGIN_MS = 60_000;

export class ModelCalls {
  readonly #deps: CallsDeps;
  readonly #inFlight = new Set<InFlightCall>();
  /** Those of API keys, also while they wait for a budget. */
  readonly #ofKeys = new Set<ModelCall>();
  readonly #queue: BudgetQueue;
  /** Calls with a response that are not settled and written. */
  #ending = 0;
  /** Caller or call and fault code → when its refusal was last recorded. */
  readonly #refusals = new Map<string, number>();

  constructor(deps: CallsDeps) {
    this.#deps = deps;
    this.#queue = new BudgetQueue(deps.clock);
    deps.budgets.onReleased = () => this.#queue.release();
  }

  /** Throws when there is no response. The call is settled either way. */
  async perform(call: ModelCall): Promise<CallResponse> {
    const { log, failpoint, journal } = this.#deps;
    if (call.identity.run !== undefined) call.decision = await this.#decide(call);
    const inFlight = await this.#reserve(call);
    let intent: WrittenIntent;
    try {
      failpoint('modeld.before-intent');
      intent = await journal.intent(makeIntent(inFlight));
      inFlight.seq = intent.seq;
      failpoint('modeld.after-intent');
    } catch (error) {
      this.#undo(inFlight);
      throw error;
    }
    try {
      await intent.recorded();
      failpoint('modeld.after-attempt-durable');
      const { signal } = call.controller;
      if (signal.aborted) throw makeAbortFault(signal);
      const performed = await this.#callProvider(inFlight);
      failpoint('modeld.after-upstream');
      return { ...performed, finished: this.#finish(inFlight, performed) };
    } catch (error) {
      const reason = asFault(error, log);
      // A full disk must not hide why the call failed; the journal keeps trying.
      await this.#end(inFlight, { reason }).written?.catch(() => undefined);
      throw reason;
    }
  }

  /** Throws unless the caller may make this call now; for one that is answered without it. */
  async assertMayCall(call: ModelCall): Promise<void> {
    if (call.identity.key !== undefined) this.#deps.admitKey(call.identity.key, call.model);
    if (call.identity.run !== undefined) await this.#decide(call);
  }

  /** Waits for calls to end, then aborts them. Resolves when all are settled and written. */
  async drain(waitMs: number): Promise<void> {
    this.#queue.close(fault('stopping', 'the runtime is stopping'));
    if (!(await this.#waitUntilIdle(waitMs))) {
      for (const { call } of this.#inFlight)
        call.controller.abort(fault('stopping', 'the runtime is stopping'));
      await this.#waitUntilIdle(ABORT_TIMEOUT_MS);
    }
    while (this.#ending > 0) await sleepBriefly();
    await this.#deps.journal.flush();
  }

  count(): number {
    return this.#inFlight.size;
  }

  countWaiting(): number {
    return this.#queue.count();
  }

  /** Aborts the calls that these secrets of API keys opened; each is settled as usual. */
  cutCalls(secretIds: ReadonlySet<string>, reason: Fault): void {
    for (const { identity, controller } of this.#ofKeys)
      if (secretIds.has(identity.key!.secretId)) controller.abort(reason);
  }

  async #waitUntilIdle(waitMs: number): Promise<boolean> {
    const end = performance.now() + waitMs;
    while (this.#inFlight.size > 0 && performance.now() < end) await sleepBriefly();
    return this.#inFlight.size === 0;
  }

  async #decide(call: ModelCall): Promise<ModelUseDecision> {
    try {
      const decision = await this.#deps.checkModelUse(call);
      await this.#deps.checkFetches(call);
      return decision;
    } catch (error) {
      this.#recordRefusal(call, error);
      throw error;
    }
  }

  /** Only for a call of which nothing was written. */
  #undo(inFlight: InFlightCall): void {
    this.#remove(inFlight);
    this.#deps.budgets.settle(inFlight.reservations[0]!, NO_AMOUNT);
    if (isStep(inFlight.call)) inFlight.call.identity.run!.steps--;
  }

  /** Waits for what others have reserved, if need be. Throws what refused the call. */
  async #reserve(call: ModelCall): Promise<InFlightCall> {
    const { clock } = this.#deps;
    const { controller, identity } = call;
    const startMs = clock.nowMs();
    // While it waits, too, it ends with its activation.
    identity.run?.inFlight.add(controller);
    try {
      if (identity.key !== undefined) {
        this.#deps.admitKey(identity.key, call.model);
        this.#ofKeys.add(call);
      }
      const plan = makePlanner(call, this.#deps.upstream);
      const inFlight = await this.#queue.reserve({
        keys: this.#listBudgets(identity, startMs),
        attempt: (mayWait) => this.#tryReserve(call, plan, mayWait),
        signal: controller.signal,
        waitMs: Math.max(call.deadlineMs - WAIT_MARGIN_MS, call.deadlineMs / 2),
      });
      const waitedMs = inFlight.createdMs - startMs;
      call.deadlineMs = Math.max(1, call.deadlineMs - waitedMs);
      return inFlight;
    } catch (error) {
      identity.run?.inFlight.delete(controller);
      this.#ofKeys.delete(call);
      this.#recordRefusal(call, error);
      throw error;
    }
  }

  #listBudgets(identity: CallerIdentity, ms: number): BudgetKey[] {
    const day = toDay(ms);
    const own = this.#deps.budgets.listPayerKeys(listPayers(identity), day);
    return [...listBudgets({ ...identity, day }), ...own];
  }

  /** Runs all checks and reserves, without awaiting in between. */
  #tryReserve(call: ModelCall, plan: Planner, mayWait: boolean): ReserveAttempt<InFlightCall> {
    const { budgets, outbox, clock } = this.#deps;
    if (call.controller.signal.aborted) throw makeAbortFault(call.controller.signal);
    // The activation may have ended while policy decided, before the call could be aborted.
    if (call.identity.run?.ended !== undefined) throw call.identity.run.ended;
    outbox.assertAuditAccepting();
    const planned = plan();
    if (isStep(call)) assertStepLeft(call);
    const createdMs = clock.nowMs();
    const keys = this.#listBudgets(call.identity, createdMs);
    const reservation = budgets.reserve(keys, planned.plan.bound, { mayWait });
    if ('blockedBy' in reservation) return reservation;
    if ('budget' in reservation) throw budgetFault(reservation);
    if (isStep(call)) call.identity.run!.steps++;
    const value = newInFlightCall({ call, keys, createdMs, ...planned }, reservation);
    this.#add(value);
    return { value };
  }

  /** Once per named call, else once a second per caller, so that a loop cannot fill the log. */
  #recordRefusal(call: ModelCall, error: unknown): void {
    if (!(error instanceof Fault) || !REFUSALS.includes(error.code)) return;
    const { identity, callId, isReplayed } = call;
    const key = `${isReplayed ? callId : (identity.runId ?? identity.principal)} ${error.code}`;
    const nowMs = this.#deps.clock.nowMs();
    const lastMs = this.#refusals.get(key);
    if (lastMs !== undefined && (isReplayed || nowMs - lastMs < REFUSAL_INTERVAL_MS)) return;
    if (this.#refusals.size >= REFUSALS_MAX) this.#refusals.clear();
    this.#refusals.set(key, nowMs);
    this.#deps.recordRefusal((id) => makeRefusedEvent(id, call, error));
  }

  /** Makes the call abortable and visible to drain(). */
  #add(inFlight: InFlightCall): void {
    const { controller, identity } = inFlight.call;
    identity.run?.inFlight.add(controller);
    this.#inFlight.add(inFlight);
  }

  #remove(inFlight: InFlightCall): void {
    const { controller, identity } = inFlight.call;
    identity.run?.inFlight.delete(controller);
    this.#ofKeys.delete(inFlight.call);
    this.#inFlight.delete(inFlight);
  }

  #callProvider(inFlight: InFlightCall): Promise<ProviderResult> {
    const { plan, tries, outputTokensMax, bound, call, reservations } = inFlight;
    return plan.run({
      outputTokensMax,
      isLimited: this.#deps.budgets.isLimited(reservations[0]!),
      tokensReserved: bound.tokens,
      totalMs: call.deadlineMs,
      signal: call.controller.signal,
      tries,
      beforeTry: () => this.#coverTry(inFlight),
      observer: this.#deps.observerFor(call),
    });
  }

  /** When an earlier try may be billed, the next one needs a durable reservation of its own. */
  async #coverTry({ seq, tries, reservations, bound, keys }: InFlightCall): Promise<void> {
    if (tries.lost < reservations.length) return;
    const more = this.#deps.budgets.reserve(keys, {
      inputTokens: bound.tokens,
      outputTokensWanted: 0,
      computeCost: () => bound.costMicrousd,
    });
    if ('budget' in more) throw budgetFault(more);
    if ('blockedBy' in more) throw new Error('a try never waits for money');
    reservations.push(more);
    await this.#deps.journal.raise(seq, multiply(bound, reservations.length));
  }

  async #finish(inFlight: InFlightCall, performed: ProviderResult): CallResponse['finished'] {
    this.#ending++;
    try {
      const end = await performed.ended;
      const { charged, written } = this.#end(inFlight, { performed, end });
      if (written !== undefined) await written;
      if (end.fault !== undefined) throw end.fault;
      return { ended: end, costMicrousd: charged.costMicrousd };
    } finally {
      this.#ending--;
    }
  }

  /** Settles and writes the outcome, once per call. A replay depends on `written`, if present. */
  #end(inFlight: InFlightCall, end: CallEnd): { charged: Amount; written?: Promise<void> } {
    const { budgets, journal, clock, metrics } = this.#deps;
    this.#remove(inFlight);
    const charged = computeCharge(inFlight, end);
    const [first, ...extra] = inFlight.reservations;
    const spent = budgets.settle(first!, charged);
    for (const reservation of extra) budgets.settle(reservation, NO_AMOUNT);
    const outcome = makeOutcome(inFlight, { ...end, charged, spent, nowMs: clock.nowMs() });
    metrics.count('model_calls', { provider: outcome.provider, status: outcome.status });
    metrics.observeMs('model_call', outcome.endedMs - inFlight.createdMs);
    metrics.count('model_tokens', {}, charged.tokens);
    metrics.count('model_cost_microusd', {}, charged.costMicrousd);
    if (inFlight.call.isReplayed) return { charged, written: this.#write(outcome) };
    journal.deferOutcome(outcome);
    return { charged };
  }

  async #write(outcome: CallOutcome): Promise<void> {
    await this.#deps.journal.outcome(outcome);
    this.#deps.failpoint('modeld.after-outcome');
  }
}

type Planner = () => { plan: RoutePlan; routes: readonly ModelRoute[] };

/** Plans the call for the routes that may see its labels, which can grow while it waits. */
function makePlanner(call: ModelCall, upstream: Pick<Upstream, 'plan'>): Planner {
  let made: ReturnType<Planner> | undefined;
  let madeFor = -1;
  return () => {
    const labels = call.context.labels | readLabels(call.identity);
    if (made !== undefined && madeFor === labels) return made;
    const open = filterRoutes(call.routes, labels);
    if ('refused' in open) throw open.refused;
    const plan = upstream.plan(call.input, call.model, open.open);
    assertFits(call, plan);
    madeFor = labels;
    made = { plan, routes: open.open };
    return made;
  };
}

function sleepBriefly(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL_MS));
}

function newInFlightCall(
  known: Pick<InFlightCall, 'call' | 'plan' | 'keys' | 'routes' | 'createdMs'>,
  reservation: Reservation,
): InFlightCall {
  return {
    ...known,
    reservations: [reservation],
    bound: reservation.amount,
    outputTokensMax: reservation.outputTokensMax,
    tries: { count: 0, lost: 0, chain: [] },
    seq: 0,
  };
}

function asFault(error: unknown, log: Log): Fault {
  if (error instanceof Fault) return error;
  log.error('model call failed', { error });
  return fault('internal', 'the model call failed', { cause: error });
}
