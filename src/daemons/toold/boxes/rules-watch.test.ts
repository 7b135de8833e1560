// Running commands are ended when their rules become narrower, even if another agent's rules are
// slow to load.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { manualClock } from '../../../platform/clock.ts';
import { silentLog } from '../../../platform/log.ts';
import { makeRulesWatch, type WatchedCommand } from './rules-watch.ts';

const settle = () => new Promise((resolve) => setImmediate(resolve));

function watching() {
  const clock = manualClock(0);
  const watch = makeRulesWatch({ clock, log: silentLog });
  const over = Promise.withResolvers<void>();
  const during = (isNarrower: WatchedCommand['isNarrower']) => {
    let ends = 0;
    const done = watch.during({ isNarrower, end: () => void ends++ }, () => over.promise);
    return { ends: () => ends, done };
  };
  const poll = async () => {
    clock.advance(250);
    await settle();
  };
  return { during, poll, over };
}

it('ends commands whose rules became narrower, once, and no other', async () => {
  const { during, poll, over } = watching();
  let isNarrower = false;
  const [one, other] = [during(async () => isNarrower), during(async () => false)];
  await poll();
  assert.deepEqual([one.ends(), other.ends()], [0, 0]);
  isNarrower = true;
  await poll();
  await poll();
  assert.deepEqual([one.ends(), other.ends()], [1, 0]);
  over.resolve();
  await Promise.all([one.done, other.done]);
});

it("waits only for a command's own rules", async () => {
  const { during, poll, over } = watching();
  let polls = 0;
  const slow = Promise.withResolvers<boolean>();
  const hung = during(() => {
    polls++;
    return slow.promise;
  });
  const failing = during(() => Promise.reject(new Error('not now')));
  await poll();
  let isNarrower = false;
  const one = during(async () => isNarrower);
  await poll();
  isNarrower = true;
  await poll();
  assert.deepEqual([one.ends(), hung.ends(), failing.ends()], [1, 0, 0]);
  assert.equal(polls, 1, 'one poll at a time');
  slow.resolve(true);
  await settle();
  assert.equal(hung.ends(), 1);
  over.resolve();
  await Promise.all([one.done, hung.done, failing.done]);
});
