// Transient errors are retried; other errors, and those after the timeout, are thrown.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { retryWithBackoff } from './backoff.ts';

const failing = (times: number) => {
  let tries = 0;
  const work = async (): Promise<number> => {
    if (++tries <= times) throw new Error(`try ${tries}`);
    return tries;
  };
  return { work, tries: () => tries };
};

test('retries until the work succeeds', async () => {
  const { work } = failing(3);
  assert.equal(await retryWithBackoff(work, { isTransient: () => true, backoffMsMax: 5 }), 4);
});

test('throws a permanent error at once', async () => {
  const { work, tries } = failing(9);
  const passes = (error: unknown) => (error as Error).message !== 'try 2';
  await assert.rejects(retryWithBackoff(work, { isTransient: passes, backoffMsMax: 5 }), /try 2/);
  assert.equal(tries(), 2);
});

test('throws after the timeout', async () => {
  const { work, tries } = failing(Number.POSITIVE_INFINITY);
  await assert.rejects(
    retryWithBackoff(work, { isTransient: () => true, backoffMsMax: 5, timeoutMs: 500 }),
    /try/,
  );
  assert.ok(tries() >= 2);
});
