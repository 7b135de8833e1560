// The disk reserve: artifacts never cut into it, also with concurrent writes.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { makeArtifactDiskReserve } from './artifact-disk-reserve.ts';

const MIB = 1_048_576;
const stored = async () => 'stored';

it('stores what fits beside the reserve and refuses the rest', async () => {
  let free = 20 * MIB;
  let fewInodes = false;
  const isShort = () => fewInodes;
  const reserve = makeArtifactDiskReserve({
    dir: '/objects',
    reserveBytes: 10 * MIB,
    free: () => free,
    isShort,
  });
  assert.equal(await reserve.reserveWhile(10 * MIB, stored), 'stored');
  await assert.rejects(reserve.reserveWhile(10 * MIB + 1, stored), {
    code: 'storage_full',
    message: 'the artifact disk has 20 MiB free, and 10 MiB are reserved for the runtime',
  });
  fewInodes = true;
  await assert.rejects(reserve.reserveWhile(0, stored), {
    code: 'storage_full',
    message: /short of inodes/,
  });
  fewInodes = false;
  free = 5 * MIB;
  await assert.rejects(reserve.reserveWhile(0, stored), { code: 'storage_full' });
});

it('counts concurrent writes together', async () => {
  const reserve = makeArtifactDiskReserve({
    dir: '/',
    reserveBytes: 10 * MIB,
    free: () => 20 * MIB,
  });
  const slow = Promise.withResolvers<string>();
  const first = reserve.reserveWhile(6 * MIB, () => slow.promise);
  await assert.rejects(reserve.reserveWhile(6 * MIB, stored), { code: 'storage_full' });
  assert.equal(await reserve.reserveWhile(4 * MIB, stored), 'stored');
  slow.reject(new Error('not written'));
  await assert.rejects(first, /not written/);
  assert.equal(
    await reserve.reserveWhile(6 * MIB, stored),
    'stored',
    'a failed write reserves nothing',
  );
});

it('a reserve of 0 disables the check', async () => {
  const reserve = makeArtifactDiskReserve({ dir: '/', reserveBytes: 0, free: () => 0 });
  assert.equal(await reserve.reserveWhile(MIB, stored), 'stored');
});
