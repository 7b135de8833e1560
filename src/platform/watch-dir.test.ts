// A directory is watched and polled, also when it is created late or replaced.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { manualClock } from './clock.ts';
import { type WatchDirOptions, watchDir } from './watch-dir.ts';

const EVERY_MS = 10_000;

function makeFixture(t: TestContext, more: Partial<WatchDirOptions> & { isLate?: true } = {}) {
  const { isLate, ...options } = more;
  const root = mkdtempSync(join(tmpdir(), 'follow-'));
  const dir = join(root, 'dir');
  if (isLate === undefined) mkdirSync(dir);
  const clock = manualClock(1_000);
  const seen: string[] = [];
  const onChange: WatchDirOptions['onChange'] = (why) => void seen.push(why);
  const all = { dir, clock, onChange, settleMs: 100, pollIntervalMs: EVERY_MS };
  const watcher = watchDir({ ...all, ...options });
  t.after(() => {
    watcher.close();
    rmSync(root, { recursive: true, force: true });
  });
  const write = (name: string) => writeFileSync(join(dir, name), 'x');
  /** Advances the clock until an event is reported; the test's timeout is the only limit. */
  const untilReported = async (): Promise<void> => {
    while (!seen.includes('event')) {
      await sleep(5, undefined, { signal: t.signal });
      clock.advance(100);
    }
  };
  return { root, dir, clock, seen, watcher, write, untilReported };
}

test('a change is reported, and changes within the settle time only once', async (t) => {
  const { write, untilReported, seen, clock } = makeFixture(t, {
    settleMs: 5_000,
    pollIntervalMs: 1e12,
  });
  for (const name of ['a', 'b', 'c']) write(name);
  await sleep(50);
  assert.deepEqual(seen, [], 'it settles first');
  await untilReported();
  clock.advance(60_000);
  assert.deepEqual(seen, ['event']);
});

test('polls also without a change', (t) => {
  const { clock, seen } = makeFixture(t);
  clock.advance(EVERY_MS - 1);
  assert.deepEqual(seen, []);
  clock.advance(1);
  clock.advance(EVERY_MS);
  assert.deepEqual(seen, ['poll', 'poll']);
});

test('a directory created late or replaced is watched from the next poll', async (t) => {
  const { root, dir, clock, write, untilReported, seen } = makeFixture(t, { isLate: true });
  mkdirSync(dir);
  clock.advance(EVERY_MS);
  write('a');
  await untilReported();
  seen.length = 0;
  renameSync(dir, join(root, 'old'));
  mkdirSync(dir);
  clock.advance(EVERY_MS);
  await sleep(20);
  clock.advance(100);
  seen.length = 0;
  write('b');
  await untilReported();
});

test("with a file name, only that file's changes are reported", async (t) => {
  const { write, untilReported, seen, clock } = makeFixture(t, {
    name: 'mine',
    pollIntervalMs: 1e12,
  });
  write('other');
  await sleep(50);
  clock.advance(1_000);
  assert.deepEqual(seen, []);
  write('mine');
  await untilReported();
});

test('reports nothing after close', async (t) => {
  const { write, seen, clock, watcher } = makeFixture(t);
  write('a');
  await sleep(20);
  watcher.close();
  clock.advance(10 * EVERY_MS);
  write('b');
  await sleep(20);
  clock.advance(10 * EVERY_MS);
  assert.deepEqual(seen, []);
});
