// Notices are delivered until they arrive, also one that comes just after the last look for more.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../../test/support/runtime.ts';
import { manualClock } from '../../platform/clock.ts';
import { silentLog } from '../../platform/log.ts';
import { makeDelivery } from './delivery.ts';
import type { DueNotice } from './store/store.ts';

test('a notice that comes just after the last look is delivered, too', async () => {
  const due: DueNotice[] = [];
  const carried: string[] = [];
  let onLastLook = () => {};
  const store = {
    dueNotices: async () => [...due],
    noticeDone: async (id: string) =>
      due.splice(
        due.findIndex((one) => one.id === id),
        1,
      ).length,
    noticeLater: async () => 0,
    nextNotice: async () => {
      onLastLook();
      return undefined;
    },
  };
  const delivery = makeDelivery({
    store,
    channels: new Map([['here', async ({ id }) => void carried.push(id)]]),
    attemptsMax: 3,
    clock: manualClock(0),
    log: silentLog,
  });
  const tell = (id: string): void => {
    due.push({ id, target: 'here', body: '{}', attempts: 0 });
    delivery.wake();
  };
  onLastLook = () => {
    onLastLook = () => {};
    tell('late');
  };
  tell('first');
  await eventually('both', async () => carried.length === 2 || undefined, 5_000);
  assert.deepEqual(carried, ['first', 'late']);
  await delivery.stop();
});
