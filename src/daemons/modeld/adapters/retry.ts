// Trying again, and trying elsewhere: full jitter, Retry-After, a total time, a list of routes in
// order. Once the client was given a first byte, nothing is tried again: it would get two answers
// in one.
import type { Clock } from '../../../platform/clock.ts';
import { Fault, type FaultCode, fault } from '../../../wire/errors.ts';
import type { Circuit } from './circuit.ts';

export type RetryPolicy = {
  /** Tries per route. */
  attemptsMax: number;
  baseMs: number;
  delayMsMax: number;
  /** With another route left, a longer wait is not worth it. */
  patienceMs: number;
};

export const RETRY: RetryPolicy = {
  attemptsMax: 3,
  baseMs: 250,
  delayMsMax: 8_000,
  patienceMs: 2_000,
};

export type Try<R> = {
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
  circuitOf(route: R): Circuit;
  nameOf(route: R): string;
  attempt(current: Try<R>): Promise<T>;
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

const AGAIN: readonly FaultCode[] = ['provider_down', 'provider_malformed', 'rate_limited'];
const ELSEWHERE: readonly FaultCode[] = [...AGAIN, 'provider_auth', 'overloaded'];

/** A model that does not exist there, or an unpaid account, is that provider's matter alone. */
function helpsElsewhere(reason: Fault): boolean {
  if (ELSEWHERE.includes(reason.code)) return true;
  const { upstream_status: status, unpaid } = reason.details ?? {};
  return reason.code === 'provider_refused' && (status === 404 || unpaid === true);
}

export function delayMs(
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

export async function runRoutes<R, T>(run: RouteRun<R, T>): Promise<T> {
  const endMs = run.clock.nowMs() + run.totalMs;
  const state = { endMs, number: 0, isCommitted: false };
  let last: Fault | undefined;
  for (const [index, route] of run.routes.entries()) {
    const hasNext = index < run.routes.length - 1;
    const result = await tryRoute(run, route, state, hasNext);
    if ('value' in result) return result.value;
    last = result.fault;
    if (!hasNext || state.isCommitted || !helpsElsewhere(last)) throw last;
  }
  throw last ?? fault('unavailable', 'this model has no route');
}

type State = { endMs: number; number: number; isCommitted: boolean };

async function tryRoute<R, T>(
  run: RouteRun<R, T>,
  route: R,
  state: State,
  hasNext: boolean,
): Promise<{ value: T } | { fault: Fault }> {
  const policy = run.policy ?? RETRY;
  for (let attempt = 1; ; attempt++) {
    const result = await tryOnce(run, route, state);
    if ('value' in result) return result;
    const reason = result.fault;
    const waitMs = delayMs({ attempt, retryAfterMs: reason.retryAfterMs }, policy, run.random);
    const mayRetry =
      result.isAsked &&
      !state.isCommitted &&
      AGAIN.includes(reason.code) &&
      attempt < policy.attemptsMax &&
      run.clock.nowMs() + waitMs < state.endMs &&
      !(hasNext && waitMs > policy.patienceMs);
    const goesOn = hasNext && !state.isCommitted && helpsElsewhere(reason);
    run.onFailure?.({
      route,
      number: state.number,
      fault: reason,
      next: mayRetry ? 'retry' : goesOn ? 'route' : 'end',
    });
    if (!mayRetry) return { fault: reason };
    await sleep(waitMs, run.clock, run.signal);
  }
}

async function tryOnce<R, T>(
  run: RouteRun<R, T>,
  route: R,
  state: State,
): Promise<{ value: T } | { fault: Fault; isAsked: boolean }> {
  const budgetMs = state.endMs - run.clock.nowMs();
  if (budgetMs <= 0) {
    const late = fault('deadline', `no time is left to ask ${run.nameOf(route)}`);
    return { fault: late, isAsked: false };
  }
  const circuit = run.circuitOf(route);
  const permit = circuit.enter();
  if (permit === undefined) return { fault: leftAlone(run.nameOf(route), circuit), isAsked: false };
  state.number++;
  try {
    const commit = () => {
      state.isCommitted = true;
    };
    const value = await run.attempt({ route, number: state.number, budgetMs, commit });
    permit.succeed();
    return { value };
  } catch (error) {
    if (!(error instanceof Fault)) {
      permit.release();
      throw error;
    }
    permit.fail(error);
    return { fault: error, isAsked: true };
  }
}

function leftAlone(name: string, circuit: Circuit): Fault {
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
