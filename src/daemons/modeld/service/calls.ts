// The one way a model is called, whatever was asked and however: reserve → intent → audit →
// provider → settle → outcome. Nothing goes out before the attempt is committed here and durable in
// the audit log, and whatever happens the reservation is settled exactly once.
import type { Clock } from '../../../platform/clock.ts';
import type { Log } from '../../../platform/log.ts';
import type { Metrics } from '../../../platform/metrics.ts';
import type { Outbox } from '../../../platform/outbox.ts';
import { Fault, type FaultCode, fault } from '../../../wire/errors.ts';
import type { EventDraft } from '../../../wire/events.ts';
import type { Budgets, Reservation } from '../budgets.ts';
import { type Amount, budgetFault, budgetsOf, dayOf } from '../rules/budget.ts';
import { allowedRoutes } from '../rules/labels.ts';
import type { CallOutcome } from '../store/entries.ts';
import type { Journal, WrittenIntent } from '../store/journal.ts';
import { refusedEvent } from './events.ts';
import { chargeOf, type InFlightCall, intentOf, outcomeOf, times } from './in-flight-call.ts';
import type { Order, Verdict } from './order.ts';
import type { CheckModelUse } from './permission.ts';
import type { ModelResult, Performed, RoutePlan, Upstream } from './ports.ts';
import { labelsNow } from './runs.ts';

/** A call whose provider has answered, or begun to. */
export type CallResponse = Performed & {
  /**
   * Resolves when it is settled and, where a replay depends on it, durable. Throws how it failed.
   */
  finished: Promise<{ ended: ModelResult; costMicrousd: number }>;
};

export type CallsDeps = {
  permit: CheckModelUse;
  upstream: Upstream;
  budgets: Budgets;
  journal: Journal;
  outbox: Outbox;
  clock: Clock;
  log: Log;
  metrics: Metrics;
  /** Writes down that a call was refused. */
  refused(makeEvent: (id: string) => EventDraft): void;
  failpoint(name: string): void;
};

const NOTHING: Amount = { tokens: 0, costMicrousd: 0 };
const REFUSALS: readonly FaultCode[] = [
  'denied',
  'budget',
  'limit',
  'data_not_allowed',
  'context_too_long',
];
const REFUSALS_KEPT_MAX = 10_000;
const REFUSAL_EVERY_MS = 1_000;
const ABORT_WAIT_MS = 2_000;

export class ModelCalls {
  readonly #parts: CallsDeps;
  readonly #inFlight = new Set<InFlightCall>();
  /** Answered, and not settled or written yet. */
  #ending = 0;
  /** What was refused → when it was last written down. */
  readonly #refusals = new Map<string, number>();

  constructor(parts: CallsDeps) {
    this.#parts = parts;
  }

  /** Asks the provider; throws when there is no answer. The call is settled either way. */
  async perform(order: Order): Promise<CallResponse> {
    const { log, failpoint, journal } = this.#parts;
    if (order.who.run !== undefined) order.verdict = await this.#judge(order);
    const held = this.#hold(order);
    this.#enter(held);
    let intent: WrittenIntent;
    try {
      failpoint('modeld.before-intent');
      intent = await journal.intent(intentOf(held));
      held.seq = intent.seq;
      failpoint('modeld.after-intent');
    } catch (error) {
      this.#undo(held);
      throw error;
    }
    try {
      await intent.recorded();
      failpoint('modeld.after-attempt-durable');
      const { signal } = order.controller;
      if (signal.aborted) throw abortFault(signal);
      const performed = await this.#callProvider(held);
      failpoint('modeld.after-upstream');
      return { ...performed, finished: this.#finish(held, performed) };
    } catch (error) {
      const reason = asFault(error, log);
      // A full disk must not hide why the call failed; the journal keeps trying.
      await this.#end(held, { reason }).written?.catch(() => undefined);
      throw reason;
    }
  }

  /**
   * Lets calls end by themselves for a while, then ends them; resolves when all is settled and
   * written.
   */
  async drain(waitMs: number): Promise<void> {
    if (!(await this.#isQuiet(waitMs))) {
      for (const { order } of this.#inFlight)
        order.controller.abort(fault('stopping', 'the runtime is stopping'));
      await this.#isQuiet(ABORT_WAIT_MS);
    }
    while (this.#ending > 0) await sleepBriefly();
    await this.#parts.journal.flush();
  }

  count(): number {
    return this.#inFlight.size;
  }

  async #isQuiet(waitMs: number): Promise<boolean> {
    const end = performance.now() + waitMs;
    while (this.#inFlight.size > 0 && performance.now() < end) await sleepBriefly();
    return this.#inFlight.size === 0;
  }

  async #judge(order: Order): Promise<Verdict> {
    try {
      return await this.#parts.permit(order);
    } catch (error) {
      this.#noteRefusal(order, error);
      throw error;
    }
  }

  /** Nothing of it was written. */
  #undo(held: InFlightCall): void {
    this.#leave(held);
    this.#parts.budgets.settle(held.reservations[0]!, NOTHING);
    if (isStep(held.order)) held.order.who.run!.steps--;
  }

  /** Everything that may refuse a call, and the reservation, in one go without waiting. */
  #hold(order: Order): InFlightCall {
    const { budgets, upstream, outbox, clock } = this.#parts;
    if (order.controller.signal.aborted) throw abortFault(order.controller.signal);
    // A call that waited is not in flight yet, so the end of its activation did not abort it.
    if (order.who.run?.ended !== undefined) throw order.who.run.ended;
    outbox.assertAuditAccepting();
    try {
      const open = allowedRoutes(order.routes, order.context.labels | labelsNow(order.who));
      if ('refused' in open) throw open.refused;
      const plan = upstream.plan(order.ask, order.model, open.open);
      assertFits(order, plan);
      if (isStep(order)) assertStepLeft(order);
      const createdMs = clock.nowMs();
      const keys = budgetsOf({ ...order.who, day: dayOf(createdMs) });
      const taken = budgets.reserve(keys, plan.bound);
      if ('budget' in taken) throw budgetFault(taken);
      if (isStep(order)) order.who.run!.steps++;
      return newInFlightCall({ order, plan, keys, routes: open.open, createdMs }, taken);
    } catch (error) {
      this.#noteRefusal(order, error);
      throw error;
    }
  }

  /**
   * Once per named call, else once a second per caller: who asks in a circle must not fill the log.
   */
  #noteRefusal(order: Order, error: unknown): void {
    if (!(error instanceof Fault) || !REFUSALS.includes(error.code)) return;
    const { who, callId, isReplayed } = order;
    const known = `${isReplayed ? callId : (who.runId ?? who.principal)} ${error.code}`;
    const nowMs = this.#parts.clock.nowMs();
    const lastMs = this.#refusals.get(known);
    if (lastMs !== undefined && (isReplayed || nowMs - lastMs < REFUSAL_EVERY_MS)) return;
    if (this.#refusals.size >= REFUSALS_KEPT_MAX) this.#refusals.clear();
    this.#refusals.set(known, nowMs);
    this.#parts.refused((id) => refusedEvent(id, order, error));
  }

  /** From here on it can be stopped, and a drain waits for it. */
  #enter(held: InFlightCall): void {
    const { controller, who } = held.order;
    who.run?.inFlight.add(controller);
    this.#inFlight.add(held);
  }

  #leave(held: InFlightCall): void {
    const { controller, who } = held.order;
    who.run?.inFlight.delete(controller);
    this.#inFlight.delete(held);
  }

  #callProvider(held: InFlightCall): Promise<Performed> {
    const { plan, tries, outputTokensMax, bound, order, reservations } = held;
    return plan.run({
      outputTokensMax,
      isLimited: this.#parts.budgets.isLimited(reservations[0]!),
      tokensReserved: bound.tokens,
      totalMs: order.deadlineMs,
      signal: order.controller.signal,
      tries,
      beforeTry: () => this.#coverTry(held),
    });
  }

  /**
   * When an earlier try may be billed, the next one needs money of its own, durably, or is not
   * made.
   */
  async #coverTry({ seq, tries, reservations, bound, keys }: InFlightCall): Promise<void> {
    if (tries.lost < reservations.length) return;
    const more = this.#parts.budgets.reserve(keys, {
      inputTokens: bound.tokens,
      outputTokensWanted: 0,
      costOf: () => bound.costMicrousd,
    });
    if ('budget' in more) throw budgetFault(more);
    reservations.push(more);
    await this.#parts.journal.raise(seq, times(bound, reservations.length));
  }

  async #finish(held: InFlightCall, performed: Performed): CallResponse['finished'] {
    this.#ending++;
    try {
      const end = await performed.ended;
      const { charged, written } = this.#end(held, { performed, end });
      if (written !== undefined) await written;
      if (end.fault !== undefined) throw end.fault;
      return { ended: end, costMicrousd: charged.costMicrousd };
    } finally {
      this.#ending--;
    }
  }

  /**
   * Settles and writes the outcome: called exactly once per call. `written` where a replay depends
   * on it.
   */
  #end(
    held: InFlightCall,
    how: { performed?: Performed; end?: ModelResult; reason?: Fault },
  ): { charged: Amount; written?: Promise<void> } {
    const { budgets, journal, clock, metrics } = this.#parts;
    this.#leave(held);
    const charged = chargeOf(held, how);
    const [first, ...extra] = held.reservations;
    const spent = budgets.settle(first!, charged);
    for (const one of extra) budgets.settle(one, NOTHING);
    const outcome = outcomeOf(held, { ...how, charged, spent, nowMs: clock.nowMs() });
    metrics.count('model_calls', { provider: outcome.provider, status: outcome.status });
    metrics.observeMs('model_call', outcome.endedMs - held.createdMs);
    metrics.count('model_tokens', {}, charged.tokens);
    metrics.count('model_cost_microusd', {}, charged.costMicrousd);
    if (held.order.isReplayed) return { charged, written: this.#write(outcome) };
    journal.deferOutcome(outcome);
    return { charged };
  }

  async #write(outcome: CallOutcome): Promise<void> {
    await this.#parts.journal.outcome(outcome);
    this.#parts.failpoint('modeld.after-outcome');
  }
}

function sleepBriefly(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 5));
}

function newInFlightCall(
  known: Pick<InFlightCall, 'order' | 'plan' | 'keys' | 'routes' | 'createdMs'>,
  taken: Reservation,
): InFlightCall {
  return {
    ...known,
    reservations: [taken],
    bound: taken.amount,
    outputTokensMax: taken.outputTokensMax,
    tries: { count: 0, lost: 0, chain: [] },
    seq: 0,
  };
}

/** A second attempt at the same call is not one more step of the run. */
function isStep({ via, attempt, who }: Order): boolean {
  return via !== 'embed' && attempt === 1 && who.run !== undefined;
}

function assertStepLeft({ who }: Order): void {
  const { runId, steps, stepsMax } = who.run!;
  if (steps < stepsMax) return;
  throw fault('limit', `${runId} has made its ${stepsMax} model calls`, {
    hint: 'End the task with what is there, or start one with a higher --max-steps.',
    details: { max_steps: stepsMax },
  });
}

/** By a guess of four bytes a token: the bound would refuse much that fits. */
function assertFits(
  { model, inputTokensMax }: Order,
  { inputTokensGuess: guess }: RoutePlan,
): void {
  // Near the window the provider decides: it can count.
  const window = model.isExact ? model.contextTokens * 1.5 : Number.POSITIVE_INFINITY;
  const most = Math.min(inputTokensMax ?? window, window);
  if (guess <= most) return;
  const limit =
    inputTokensMax !== undefined && inputTokensMax <= window
      ? `the limit of this call is ${inputTokensMax}`
      : `the window of ${model.name} is ${model.contextTokens}`;
  throw fault('context_too_long', `the input has about ${guess} tokens; ${limit}`, {
    details: { input_tokens_guess: guess },
  });
}

function abortFault(signal: AbortSignal): Fault {
  const reason: unknown = signal.reason;
  return reason instanceof Fault ? reason : fault('canceled', 'the caller went away');
}

function asFault(error: unknown, log: Log): Fault {
  if (error instanceof Fault) return error;
  log.error('a model call broke', { error });
  return fault('internal', 'the model call broke', { cause: error });
}
