// Mutexes: work runs in order, one at a time, also after a failure.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { makeKeyedMutex, makeMutex } from './mutex.ts';

describe('mutexes', () => {
  it('work of one key waits for earlier work; work of another does not', async () => {
    const inTurn = makeKeyedMutex();
    const gate = Promise.withResolvers<void>();
    const seen: string[] = [];
    const first = inTurn('a', async () => {
      await gate.promise;
      seen.push('a1');
    });
    const second = inTurn('a', async () => void seen.push('a2'));
    await inTurn('b', async () => void seen.push('b'));
    assert.deepEqual(seen, ['b']);
    gate.resolve();
    await Promise.all([first, second]);
    assert.deepEqual(seen, ['b', 'a1', 'a2']);
  });

  it('a failure rejects its own caller, and the next work still runs', async () => {
    const inTurn = makeMutex();
    const failing = inTurn(() => Promise.reject(new Error('no')));
    const next = inTurn(async () => 'yes');
    await assert.rejects(failing, { message: 'no' });
    assert.equal(await next, 'yes');
  });
});
