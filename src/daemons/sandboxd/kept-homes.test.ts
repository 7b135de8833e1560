// Homes of people's programs: removed when none has used them for long enough, and no others.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, rmSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { freshDir } from '../../../test/support/runtime.ts';
import { manualClock } from '../../platform/clock.ts';
import { silentLog } from '../../platform/log.ts';
import { makeKeptHomes } from './kept-homes.ts';

const id = (digit: string) => `home_${digit.repeat(24)}`;
const NOW_MS = 1_000_000_000_000;

test('old homes go; those in use, new ones and those of task trees stay', async () => {
  const stateDir = freshDir();
  const at = (name: string) => join(stateDir, 'homes', name);
  const put = (name: string, ageMs: number): void => {
    mkdirSync(join(at(name), 'box'), { recursive: true });
    const used = new Date(NOW_MS - ageMs);
    utimesSync(at(name), used, used);
  };
  const names = [id('a'), id('b'), id('c'), 'task_01', 'home_other'];
  for (const name of names) put(name, name === id('c') ? 10 : 5_000);
  const make = (ageMs: number | null) =>
    makeKeptHomes({
      stateDir,
      ageMs,
      isInUse: (one) => one === id('b'),
      warden: {
        async deleteTree(path) {
          rmSync(path, { recursive: true });
          return { bytes: 0, entries: 0 };
        },
      },
      clock: manualClock(NOW_MS),
      log: silentLog,
    });
  assert.deepEqual(await make(null).sweep(), []);
  assert.deepEqual(await make(1_000).sweep(), [id('a')]);
  assert.deepEqual(
    names.filter((name) => existsSync(at(name))),
    names.slice(1),
  );
});
