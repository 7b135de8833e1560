// Path locks: shared at the same time, exclusive alone, and an exclusive request is not overtaken.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type LockRequest, makePathLock } from './path-lock.ts';

const never = new AbortController().signal;
const settle = () => new Promise((resolve) => setImmediate(resolve));

test('many are in at once; who wants to be alone waits for them, and others wait for it', async () => {
  const { enter } = makePathLock();
  const beside = (...places: string[]) => enter({ places, exclusive: false }, never);
  const [first, second] = [await beside('/a'), await beside('/a', '/b')];
  assert.deepEqual([first.hasWaited, second.hasWaited], [false, false]);
  const order: string[] = [];
  const note = (name: string) => (turn: { leave(): void }) => {
    order.push(name);
    return turn;
  };
  const alone = enter({ places: ['/a/x'], exclusive: true }, never).then(note('alone'));
  const late = beside('/a').then(note('late'));
  (await beside('/c')).leave();
  first.leave();
  await settle();
  assert.deepEqual(order, [], 'one is still in');
  second.leave();
  await settle();
  assert.deepEqual(order, ['alone'], 'nobody overtakes it');
  (await alone).leave();
  (await late).leave();
  assert.deepEqual(order, ['alone', 'late']);
});

test('who gives up while waiting lets the others in', async () => {
  const { enter } = makePathLock();
  const inside = await enter({ places: ['/a'], exclusive: false }, never);
  const given = new AbortController();
  const alone = enter({ places: ['/a'], exclusive: true }, given.signal);
  const behind = enter({ places: ['/a'], exclusive: false }, never);
  given.abort(new Error('enough'));
  await assert.rejects(alone, /enough/);
  (await behind).leave();
  inside.leave();
  await assert.rejects(enter({ places: ['/a'], exclusive: true }, given.signal), /enough/);
  assert.equal((await enter({ places: ['/a'], exclusive: true }, never)).hasWaited, false);
});

test('whoever is alone is alone, and everybody gets in', async () => {
  const stays = fc.array(
    fc.record({
      places: fc.uniqueArray(fc.constantFrom('/a', '/a/b', '/c', 'task'), { minLength: 1 }),
      exclusive: fc.boolean(),
    }),
    { maxLength: 12 },
  );
  await fc.assert(
    fc.asyncProperty(stays, fc.infiniteStream(fc.nat(3)), async (all, waits) => {
      const { enter } = makePathLock();
      const inside = new Set<LockRequest>();
      const meet = (a: LockRequest, b: LockRequest) =>
        a.places.some((p) => b.places.some((q) => p === q || `${p}/`.startsWith(`${q}/`))) ||
        b.places.some((p) => a.places.some((q) => `${p}/`.startsWith(`${q}/`)));
      const one = async (stay: LockRequest) => {
        const { leave } = await enter(stay, never);
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
