// Tests the rate limiter: concurrency, limits per minute, the bounded queue, and aborting in it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { manualClock } from '../../../platform/clock.ts';
import { Fault } from '../../../wire/errors.ts';
import { type Admission, makeRateLimiter } from './rate-limiter.ts';

const isFault = (code: string) => (error: unknown) => error instanceof Fault && error.code === code;
const settle = () => new Promise((resolve) => setImmediate(resolve));

test('concurrency is limited, and the next in the queue is admitted', async () => {
  const gate = makeRateLimiter('p', manualClock(0), { inFlightMax: 1, queueMax: 10 });
  const first = await gate.acquire({ tokens: 1 });
  const order: number[] = [];
  const waiting = [1, 2].map((n) =>
    gate.acquire({ tokens: 1 }).then((pass) => {
      order.push(n);
      return pass;
    }),
  );
  await settle();
  assert.deepEqual([gate.inFlight(), gate.queued(), order], [1, 2, []]);
  first.release();
  first.release();
  (await waiting[0])?.release();
  await waiting[1];
  assert.deepEqual([gate.inFlight(), gate.queued(), order], [1, 0, [1, 2]]);
});

test('a full queue is overloaded', async () => {
  const gate = makeRateLimiter('p', manualClock(0), { inFlightMax: 1, queueMax: 1 });
  await gate.acquire({ tokens: 1 });
  void gate.acquire({ tokens: 1 });
  await assert.rejects(gate.acquire({ tokens: 1 }), isFault('overloaded'));
});

test('a queued call can be aborted, and the queue advances', async () => {
  const gate = makeRateLimiter('p', manualClock(0), { inFlightMax: 1, queueMax: 5 });
  const first = await gate.acquire({ tokens: 1 });
  const abort = new AbortController();
  const left = gate.acquire({ tokens: 1, signal: abort.signal });
  const stays = gate.acquire({ tokens: 1 });
  abort.abort();
  await assert.rejects(left, isFault('canceled'));
  await assert.rejects(gate.acquire({ tokens: 1, signal: abort.signal }), isFault('canceled'));
  first.release();
  await stays;
  assert.deepEqual([gate.inFlight(), gate.queued()], [1, 0]);
});

test('aborting the first call in the queue admits a smaller one', async () => {
  const clock = manualClock(0);
  const gate = makeRateLimiter('p', clock, { inFlightMax: 9, tokensPerMinute: 100, queueMax: 5 });
  await gate.acquire({ tokens: 50 });
  const abort = new AbortController();
  const big = gate.acquire({ tokens: 80, signal: abort.signal });
  const small = gate.acquire({ tokens: 10 });
  await settle();
  assert.equal(gate.queued(), 2);
  abort.abort();
  await assert.rejects(big);
  await small;
});

test('calls a minute are spread over the minute', async () => {
  const clock = manualClock(0);
  const gate = makeRateLimiter('p', clock, { inFlightMax: 99, requestsPerMinute: 2, queueMax: 9 });
  await gate.acquire({ tokens: 0 });
  await gate.acquire({ tokens: 0 });
  let isIn = false;
  void gate.acquire({ tokens: 0 }).then(() => {
    isIn = true;
  });
  clock.advance(29_999);
  await settle();
  assert.equal(isIn, false);
  clock.advance(1);
  await settle();
  assert.equal(isIn, true);
});

test('tokens are corrected by actual usage, and a call larger than the minute is admitted when it is full', async () => {
  const clock = manualClock(0);
  const gate = makeRateLimiter('p', clock, { inFlightMax: 9, tokensPerMinute: 100, queueMax: 9 });
  const first = await gate.acquire({ tokens: 100 });
  first.release(10);
  await gate.acquire({ tokens: 90 });
  let isIn = false;
  void gate.acquire({ tokens: 500 }).then(() => {
    isIn = true;
  });
  clock.advance(59_000);
  await settle();
  assert.equal(isIn, false);
  clock.advance(1_000);
  await settle();
  assert.equal(isIn, true);
});

test('any interleaving: bounded concurrency, first in first out, no call forgotten', async () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('enter' as const), tokens: fc.nat({ max: 60 }) }),
    fc.record({ kind: fc.constant('release' as const), index: fc.nat() }),
    fc.record({ kind: fc.constant('leave' as const), index: fc.nat() }),
    fc.record({ kind: fc.constant('wait' as const), ms: fc.nat({ max: 20_000 }) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const clock = manualClock(0);
      const gate = makeRateLimiter('p', clock, {
        inFlightMax: 3,
        requestsPerMinute: 20,
        tokensPerMinute: 100,
        queueMax: 8,
      });
      const held: Admission[] = [];
      const entered: number[] = [];
      const waiting = new Map<number, AbortController>();
      let number = 0;
      for (const action of steps) {
        if (action.kind === 'enter') {
          const own = number++;
          const abort = new AbortController();
          waiting.set(own, abort);
          gate.acquire({ tokens: action.tokens, signal: abort.signal }).then(
            (pass) => {
              waiting.delete(own);
              entered.push(own);
              held.push(pass);
            },
            () => waiting.delete(own),
          );
        } else if (action.kind === 'release') {
          held.splice(action.index % (held.length + 1), 1)[0]?.release(action.index % 100);
        } else if (action.kind === 'leave') {
          [...waiting.values()][action.index % (waiting.size + 1)]?.abort();
        } else clock.advance(action.ms);
        await settle();
        assert.ok(gate.inFlight() <= 3);
        assert.equal(gate.inFlight(), held.length);
        assert.equal(gate.queued(), waiting.size);
      }
      assert.deepEqual(
        entered,
        [...entered].sort((a, b) => a - b),
      );
      for (let round = 0; round < 60; round++) {
        for (const pass of held.splice(0)) pass.release();
        clock.advance(60_000);
        await settle();
      }
      assert.deepEqual([gate.queued(), gate.inFlight()], [0, 0]);
    }),
    { numRuns: 60 },
  );
});
