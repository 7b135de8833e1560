// Tests a box's quota: writes that do not fit are refused, a command that exceeds it is ended,
// later commands can only delete; and directory walks are rare.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { silentLog } from '../../platform/log.ts';
import type { PlanLimits } from './adapters/plan.ts';
import { makeBoxDisks } from './box-disk.ts';
import { makeDisk } from './disk.ts';
import { makeQuota } from './quota.ts';
import { EXIT, fakeCommand } from './testing/commands.ts';
import { LIMITS } from './testing/limits.ts';

const MIB = 1_048_576;

/** A one-gigabyte disk on which the test sets the size of each directory. */
function makeFixture(sizes: Record<string, number>, others = 0) {
  const walked: string[] = [];
  const state = { nowMs: 0, others };
  const used = () => Object.values(sizes).reduce((sum, bytes) => sum + bytes, 0);
  const quota = makeQuota({
    measure: async (path) => {
      walked.push(path);
      return { bytes: sizes[path]! };
    },
    free: () => 1024 * MIB - used() - state.others,
    nowMs: () => state.nowMs,
    log: silentLog,
  });
  return { quota, walked, sizes, state };
}
const place = (path: string, beforeBytes = 0) => ({ path, beforeBytes });

it('refuses writes that do not fit, with usage and limit, and accepts them when space is free again', async () => {
  const { quota, sizes } = makeFixture({ '/w': 9 * MIB, '/h': 1 * MIB });
  const own = quota.allowanceFor([place('/w'), place('/h')], 12 * MIB);
  await own.assertSpace(2 * MIB);
  await assert.rejects(own.assertSpace(3 * MIB), {
    code: 'limit',
    message: /use 10\.0 MiB of 12\.0 MiB/,
    details: { use_bytes: 10 * MIB, limit_bytes: 12 * MIB },
  });
  sizes['/w'] = 4 * MIB;
  await own.assertSpace(3 * MIB);
  await quota.allowanceFor([place('/w')], 0).assertSpace(1e12);
});

it('requests no more concurrent walks than the warden accepts, for any number of boxes', async () => {
  let [now, most] = [0, 0];
  const quota = makeQuota({
    measure: async (path) => {
      most = Math.max(most, ++now);
      await new Promise((resolve) => setImmediate(resolve));
      now--;
      if (path === '/3') throw new Error('not this one');
      return { bytes: 0 };
    },
    free: () => 1024 * MIB,
    nowMs: () => 0,
    log: silentLog,
  });
  const all = Array.from({ length: 40 }, (_, n) =>
    quota.allowanceFor([place(`/${n}`)], MIB).begin(),
  );
  const ended = await Promise.allSettled(all);
  assert.equal(ended.filter(({ status }) => status === 'fulfilled').length, 39);
  assert.equal(most, 8);
});

it('does not count what existed before, nor a directory twice', async () => {
  const { quota } = makeFixture({ '/w': 900 * MIB });
  const places = [place('/w', 899 * MIB), place('/w/sub'), place('/w', 899 * MIB)];
  await quota.allowanceFor(places, 2 * MIB).assertSpace(MIB);
  await assert.rejects(quota.allowanceFor([place('/w')], 2 * MIB).assertSpace(MIB), {
    code: 'limit',
  });
});

it('walks once for many writes, again when the disk usage suggests too much, and when it is stale', async () => {
  const { quota, walked, state } = makeFixture({ '/w': 1 * MIB });
  const own = quota.allowanceFor([place('/w')], 100 * MIB);
  for (let i = 0; i < 50; i++) await own.assertSpace(1000);
  assert.equal(walked.length, 1);
  state.others = 200 * MIB;
  await own.assertSpace(1000);
  assert.equal(walked.length, 2, 'another writer: measured, and within the limit');
  state.nowMs += 31_000;
  await own.assertSpace(1000);
  assert.equal(walked.length, 3);
  const second = quota.allowanceFor([place('/w')], 100 * MIB);
  await second.assertSpace(1000);
  assert.equal(walked.length, 3, 'shared with another box of the same directory');
});

it('ends a command that uses too much, and says so; one that writes elsewhere goes on', async () => {
  const { quota, sizes, state } = makeFixture({ '/w': MIB, '/x': MIB });
  const [one, other] = [fakeCommand(), fakeCommand()];
  const own = quota.allowanceFor([place('/w')], 10 * MIB);
  const others = quota.allowanceFor([place('/x')], 10 * MIB);
  const guarded = own.guard(one.command, await own.begin());
  const fine = others.guard(other.command, await others.begin());
  sizes['/w'] = 15 * MIB;
  state.nowMs += 1_000;
  const exit = await guarded.ended;
  assert.ok(exit !== 'gone');
  assert.equal(exit.endedBy, 'disk');
  assert.equal(exit.note, 'its files use 15.0 MiB, and 10.0 MiB are allowed');
  other.end(EXIT);
  const ended = await fine.ended;
  assert.ok(ended !== 'gone' && ended.endedBy === null && ended.note === undefined);
});

it('ends a command that cannot be measured, after a while', async () => {
  const sizes: Record<string, number> = { '/w': 5 * MIB };
  const quota = makeQuota({
    measure: async (path) => {
      if (sizes[path] === undefined) throw new Error('gone');
      return { bytes: sizes[path] };
    },
    free: () => 1e9,
    nowMs: () => (sizes['/w'] === undefined ? 60_000 : 0),
    log: silentLog,
  });
  const own = quota.allowanceFor([place('/w')], 10 * MIB);
  const guarded = own.guard(fakeCommand().command, await own.begin());
  delete sizes['/w'];
  const exit = await guarded.ended;
  assert.ok(exit !== 'gone' && exit.endedBy === 'disk');
  assert.match(exit.note!, /could not be measured/);
});

it('a command started over the limit cannot write, is informed, and can delete', async () => {
  const { quota, sizes } = makeFixture({ '/own/w': 20 * MIB });
  const boxDisks = makeBoxDisks({
    disk: makeDisk(0),
    quota,
    ownDirs: ['/own'],
    store: { diskBefore: async () => 0, recordDiskBefore: async () => 0 },
    warden: { measure: async () => ({ bytes: 0, entries: 0 }) },
  });
  const room = await boxDisks.forBox({ rootTaskId: 't', writes: ['/own/w'], limitBytes: 10 * MIB });
  const given: PlanLimits[] = [];
  const run = () => {
    const { command, end } = fakeCommand();
    end(EXIT);
    return room.run(LIMITS, async (limits) => {
      given.push(limits);
      return command;
    });
  };
  const over = await (await run()).ended;
  assert.ok(over !== 'gone');
  assert.match(over.note!, /use 20\.0 MiB of 10\.0 MiB.*nothing could be written/);
  sizes['/own/w'] = MIB;
  const after = await (await run()).ended;
  assert.ok(after !== 'gone' && after.note === undefined);
  assert.deepEqual(
    given.map(({ fsizeBytes }) => fsizeBytes),
    [1, 10 * MIB],
  );
});

it('remembers the usage of an operator’s directory when the task tree first opened it', async () => {
  const { quota, sizes } = makeFixture({ '/srv/repo': 500 * MIB });
  const kept = new Map<string, number>();
  const boxDisks = makeBoxDisks({
    disk: makeDisk(0),
    quota,
    ownDirs: ['/own'],
    store: {
      diskBefore: async (tree, path) => kept.get(tree + path),
      recordDiskBefore: async (tree, path, bytes) => {
        kept.set(tree + path, bytes);
        return bytes;
      },
    },
    warden: { measure: async (path) => ({ bytes: sizes[path]!, entries: 1 }) },
  });
  const box = { rootTaskId: 't', writes: ['/srv/repo'], limitBytes: 10 * MIB };
  const first = await boxDisks.forBox(box);
  await first.assertSpace(MIB);
  first.close();
  sizes['/srv/repo'] = 509.5 * MIB;
  const later = await boxDisks.forBox(box);
  await assert.rejects(later.assertSpace(MIB), { code: 'limit', message: /use 9\.5 MiB/ });
});
