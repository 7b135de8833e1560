// Retries a call and fails over to further routes, with full jitter, Retry-After and a total time.
// Once the client got a first byte nothing is retried: it would get two responses in one.
import type { Clock } from '../../../platform/clock.ts';
import { Fault, type FaultCode, fault } from '../../../wire/errors.ts';
import type { Circuit, CircuitToken } from './circuit.ts';

export type RetryPolicy = {
  /** Tries per route. */
  attemptsMax: number;
  baseMs: number;
  delayMsMax: number;
  /** A longer wait goes to the next route instead, if there is one. */
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
  /** The rest of the total time. */
  budgetMs: number;
  /** Must be called before anything is sent to the client. */
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
  /** Reports a failed try and the next step. */
  onFailure?(failure: {
    route: R;
    number: number;
    fault: Fault;
    next: 'retry' | 'route' | 'end';
  }): void;
};

const RETRIED: readonly FaultCode[] = ['provider_down', 'provider_malformed', 'rate_limited'];
const REROUTED: readonly FaultCode[] = [...RETRIED, 'provider_auth', 'overloaded'];

/** An unknown model or an unpaid account concerns only that provider. */
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
  // Jitter is added to Retry-After, because other clients wait equally long.
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
      const admission = admit(state, route);
      let reason = admission.refused;
      if (admission.token !== undefined) {
        const { token, budgetMs } = admission;
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
      const failed = { route, attempt, hasNext, isAsked: admission.token !== undefined };
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
    return { refused: fault('deadline', `no time is left to call ${run.getName(route)}`) };
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
  return fault('provider_down', `${name} is paused after consecutive failures: ${reason}`, {
    retryAfterMs,
  });
}

function sleep(ms: number, clock: Clock, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      timer.cancel();
      reject(fault('canceled', 'the call was canceled while it waited to retry'));
    };
    const timer = clock.at(clock.nowMs() + ms, () => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    });
    if (signal?.aborted === true) onAbort();
    else signal?.addEventListener('abort', onAbort, { once: true });
  });
}
