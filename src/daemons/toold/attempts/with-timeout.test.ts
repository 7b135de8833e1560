// A tool is aborted at its timeout, whether or not it listens to its signal.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { manualClock } from '../../../platform/clock.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import { type Effect, isOpenOutcome, type Tool } from '../tools/tool.ts';
import type { Job } from './job.ts';
import { withTimeout } from './with-timeout.ts';

const done: Effect = { result: {} };
const settle = () => new Promise((resolve) => setImmediate(resolve));

function start(
  work: (signal: AbortSignal) => Promise<Effect>,
  idempotent = true,
  timeoutMs = 1_000,
  more: Partial<Tool> = {},
) {
  const clock = manualClock(0);
  const run = new AbortController();
  const job = { signal: run.signal } as unknown as Job;
  const tool = { name: 'x.y', idempotent, timeoutMs, ...more } as Tool;
  const effect = withTimeout({ clock, job, tool }, (timed) => work(timed.signal));
  effect.catch(() => undefined);
  return { clock, run, effect };
}
/** As a box does: ends with the signal. */
const untilAborted = (signal: AbortSignal) =>
  new Promise<Effect>((_, reject) =>
    signal.addEventListener('abort', () => reject(fault('canceled', 'given up'))),
  );

test('an effect within the timeout is returned unchanged', async () => {
  const { clock, effect } = start(async () => done);
  assert.equal(await effect, done);
  clock.advance(10_000);
  await assert.rejects(start(() => Promise.reject(fault('denied', 'no'))).effect, /no/);
});

test('an idempotent tool that is aborted has failed; the outcome of any other is unknown', async () => {
  const again = start(untilAborted);
  again.clock.advance(999);
  await settle();
  again.clock.advance(1);
  const failed = (await again.effect) as { error: { code: string; message: string } };
  assert.equal(failed.error.code, 'limit');
  assert.match(failed.error.message, /longer than its limit of 1 s/);
  const once = start(untilAborted, false);
  once.clock.advance(1_000);
  assert.deepEqual(await once.effect, { unknown: true });
});

test('a tool that ignores its signal is not awaited', async () => {
  const { clock, effect } = start(() => new Promise(() => {}));
  clock.advance(1_000);
  await settle();
  clock.advance(2_000);
  assert.equal(((await effect) as { error: { code: string } }).error.code, 'limit');
});

test('a tool that can look up its effect is left for the next attempt', async () => {
  const recall = async () => undefined;
  const { clock, effect } = start(untilAborted, true, 1_000, { recall });
  clock.advance(1_000);
  await assert.rejects(effect, (error: Fault) => error.retry && isOpenOutcome(error));
});

test('a dismissed run cancels the call', async () => {
  const { run, effect } = start(untilAborted);
  run.abort();
  await assert.rejects(effect, { code: 'canceled' });
});
