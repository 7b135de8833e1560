// Path locks: shared at the same time, exclusive alone, and an exclusive request is not overtaken.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type LockRequest, makePathLock } from './path-lock.ts';

const never = new AbortController().signal;
const settle = () => new Promise((resolve) => setImmediate(resolve));

test('many are in at once; who wants to be alone waits for them, and others wait for it', async () => {
  const { acquire: enter } = makePathLock();
  const beside = (...paths: string[]) => enter({ paths: paths, exclusive: false }, never);
  const [first, second] = [await beside('/a'), await beside('/a', '/b')];
  assert.deepEqual([first.hasWaited, second.hasWaited], [false, false]);
  const order: string[] = [];
  const note = (name: string) => (turn: { release(): void }) => {
    order.push(name);
    return turn;
  };
  const alone = enter({ paths: ['/a/x'], exclusive: true }, never).then(note('alone'));
  const late = beside('/a').then(note('late'));
  (await beside('/c')).release();
  first.release();
  await settle();
  assert.deepEqual(order, [], 'one is still in');
  second.release();
  await settle();
  assert.deepEqual(order, ['alone'], 'nobody overtakes it');
  (await alone).release();
  (await late).release();
  assert.deepEqual(order, ['alone', 'late']);
});

test('who gives up while waiting lets the others in', async () => {
  const { acquire: enter } = makePathLock();
  const inside = await enter({ paths: ['/a'], exclusive: false }, never);
  const given = new AbortController();
  const alone = enter({ paths: ['/a'], exclusive: true }, given.signal);
  const behind = enter({ paths: ['/a'], exclusive: false }, never);
  given.abort(new Error('enough'));
  await assert.rejects(alone, /enough/);
  (await behind).release();
  inside.release();
  await assert.rejects(enter({ paths: ['/a'], exclusive: true }, given.signal), /enough/);
  assert.equal((await enter({ paths: ['/a'], exclusive: true }, never)).hasWaited, false);
});

test('whoever is alone is alone, and everybody gets in', async () => {
  const stays = fc.array(
    fc.record({
      paths: fc.uniqueArray(fc.constantFrom('/a', '/a/b', '/c', 'task'), { minLength: 1 }),
      exclusive: fc.boolean(),
    }),
    { maxLength: 12 },
  );
  await fc.assert(
    fc.asyncProperty(stays, fc.infiniteStream(fc.nat(3)), async (all, waits) => {
      const { acquire: enter } = makePathLock();
      const inside = new Set<LockRequest>();
      const meet = (a: LockRequest, b: LockRequest) =>
        a.paths.some((p) => b.paths.some((q) => p === q || `${p}/`.startsWith(`${q}/`))) ||
        b.paths.some((p) => a.paths.some((q) => `${p}/`.startsWith(`${q}/`)));
      const one = async (stay: LockRequest) => {
        const { release: leave } = await enter(stay, never);
        for (const other of inside)
          assert.ok(!((stay.exclusive || other.exclusive) && meet(stay, other)), 'not alone');
        inside.add(stay);
        for (let i = waits.next().value ?? 0; i > 0; i--) await settle();
        inside.delete(stay);
        leave();
      };
      await Promise.all(all.map(one));
    }),
    { numRuns: 50 },
  );
});
