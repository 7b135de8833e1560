// Path locks: shared at the same time, exclusive alone, and an exclusive request is not overtaken.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type LockRequest, makePathLock } from './path-lock.ts';

const never = new AbortController().signal;
const settle = () => new Promise((resolve) => setImmediate(resolve));

test('shared locks overlap; an exclusive request waits for them, and later ones wait for it', async () => {
  const { acquire } = makePathLock();
  const shared = (...paths: string[]) => acquire({ paths, exclusive: false }, never);
  const [first, second] = [await shared('/a'), await shared('/a', '/b')];
  assert.deepEqual([first.hasWaited, second.hasWaited], [false, false]);
  const order: string[] = [];
  const note = (name: string) => (turn: { release(): void }) => {
    order.push(name);
    return turn;
  };
  const alone = acquire({ paths: ['/a/x'], exclusive: true }, never).then(note('alone'));
  const late = shared('/a').then(note('late'));
  (await shared('/c')).release();
  first.release();
  await settle();
  assert.deepEqual(order, [], 'one lock is still held');
  second.release();
  await settle();
  assert.deepEqual(order, ['alone'], 'no request overtakes it');
  (await alone).release();
  (await late).release();
  assert.deepEqual(order, ['alone', 'late']);
});

test('a canceled request lets the others proceed', async () => {
  const { acquire } = makePathLock();
  const inside = await acquire({ paths: ['/a'], exclusive: false }, never);
  const canceled = new AbortController();
  const alone = acquire({ paths: ['/a'], exclusive: true }, canceled.signal);
  const behind = acquire({ paths: ['/a'], exclusive: false }, never);
  canceled.abort(new Error('enough'));
  await assert.rejects(alone, /enough/);
  (await behind).release();
  inside.release();
  await assert.rejects(acquire({ paths: ['/a'], exclusive: true }, canceled.signal), /enough/);
  assert.equal((await acquire({ paths: ['/a'], exclusive: true }, never)).hasWaited, false);
});

test('an exclusive lock is exclusive, and every request is granted', async () => {
  const requests = fc.array(
    fc.record({
      paths: fc.uniqueArray(fc.constantFrom('/a', '/a/b', '/c', 'task'), { minLength: 1 }),
      exclusive: fc.boolean(),
    }),
    { maxLength: 12 },
  );
  await fc.assert(
    fc.asyncProperty(requests, fc.infiniteStream(fc.nat(3)), async (all, waits) => {
      const { acquire } = makePathLock();
      const inside = new Set<LockRequest>();
      const meet = (a: LockRequest, b: LockRequest) =>
        a.paths.some((p) => b.paths.some((q) => p === q || `${p}/`.startsWith(`${q}/`))) ||
        b.paths.some((p) => a.paths.some((q) => `${p}/`.startsWith(`${q}/`)));
      const hold = async (request: LockRequest) => {
        const { release } = await acquire(request, never);
        for (const other of inside)
          assert.ok(!((request.exclusive || other.exclusive) && meet(request, other)), 'not alone');
        inside.add(request);
        for (let i = waits.next().value ?? 0; i > 0; i--) await settle();
        inside.delete(request);
        release();
      };
      await Promise.all(all.map(hold));
    }),
    { numRuns: 50 },
  );
});
