// What agents store leaves of the disk what the runtime needs, however many store at once.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { makeArtifactRoom } from './artifact-disk-reserve.ts';

const MIB = 1_048_576;
const stored = async () => 'stored';

it('what fits beside the reserve is stored, and what does not is refused', async () => {
  let free = 20 * MIB;
  let isFew = false;
  const isShort = () => isFew;
  const room = makeArtifactRoom({
    dir: '/objects',
    reserveBytes: 10 * MIB,
    free: () => free,
    isShort,
  });
  assert.equal(await room.during(10 * MIB, stored), 'stored');
  await assert.rejects(room.during(10 * MIB + 1, stored), {
    code: 'storage_full',
    message: 'the disk for artifacts has 20 MiB left, and 10 MiB are kept from agents',
  });
  isFew = true;
  await assert.rejects(room.during(0, stored), { code: 'storage_full', message: /few more files/ });
  isFew = false;
  free = 5 * MIB;
  await assert.rejects(room.during(0, stored), { code: 'storage_full' });
});

it('those that are stored at the same time count together', async () => {
  const room = makeArtifactRoom({ dir: '/', reserveBytes: 10 * MIB, free: () => 20 * MIB });
  const slow = Promise.withResolvers<string>();
  const first = room.during(6 * MIB, () => slow.promise);
  await assert.rejects(room.during(6 * MIB, stored), { code: 'storage_full' });
  assert.equal(await room.during(4 * MIB, stored), 'stored');
  slow.reject(new Error('not written'));
  await assert.rejects(first, /not written/);
  assert.equal(await room.during(6 * MIB, stored), 'stored', 'what was not written takes no room');
});

it('a reserve of 0 keeps nothing', async () => {
  const room = makeArtifactRoom({ dir: '/', reserveBytes: 0, free: () => 0 });
  assert.equal(await room.during(MIB, stored), 'stored');
});
