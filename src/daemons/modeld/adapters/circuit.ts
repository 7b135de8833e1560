// A circuit breaker per provider: opens after consecutive failures, then lets one call at a time
// probe. Only the provider's own failures count, not refused requests or a full queue.
import type { Clock } from '../../../platform/clock.ts';
import type { Fault, FaultCode } from '../../../wire/errors.ts';

export type CircuitOptions = { failuresMax: number; openMs: number };

export const CIRCUIT: CircuitOptions = { failuresMax: 5, openMs: 15_000 };

export type Availability = { available: boolean; reason?: string; retryAfterMs?: number };

const COUNTED: readonly FaultCode[] = ['provider_down', 'provider_malformed', 'provider_auth'];

/** Every call must report its end with exactly one of these. */
export type CircuitToken = {
  succeed(): void;
  fail(fault: Fault): void;
  /** The call's end says nothing about the provider. */
  release(): void;
};

export type Circuit = {
  /** Returns undefined while the circuit is open. */
  acquire(): CircuitToken | undefined;
  availability(): Availability;
};

export function makeCircuit(clock: Pick<Clock, 'nowMs'>, options = CIRCUIT): Circuit {
  let failures = 0;
  let openUntilMs = 0;
  let isProbing = false;
  let lastReason = '';

  const isOpen = (): boolean => failures >= options.failuresMax;

  const makeToken = (isProbe: boolean): CircuitToken => {
    let isOver = false;
    const finish = (then: () => void): void => {
      if (isOver) return;
      isOver = true;
      if (isProbe) isProbing = false;
      then();
    };
    return {
      succeed: () =>
        finish(() => {
          failures = 0;
        }),
      fail: (reason) =>
        finish(() => {
          if (!COUNTED.includes(reason.code)) return;
          lastReason = reason.message;
          // A rejected key does not recover by itself.
          failures = reason.code === 'provider_auth' ? options.failuresMax : failures + 1;
          if (isOpen()) openUntilMs = clock.nowMs() + (reason.retryAfterMs ?? options.openMs);
        }),
      release: () => finish(() => {}),
    };
  };

  return {
    acquire() {
      if (!isOpen()) return makeToken(false);
      if (isProbing || clock.nowMs() < openUntilMs) return undefined;
      isProbing = true;
      return makeToken(true);
    },
    availability() {
      if (!isOpen()) return { available: true };
      const retryAfterMs = Math.max(0, openUntilMs - clock.nowMs());
      return { available: false, reason: lastReason, retryAfterMs };
    },
  };
}
