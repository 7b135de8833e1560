// Pruning and backups: no step runs while a backup is made, and a backup begins after the last one.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { manualClock } from '../../../platform/clock.ts';
import { BACKUP_LEASE_MS, makeBackupPauses } from './pauses.ts';

const NEVER = new AbortController().signal;

function setUp() {
  const clock = manualClock(0);
  const pauses = makeBackupPauses(clock);
  const done: string[] = [];
  const step = (name: string, signal = NEVER) =>
    pauses.step(async () => void done.push(name), signal);
  return { clock, pauses, done, step };
}
const settle = () => new Promise((resolve) => setImmediate(resolve));

describe('pruning while backups are made', () => {
  it('waits for the end of the last backup', async () => {
    const { pauses, done, step } = setUp();
    await step('before');
    await pauses.begin('a');
    await pauses.begin('b');
    const waiting = step('after');
    pauses.end('a');
    await settle();
    assert.deepEqual([done, pauses.list()], [['before'], ['b']]);
    pauses.end('b');
    await waiting;
    assert.deepEqual([done, pauses.list()], [['before', 'after'], []]);
  });

  it('a backup begins when the step under way has ended, even if that fails', async () => {
    const { pauses } = setUp();
    for (const outcome of ['resolve', 'reject'] as const) {
      const work = Promise.withResolvers<void>();
      const stepping = pauses.step(() => work.promise, NEVER).catch(() => undefined);
      let hasBegun = false;
      const beginning = pauses.begin('a').then(() => {
        hasBegun = true;
      });
      await settle();
      assert.equal(hasBegun, false);
      work[outcome]();
      await Promise.all([stepping, beginning]);
      pauses.end('a');
    }
  });

  it('goes on when the maker of a backup has died, not while it renews', async () => {
    const { clock, pauses, done, step } = setUp();
    await pauses.begin('a');
    const waiting = step('after');
    for (let n = 0; n < 3; n++) {
      clock.advance(BACKUP_LEASE_MS - 1);
      await pauses.renew('a');
    }
    await settle();
    assert.deepEqual(done, []);
    clock.advance(BACKUP_LEASE_MS);
    await waiting;
    assert.deepEqual(done, ['after']);
  });

  it('waits for a backup from before a restart once that is renewed', async () => {
    const { pauses } = setUp();
    await pauses.renew('a');
    assert.deepEqual(pauses.list(), ['a']);
    pauses.end('a');
  });

  it('is canceled while it waits', async () => {
    const { pauses, done, step } = setUp();
    await pauses.begin('a');
    const controller = new AbortController();
    const waiting = step('never', controller.signal);
    controller.abort();
    await assert.rejects(waiting);
    pauses.end('a');
    await settle();
    assert.deepEqual(done, []);
  });
});
