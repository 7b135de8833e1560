// Trying again, and trying elsewhere: full jitter, Retry-After, a total time, a list of routes in
// order. Once the client was given a first byte, nothing is tried again: it would get two answers
// in one.
import type { Clock } from '../../../platform/clock.ts';
import { Fault, type FaultCode, fault } from '../../../wire/errors.ts';
import type { Circuit, CircuitToken } from './circuit.ts';

export type RetryPolicy = {
  /** Tries per route. */
  attemptsMax: number;
  baseMs: number;
  delayMsMax: number;
  /** With another route left, a longer wait is not worth it. */
  rerouteDelayMsMax: number;
};

export const RETRY: RetryPolicy = {
  attemptsMax: 3,
  baseMs: 250,
  delayMsMax: 8_000,
  rerouteDelayMsMax: 2_000,
};

export type ProviderTry<R> = {
  route: R;
  /** Counts from 1 over all routes. */
  number: number;
  /** What is left of the total time. */
  budgetMs: number;
  /** Must be called before the client is given anything. */
  commit(): void;
};

export type RouteRun<R, T> = {
  routes: readonly R[];
  getCircuit(route: R): Circuit;
  getName(route: R): string;
  attempt(current: ProviderTry<R>): Promise<T>;
  totalMs: number;
  clock: Clock;
  /** From 0 up to but not including 1. */
  random(): number;
  signal?: AbortSignal | undefined;
  policy?: RetryPolicy | undefined;
  /** For the record: a try that failed and what comes next. */
  onFailure?(failure: {
    route: R;
    number: number;
    fault: Fault;
    next: 'retry' | 'route' | 'end';
  }): void;
};

const RETRIED: readonly FaultCode[] = ['provider_down', 'provider_malformed', 'rate_limited'];
const REROUTED: readonly FaultCode[] = [...RETRIED, 'provider_auth', 'overloaded'];

/** A model that does not exist there, or an unpaid account, is that provider's matter alone. */
function canReroute(reason: Fault): boolean {
  if (REROUTED.includes(reason.code)) return true;
  const { upstream_status: status, unpaid } = reason.details ?? {};
  return reason.code === 'provider_refused' && (status === 404 || unpaid === true);
}

export function computeDelayMs(
  failure: { attempt: number; retryAfterMs: number | undefined },
  policy: RetryPolicy,
  random: () => number,
): number {
  const cap = Math.min(policy.delayMsMax, policy.baseMs * 2 ** (failure.attempt - 1));
  // Jitter comes on top of what the provider asked for: everybody else waits as long.
  if (failure.retryAfterMs !== undefined)
    return Math.ceil(failure.retryAfterMs + random() * policy.baseMs);
  return Math.ceil(random() * cap);
}

type RetryState<R> = {
  run: RouteRun<R, unknown>;
  endMs: number;
  number: number;
  isCommitted: boolean;
};

/** Throws the last try's fault when no route succeeded. */
export async function runRoutes<R, T>(run: RouteRun<R, T>): Promise<T> {
  const endMs = run.clock.nowMs() + run.totalMs;
  const state: RetryState<R> = { run, endMs, number: 0, isCommitted: false };
  const commit = () => {
    state.isCommitted = true;
  };
  for (const [index, route] of run.routes.entries()) {
    const hasNext = index < run.routes.length - 1;
    for (let attempt = 1; ; attempt++) {
      const asking = admit(state, route);
      let reason = asking.refused;
      if (asking.token !== undefined) {
        const { token, budgetMs } = asking;
        try {
          const value = await run.attempt({ route, number: state.number, budgetMs, commit });
          token.succeed();
          return value;
        } catch (error) {
          if (!(error instanceof Fault)) {
            token.release();
            throw error;
          }
          token.fail(error);
          reason = error;
        }
      }
      const failed = { route, attempt, hasNext, isAsked: asking.token !== undefined };
      const next = chooseNextStep(state, { ...failed, reason: reason! });
      if (next.step === 'end') throw reason!;
      if (next.step === 'route') break;
      await sleep(next.waitMs, run.clock, run.signal);
    }
  }
  throw fault('unavailable', 'this model has no route');
}

type TryAdmission =
  | { token: CircuitToken; budgetMs: number; refused?: undefined }
  | { token?: undefined; refused: Fault };

function admit<R>(state: RetryState<R>, route: R): TryAdmission {
  const { run } = state;
  const budgetMs = state.endMs - run.clock.nowMs();
  if (budgetMs <= 0)
    return { refused: fault('deadline', `no time is left to ask ${run.getName(route)}`) };
  const circuit = run.getCircuit(route);
  const token = circuit.acquire();
  if (token === undefined) return { refused: circuitOpenFault(run.getName(route), circuit) };
  state.number++;
  return { token, budgetMs };
}

function chooseNextStep<R>(
  state: RetryState<R>,
  failed: { route: R; attempt: number; hasNext: boolean; isAsked: boolean; reason: Fault },
): { step: 'retry' | 'route' | 'end'; waitMs: number } {
  const { run, isCommitted, number } = state;
  const { route, attempt, hasNext, isAsked: isSent, reason } = failed;
  const policy = run.policy ?? RETRY;
  const waitMs = computeDelayMs({ attempt, retryAfterMs: reason.retryAfterMs }, policy, run.random);
  const canRetry =
    isSent &&
    !isCommitted &&
    RETRIED.includes(reason.code) &&
    attempt < policy.attemptsMax &&
    run.clock.nowMs() + waitMs < state.endMs &&
    !(hasNext && waitMs > policy.rerouteDelayMsMax);
  const hasRoute = hasNext && !isCommitted && canReroute(reason);
  const step = canRetry ? 'retry' : hasRoute ? 'route' : 'end';
  run.onFailure?.({ route, number, fault: reason, next: step });
  return { step, waitMs };
}

function circuitOpenFault(name: string, circuit: Circuit): Fault {
  const { reason, retryAfterMs } = circuit.availability();
  return fault(
    'provider_down',
    `${name} is left alone for now after failures in a row: ${reason}`,
    {
      retryAfterMs,
    },
  );
}

function sleep(ms: number, clock: Clock, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      timer.cancel();
      reject(fault('canceled', 'the call was canceled while it waited to try again'));
    };
    const timer = clock.at(clock.nowMs() + ms, () => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    });
    if (signal?.aborted === true) onAbort();
    else signal?.addEventListener('abort', onAbort, { once: true });
  });
}
