// Tests that agentd is notified of every decision: also one taken while the last is being sent, and
// of more than the store returns at a time.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { manualClock } from '../../platform/clock.ts';
import { silentLog } from '../../platform/log.ts';
import type { PendingNotification } from './store/store.ts';
import { makeWaitNotifier } from './wait-notifier.ts';

const untoldOf = (callId: string): PendingNotification =>
  ({
    call_id: callId,
    approval_id: 'approval_1',
    run_id: 'run_1',
    status: 'approved',
    decided_by: 'person:alice',
    expires_ms: 1_000,
    memory_id: null,
  }) as unknown as PendingNotification;
const settle = () => new Promise((resolve) => setImmediate(resolve));

test('a decision made while agentd is notified of the last one is passed on, too', async () => {
  for (let ticks = 0; ticks < 30; ticks++) {
    const listUnsent = [untoldOf('first')];
    const notified: string[] = [];
    const store = {
      listUnsent: async () => [...listUnsent],
      async markNotified(callId: string) {
        listUnsent.shift();
        notified.push(callId);
        if (callId === 'first') void answerLater();
        return 1;
      },
      listWaitingRuns: async () => [],
      withdraw: async () => 0,
    };
    const agentd = { approvalEnded: async () => ({ ended: true }) };
    const notifier = makeWaitNotifier({
      store,
      clock: manualClock(0),
      log: silentLog,
      agentd: agentd as never,
      memoryd: {} as never,
    });
    const answerLater = async () => {
      for (let tick = 0; tick < ticks; tick++) await undefined;
      listUnsent.push(untoldOf('second'));
      notifier.wake();
    };
    notifier.wake();
    await settle();
    await settle();
    assert.deepEqual(notified, ['first', 'second'], `${ticks} ticks later`);
    await notifier.stop();
  }
});

test('decisions beyond what the store returns at a time are passed on without a wake-up', async () => {
  const listUnsent = ['a', 'b', 'c', 'd', 'e'].map(untoldOf);
  const notified: string[] = [];
  const notifier = makeWaitNotifier({
    store: {
      listUnsent: async () => listUnsent.slice(0, 2),
      markNotified: async (callId) => listUnsent.splice(0, 1).length + notified.push(callId),
      listWaitingRuns: async () => [],
      withdraw: async () => 0,
    },
    agentd: { approvalEnded: async () => ({ ended: true }) } as never,
    memoryd: {} as never,
    clock: manualClock(0),
    log: silentLog,
  });
  notifier.wake();
  await settle();
  assert.deepEqual(notified, ['a', 'b', 'c', 'd', 'e']);
  await notifier.stop();
});
