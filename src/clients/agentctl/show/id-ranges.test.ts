// The uids and gids that are used: a warning from 90 % on, with the keys to change.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeIdRanges } from './id-ranges.ts';

const describe = (identity: 'dynamic' | 'single', uids: number, gids: number) =>
  describeIdRanges({
    identity,
    uid: null,
    ranges: {
      uids: { first: 1_000, last: 1_099, used: uids },
      gids: { first: 300_000, last: 1_299_999, used: gids },
    },
  });

test('a range of which nine tenths are used is to be widened', () => {
  const text = '899,999 of 1,000,000 gids of task trees, 89 of 100 uids of agents used';
  assert.deepEqual(describe('dynamic', 89, 899_999), { text, fix: undefined });
  assert.equal(describe('dynamic', 0, 900_000)?.fix, 'widen sandboxd.gid_first and gid_last');
  assert.equal(describe('dynamic', 90, 0)?.fix, 'widen sandboxd.uid_first and uid_last');
  assert.match(describe('dynamic', 99, 999_999)?.fix ?? '', /gid_last, sandboxd\.uid_first/);
});

test('uids are left out where agents have none, and an older runtime reports nothing', () => {
  assert.equal(describe('single', 100, 1)?.text, '1 of 1,000,000 gids of task trees used');
  assert.equal(describe('single', 100, 1)?.fix, undefined);
  assert.equal(describeIdRanges({ identity: 'single', uid: 1 } as never), undefined);
});
