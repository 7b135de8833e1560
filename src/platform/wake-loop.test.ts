// The wake-up loop loses no wake-up, runs one pass at a time, and retries failures with growing
// delays.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { manualClock } from './clock.ts';
import { makeWakeLoop } from './wake-loop.ts';

const BACKOFF_MS = { min: 10, max: 40 };
const noError = (error: unknown): void => assert.fail(error as Error);
const microtasks = async (count: number): Promise<void> => {
  for (let i = 0; i < count; i++) await undefined;
};
const settle = () => new Promise((resolve) => setImmediate(resolve));

test('every item with a wake-up, at whatever moment, is handled; passes never overlap', async () => {
  const pass = fc.record({ before: fc.nat(6), after: fc.nat(6), fails: fc.boolean() });
  const arrivals = fc.array(fc.nat(12), { minLength: 1, maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(arrivals, fc.array(pass, { maxLength: 12 }), async (delays, passes) => {
      const clock = manualClock(0);
      let waiting: number[] = [];
      const handled: number[] = [];
      let [running, runningMax] = [0, 0];
      const loop = makeWakeLoop({
        clock,
        async work() {
          runningMax = Math.max(runningMax, ++running);
          const { before, after, fails } = passes.shift() ?? { before: 0, after: 0, fails: false };
          await microtasks(before);
          const found = fails ? [] : waiting;
          if (!fails) waiting = [];
          await microtasks(after);
          handled.push(...found);
          running--;
          if (fails) throw new Error('the pass fails');
          return undefined;
        },
        backoffMs: BACKOFF_MS,
        onError: () => undefined,
      });
      for (const [item, turns] of delays.entries()) {
        await microtasks(turns);
        waiting.push(item);
        loop.wake();
      }
      let isIdle = false;
      const idle = loop.idle().then(() => {
        isIdle = true;
      });
      while (!isIdle) {
        clock.advance(BACKOFF_MS.max);
        await settle();
      }
      await idle;
      assert.deepEqual(handled, [...delays.keys()]);
      assert.equal(runningMax, 1);
    }),
    { numRuns: 1_000 },
  );
});

test('a failing pass is retried after delays that double up to a limit, whatever wakes it', async () => {
  const clock = manualClock(0);
  const startedMs: number[] = [];
  const errors: unknown[] = [];
  let isBroken = true;
  const loop = makeWakeLoop({
    clock,
    async work() {
      startedMs.push(clock.nowMs());
      if (isBroken) throw new Error('broken');
      return undefined;
    },
    backoffMs: BACKOFF_MS,
    onError: (error) => errors.push(error),
  });
  const spend = async (ms: number) => {
    for (let i = 0; i < ms; i++) {
      loop.wake();
      await settle();
      clock.advance(1);
      await settle();
    }
  };
  await spend(120);
  assert.deepEqual(startedMs, [0, 10, 30, 70, 110]);
  assert.equal(errors.length, 5);
  isBroken = false;
  await spend(31);
  assert.deepEqual(startedMs.slice(5, 7), [150, 150], 'the wake-ups of the delay are one pass');
  isBroken = true;
  loop.wake();
  await settle();
  startedMs.length = 0;
  await spend(31);
  assert.deepEqual(startedMs, [161, 181], 'after a success the delays start again at the first');
  await loop.stop();
});

test('a pass runs when the next item is due, and an earlier wake-up does not change that', async () => {
  const clock = manualClock(0);
  const startedMs: number[] = [];
  const work = async () => {
    startedMs.push(clock.nowMs());
    return clock.nowMs() < 100 ? 100 : undefined;
  };
  const loop = makeWakeLoop({ clock, work, backoffMs: BACKOFF_MS, onError: noError });
  loop.wake();
  await loop.idle();
  clock.advance(50);
  loop.wake();
  await loop.idle();
  clock.advance(49);
  await loop.idle();
  assert.deepEqual(startedMs, [0, 50]);
  clock.advance(1);
  await loop.idle();
  clock.advance(1_000);
  assert.deepEqual(startedMs, [0, 50, 100]);
});

test('an item that is due already is handled at once', async () => {
  const clock = manualClock(500);
  let passes = 0;
  const work = async () => (++passes < 4 ? 400 : undefined);
  const loop = makeWakeLoop({ clock, work, backoffMs: BACKOFF_MS, onError: noError });
  loop.wake();
  await settle();
  assert.equal(passes, 4);
});

test('a pass that wakes the loop is followed by another one', async () => {
  let [running, passes] = [0, 0];
  const loop = makeWakeLoop({
    clock: manualClock(0),
    async work() {
      assert.equal(++running, 1);
      if (++passes < 3) loop.wake();
      await undefined;
      running--;
      return undefined;
    },
    backoffMs: BACKOFF_MS,
    onError: noError,
  });
  loop.wake();
  await loop.idle();
  assert.equal(passes, 3);
});

test('stop waits for the running pass, drops its error, and nothing starts afterwards', async () => {
  const clock = manualClock(0);
  const gate = Promise.withResolvers<number | undefined>();
  let passes = 0;
  const loop = makeWakeLoop({
    clock,
    backoffMs: BACKOFF_MS,
    onError: noError,
    work() {
      passes++;
      return gate.promise;
    },
  });
  loop.wake();
  loop.wake();
  let isStopped = false;
  const stopped = loop.stop().then(() => {
    isStopped = true;
  });
  await settle();
  assert.equal(isStopped, false);
  gate.reject(new Error('too late to matter'));
  await stopped;
  loop.wake();
  clock.advance(1_000);
  await settle();
  assert.equal(passes, 1);
});

test('stop does not wait for the delay before a retry, nor for a due time', async () => {
  for (const work of [async () => 1_000, () => Promise.reject(new Error('broken'))]) {
    const clock = manualClock(0);
    let passes = 0;
    const loop = makeWakeLoop({
      clock,
      backoffMs: BACKOFF_MS,
      onError: () => undefined,
      work() {
        passes++;
        return work();
      },
    });
    loop.wake();
    await settle();
    await loop.stop();
    clock.advance(10_000);
    await settle();
    assert.equal(passes, 1);
  }
});
