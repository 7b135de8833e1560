// Agentd is told of every answer, also of one that comes just when all the others were told; and
// what is due just when others lapse does so, too.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { manualClock } from '../../platform/clock.ts';
import { silentLog } from '../../platform/log.ts';
import { makeExpiry } from './expiry.ts';
import type { Untold } from './store/store.ts';
import { makeTelling } from './telling.ts';

const untoldOf = (callId: string): Untold =>
  ({
    ...{ call_id: callId, approval_id: 'approval_1', run_id: 'run_1', status: 'approved' },
    ...{ decided_by: 'person:alice', expires_ms: 1_000 },
  }) as unknown as Untold;
const settle = () => new Promise((resolve) => setImmediate(resolve));

test('an answer that comes while the last of the others is told is told, whenever that is', async () => {
  for (let later = 0; later < 30; later++) {
    const untold = [untoldOf('first')];
    const told: string[] = [];
    const store = {
      untold: async () => [...untold],
      async markTold(callId: string) {
        untold.shift();
        told.push(callId);
        if (callId === 'first') void answerLater();
        return 1;
      },
      waitingRuns: async () => [],
      withdraw: async () => 0,
    };
    const agentd = { approvalEnded: async () => ({ ended: true }) };
    const telling = makeTelling({
      ...{ store, clock: manualClock(0), log: silentLog },
      agentd: agentd as never,
    });
    const answerLater = async () => {
      for (let turn = 0; turn < later; turn++) await undefined;
      untold.push(untoldOf('second'));
      telling.poke();
    };
    telling.poke();
    await settle();
    await settle();
    assert.deepEqual(told, ['first', 'second'], `${later} turns later`);
    await telling.stop();
  }
});

test('what is due while others lapse lapses after them', async () => {
  const clock = manualClock(0);
  const begun: PromiseWithResolvers<number | undefined>[] = [];
  const lapseDue = () => {
    const one = Promise.withResolvers<number | undefined>();
    begun.push(one);
    return one.promise;
  };
  const expiry = makeExpiry({ store: { lapseDue } as never, clock, log: silentLog });
  expiry.begin();
  expiry.note(100);
  clock.advance(100);
  assert.equal(begun.length, 1, 'one at a time');
  begun[0]!.resolve(undefined);
  await settle();
  assert.equal(begun.length, 2);
  begun[1]!.resolve(undefined);
  await expiry.stop();
});
