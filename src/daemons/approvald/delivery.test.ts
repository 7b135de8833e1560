// Tests that notices are retried until delivered, also one added just after the last poll.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../../test/support/runtime.ts';
import { manualClock } from '../../platform/clock.ts';
import { silentLog } from '../../platform/log.ts';
import { makeDelivery } from './delivery.ts';
import type { DueNotice } from './store/store.ts';

test('a notice added just after the last poll is delivered, too', async () => {
  const due: DueNotice[] = [];
  const carried: string[] = [];
  let onLastLook = () => {};
  const store = {
    listDueNotices: async () => [...due],
    deleteNotice: async (id: string) =>
      due.splice(
        due.findIndex((one) => one.id === id),
        1,
      ).length,
    postponeNotice: async () => 0,
    findNextNoticeMs: async () => {
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
