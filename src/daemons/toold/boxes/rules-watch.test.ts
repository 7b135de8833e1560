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
  const look = async () => {
    clock.advance(250);
    await settle();
  };
  return { during, look, over };
}

it('ends what may less than before, once, and nothing else', async () => {
  const { during, look, over } = watching();
  let isNarrower = false;
  const [one, other] = [during(async () => isNarrower), during(async () => false)];
  await look();
  assert.deepEqual([one.ends(), other.ends()], [0, 0]);
  isNarrower = true;
  await look();
  await look();
  assert.deepEqual([one.ends(), other.ends()], [1, 0]);
  over.resolve();
  await Promise.all([one.done, other.done]);
});

it('waits for nobody’s rules but its own', async () => {
  const { during, look, over } = watching();
  let looks = 0;
  const slow = Promise.withResolvers<boolean>();
  const hung = during(() => {
    looks++;
    return slow.promise;
  });
  const failing = during(() => Promise.reject(new Error('not now')));
  await look();
  let isNarrower = false;
  const one = during(async () => isNarrower);
  await look();
  isNarrower = true;
  await look();
  assert.deepEqual([one.ends(), hung.ends(), failing.ends()], [1, 0, 0]);
  assert.equal(looks, 1, 'one look at a time');
  slow.resolve(true);
  await settle();
  assert.equal(hung.ends(), 1);
  over.resolve();
  await Promise.all([one.done, hung.done, failing.done]);
});
