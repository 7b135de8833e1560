// Homes of people's programs: removed when none has used them for long enough, and no others.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, rmSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { freshDir } from '../../../test/support/runtime.ts';
import { manualClock } from '../../platform/clock.ts';
import { silentLog } from '../../platform/log.ts';
import { makeKeptHomes } from './kept-homes.ts';

const id = (digit: string) => `home_${digit.repeat(24)}`;
const NOW_MS = 1_000_000_000_000;

const makeHomes = (
  stateDir: string,
  { ageMs = null, inUse = '' }: { ageMs?: number | null; inUse?: string } = {},
) => {
  const recorded: unknown[] = [];
  const homes = makeKeptHomes({
    stateDir,
    ageMs,
    isInUse: (one) => one === inUse,
    warden: {
      async deleteTree(path) {
        rmSync(path, { recursive: true });
        return { bytes: 0, entries: 0 };
      },
      async measure() {
        return { bytes: 4_096, entries: 2 };
      },
    },
    store: {
      async recordHomeRemoved(home, how) {
        recorded.push({ home, ...how });
      },
    },
    clock: manualClock(NOW_MS),
    log: silentLog,
  });
  return { homes, recorded };
};

test('a person removes a home that no box has, and the log says who', async () => {
  const stateDir = freshDir();
  const dir = join(stateDir, 'homes');
  for (const digit of ['a', 'b']) mkdirSync(join(dir, id(digit), 'box'), { recursive: true });
  const { homes, recorded } = makeHomes(stateDir, { inUse: id('a') });
  await assert.rejects(homes.remove(id('a'), 'person:alice'), { code: 'conflict' });
  const size = { bytes: 4_096, entries: 2 };
  assert.deepEqual(await homes.remove(id('b'), 'person:alice'), { removed: true, ...size });
  assert.deepEqual(recorded, [{ home: id('b'), by: 'person:alice', ...size }]);
  const none = { removed: false, bytes: 0, entries: 0 };
  assert.deepEqual(await homes.remove(id('b'), 'person:alice'), none);
  assert.deepEqual(readdirSync(dir), [id('a')]);
});

test('what a crash has left of a removed home goes with the next sweep', async () => {
  const stateDir = freshDir();
  const dir = join(stateDir, 'homes');
  mkdirSync(join(dir, `${id('a')}.removed-0a1b2c3d`), { recursive: true });
  await makeHomes(stateDir).homes.sweep();
  assert.deepEqual(readdirSync(dir), []);
});

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
  const make = (ageMs: number | null) => makeHomes(stateDir, { ageMs, inUse: id('b') }).homes;
  assert.deepEqual(await make(null).sweep(), []);
  assert.deepEqual(await make(1_000).sweep(), [id('a')]);
  assert.deepEqual(
    names.filter((name) => existsSync(at(name))),
    names.slice(1),
  );
});
