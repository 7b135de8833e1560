// Whether a provider is worth asking: closed after failures in a row, tried again by one call at a
// time. Only what is the provider's own fault counts; a refused request or a full queue says
// nothing of it.
import type { Clock } from '../../../platform/clock.ts';
import type { Fault, FaultCode } from '../../../wire/errors.ts';

export type CircuitOptions = { failuresMax: number; openMs: number };

export const CIRCUIT: CircuitOptions = { failuresMax: 5, openMs: 15_000 };

export type Availability = { available: boolean; reason?: string; retryAfterMs?: number };

const COUNTED: readonly FaultCode[] = ['provider_down', 'provider_malformed', 'provider_auth'];

/** What a call reports when it is over. One of the two must be called, or `release`. */
export type CircuitToken = {
  succeed(): void;
  fail(fault: Fault): void;
  /** The call ended without saying anything about the provider. */
  release(): void;
};

export type Circuit = {
  /** Undefined when the provider is to be left alone now. */
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
          // A refused key does not get better by itself.
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
