// Tests retries and failover: when, with which delay, and never after the client has bytes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type ManualClock, manualClock } from '../../../platform/clock.ts';
import { Fault, type FaultCode, type FaultExtra, fault } from '../../../wire/errors.ts';
import { type Circuit, makeCircuit } from './circuit.ts';
import { computeDelayMs, type ProviderTry, RETRY, type RouteRun, runRoutes } from './retry.ts';

const down = (extra?: FaultExtra) => fault('provider_down', 'down', extra);
const isFault = (code: string) => (error: unknown) => error instanceof Fault && error.code === code;

/** Advances the clock whenever the run waits for it. */
async function drive<T>(clock: ManualClock, work: Promise<T>): Promise<T> {
  let isOver = false;
  const settled = work.finally(() => {
    isOver = true;
  });
  settled.catch(() => {});
  while (!isOver) {
    await new Promise((resolve) => setImmediate(resolve));
    if (!isOver) clock.advance(10);
  }
  return settled;
}

type Plan = Record<string, (Fault | 'ok')[]>;

function play(plan: Plan, more: Partial<RouteRun<string, string>> = {}) {
  const clock = manualClock(0);
  const circuits = new Map<string, Circuit>();
  const tries: { route: string; atMs: number; budgetMs: number }[] = [];
  const next: string[] = [];
  const run = runRoutes<string, string>({
    routes: Object.keys(plan),
    getCircuit: (route) => {
      const circuit = circuits.get(route) ?? makeCircuit(clock);
      circuits.set(route, circuit);
      return circuit;
    },
    getName: (route) => route,
    attempt: async ({ route, budgetMs }) => {
      tries.push({ route, atMs: clock.nowMs(), budgetMs });
      const result = plan[route]?.shift() ?? 'ok';
      if (result === 'ok') return `${route} answered`;
      throw result;
    },
    totalMs: 60_000,
    clock,
    random: () => 0.5,
    onFailure: (failure) => next.push(failure.next),
    ...more,
  });
  return { result: drive(clock, run), tries, next, clock };
}

test('transient failures are retried with growing delays', async () => {
  const { result, tries, next } = play({ a: [down(), down(), 'ok'] });
  assert.equal(await result, 'a answered');
  assert.equal(tries.length, 3);
  assert.ok(tries[1]!.atMs >= 125 && tries[2]!.atMs - tries[1]!.atMs >= 250);
  assert.deepEqual(next, ['retry', 'retry']);
});

test('Retry-After is respected', async () => {
  const { result, tries } = play({
    a: [fault('rate_limited', 'w', { retryAfterMs: 5_000 }), 'ok'],
  });
  await result;
  assert.ok(tries[1]!.atMs >= 5_000);
});

test('a long delay goes to the next route instead', async () => {
  const wait = fault('rate_limited', 'w', { retryAfterMs: 5_000 });
  const { result, tries } = play({ a: [wait], b: ['ok'] });
  assert.equal(await result, 'b answered');
  assert.ok(tries[1]!.atMs < 1_000);
});

test('a delay beyond the total time ends the call with its fault', async () => {
  const wait = fault('rate_limited', 'w', { retryAfterMs: 90_000 });
  const { result, tries } = play({ a: [wait] });
  await assert.rejects(result, (error: Fault) => error.retryAfterMs === 90_000);
  assert.equal(tries.length, 1);
});

const kinds: [FaultCode, FaultExtra | undefined, string[]][] = [
  ['provider_down', undefined, ['a', 'a', 'a', 'b']],
  ['provider_malformed', undefined, ['a', 'a', 'a', 'b']],
  ['provider_auth', undefined, ['a', 'b']],
  ['overloaded', undefined, ['a', 'b']],
  ['provider_refused', { details: { upstream_status: 404 } }, ['a', 'b']],
  ['provider_refused', { details: { upstream_status: 429, unpaid: true } }, ['a', 'b']],
  ['provider_refused', { details: { upstream_status: 400 } }, ['a']],
  ['context_too_long', undefined, ['a']],
  ['canceled', undefined, ['a']],
  ['budget', undefined, ['a']],
  ['deadline', undefined, ['a']],
];
for (const [code, extra, expected] of kinds) {
  test(`${code} ${JSON.stringify(extra?.details ?? {})}: the tries go to ${expected.join(', ')}`, async () => {
    const same = Array.from({ length: 9 }, () => fault(code, 'm', extra));
    const { result, tries } = play({ a: same, b: ['ok'] });
    await result.catch((error) => assert.ok(isFault(code)(error)));
    assert.deepEqual(
      tries.map((entry) => entry.route),
      expected,
    );
  });
}

test('nothing is retried once the client got something', async () => {
  const seen: string[] = [];
  const attempt = async (current: ProviderTry<string>) => {
    seen.push(current.route);
    current.commit();
    throw down();
  };
  await assert.rejects(play({ a: [], b: [] }, { attempt }).result, isFault('provider_down'));
  assert.deepEqual(seen, ['a']);
});

test('the tries share one total time', async () => {
  const { result, tries } = play({ a: Array.from({ length: 9 }, () => down()) }, { totalMs: 300 });
  await assert.rejects(result, isFault('provider_down'));
  assert.ok(tries.every((entry) => entry.atMs < 300 && entry.budgetMs <= 300 - entry.atMs));
});

test('a cancel ends the wait', async () => {
  const abort = new AbortController();
  const { result } = play(
    { a: [fault('rate_limited', 'w', { retryAfterMs: 30_000 }), 'ok'] },
    { signal: abort.signal, onFailure: () => setImmediate(() => abort.abort()) },
  );
  await assert.rejects(result, isFault('canceled'));
});

test('a bug is not retried and releases its circuit token', async () => {
  const attempt = async () => {
    throw new TypeError('bug');
  };
  await assert.rejects(play({ a: [], b: [] }, { attempt }).result, TypeError);
});

test('a model without routes is unavailable', async () => {
  await assert.rejects(play({}).result, isFault('unavailable'));
});

test('delays are within full jitter, and never shorter than Retry-After', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 20 }),
      fc.option(fc.nat({ max: 60_000 }), { nil: undefined }),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (attempt, retryAfterMs, random) => {
        const ms = computeDelayMs({ attempt, retryAfterMs }, RETRY, () => random);
        assert.ok(Number.isSafeInteger(ms) && ms >= 0);
        if (retryAfterMs === undefined)
          assert.ok(ms <= Math.min(RETRY.delayMsMax, RETRY.baseMs * 2 ** (attempt - 1)));
        else assert.ok(ms >= retryAfterMs && ms <= retryAfterMs + RETRY.baseMs);
      },
    ),
  );
});

test('a circuit opens after consecutive failures, lets one call probe, and closes again', () => {
  const clock = manualClock(0);
  const circuit = makeCircuit(clock, { failuresMax: 2, openMs: 1_000 });
  circuit.acquire()?.fail(down());
  circuit.acquire()?.succeed();
  circuit.acquire()?.fail(down());
  assert.equal(circuit.availability().available, true);
  circuit.acquire()?.fail(down());
  assert.deepEqual(circuit.availability(), {
    available: false,
    reason: 'down',
    retryAfterMs: 1_000,
  });
  assert.equal(circuit.acquire(), undefined);
  clock.advance(1_000);
  const probe = circuit.acquire();
  assert.notEqual(probe, undefined);
  assert.equal(circuit.acquire(), undefined, 'only one probe at a time');
  probe?.fail(down());
  assert.equal(circuit.acquire(), undefined);
  clock.advance(1_000);
  circuit.acquire()?.release();
  circuit.acquire()?.succeed();
  assert.equal(circuit.availability().available, true);
});

test('a refused key opens at once; a refused request and a full queue never do', () => {
  const circuit = makeCircuit(manualClock(0), { failuresMax: 2, openMs: 1_000 });
  for (let i = 0; i < 9; i++) {
    circuit.acquire()?.fail(fault('provider_refused', 'm'));
    circuit.acquire()?.fail(fault('overloaded', 'm'));
    circuit.acquire()?.fail(fault('canceled', 'm'));
  }
  assert.equal(circuit.availability().available, true);
  circuit.acquire()?.fail(fault('provider_auth', 'm'));
  assert.equal(circuit.availability().available, false);
});

test('an open circuit is skipped; if it is the only one, the caller gets the reason', async () => {
  const clock = manualClock(0);
  const circuit = makeCircuit(clock, { failuresMax: 1, openMs: 1_000 });
  circuit.acquire()?.fail(down());
  const closed = makeCircuit(clock);
  const circuitOf = (route: string) => (route === 'a' ? circuit : closed);
  const { result, tries } = play({ a: ['ok'], b: ['ok'] }, { getCircuit: circuitOf });
  assert.equal(await result, 'b answered');
  assert.deepEqual(
    tries.map((entry) => entry.route),
    ['b'],
  );
  await assert.rejects(
    play({ a: ['ok'] }, { getCircuit: circuitOf }).result,
    /paused after consecutive failures.*down/,
  );
});
