// Random operations on memoryd and on a simple model in memory: both have the same memories after
// each, after a restart and after a rebuild.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MemoryView, NewMemory } from '../../../wire/memoryd/records.ts';
import { hostMemoryd, makeWorld } from '../testing/host.ts';
import { dumpTables, withoutIndex } from '../testing/tables.ts';

type Id = MemoryView['id'];
type Model = Map<Id, { status: string; versions: (string | null)[]; scope: string; marks: string }>;

const SCOPES = ['team', 'project:app', 'project:app/coder', 'agent:coder'];
const OPERATIONS = 120;

/** A small generator, so that a failure can be repeated. */
function makeRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * below);
  };
}

for (const seed of [1, 2, 3])
  test(`[R85] random operations, a model and a rebuild agree (seed ${seed})`, async () => {
    const random = makeRandom(seed);
    const world = makeWorld();
    let host = await hostMemoryd(world, {});
    const model: Model = new Map();
    const snapshots: { id: string; scope: string; before: Model }[] = [];
    const pick = <T>(list: readonly T[]): T => list[random(list.length)]!;
    const active = () => [...model].filter(([, one]) => one.status === 'active');
    let made = 0;
    const newText = (): string => `Fact ${made++} ${'x'.repeat(random(4) === 0 ? 5_000 : 5)}`;
    const newMemory = (): NewMemory => ({
      class: 'semantic',
      scope: pick(SCOPES),
      text: newText(),
      ...(random(3) === 0 ? { labels: ['outside'] } : {}),
    });
    const add = ({ id, text, scope, status, labels }: MemoryView): void => {
      const marks = labels.includes('outside') ? 'outside' : '';
      model.set(id, { status, versions: [text], scope, marks });
    };
    const isBelow = (scope: string, above: string): boolean =>
      scope === above || scope.startsWith(`${above}/`);

    const operations: (() => Promise<void>)[] = [
      async () => {
        const { memories } = await host.alice.remember({
          body: { memories: Array.from({ length: 1 + random(3) }, newMemory) },
        });
        memories.forEach(add);
      },
      async () => {
        const [id, one] = pick(active());
        const { memory } = await host.alice.editMemory({
          params: { id },
          body: { text: newText() },
        });
        one.versions.push(memory.text);
      },
      async () => {
        const [id, one] = pick(active());
        const body = { ...newMemory(), supersedes: [id] };
        add((await host.alice.remember({ body })).memory);
        one.status = 'superseded';
      },
      async () => {
        const [[one, first], [two, second]] = [pick(active()), pick(active())];
        const body = { ids: [one, two], text: newText(), scope: pick(SCOPES) };
        const { memory } = await host.alice.merge({ body });
        add(memory);
        first.status = 'merged';
        second.status = 'merged';
        assert.equal(
          memory.labels.includes('outside'),
          first.marks === 'outside' || second.marks === 'outside',
        );
      },
      async () => {
        const [id, one] = pick([...model]);
        await host.alice.forget({ body: { ids: [id] } });
        model.set(id, { ...one, status: 'forgotten', versions: one.versions.map(() => null) });
      },
      async () => {
        const [id, one] = pick(active());
        await host.alice.expire({ body: { ids: [id] } });
        one.status = 'expired';
      },
      async () => {
        const scope = pick(SCOPES);
        world.clock.advance(1);
        const { snapshot } = await host.alice.takeMemorySnapshot({ body: { scope } });
        world.clock.advance(1);
        snapshots.push({ id: snapshot.id, scope, before: structuredClone(model) });
      },
      async () => {
        if (snapshots.length === 0) return;
        const { id, scope, before } = pick(snapshots);
        await host.alice.rollBackMemory({ body: { snapshot_id: id as never } });
        for (const [memory, one] of model) {
          if (!isBelow(one.scope, scope) || one.status === 'forgotten') continue;
          const was = before.get(memory);
          if (was?.status !== 'active') {
            if (one.status === 'active') one.status = 'rolled_back';
            continue;
          }
          const isSame = one.status === 'active' && one.versions.length === was.versions.length;
          if (!isSame) one.versions.push(was.versions.at(-1)!);
          one.status = 'active';
        }
      },
    ];

    const assertAgrees = async (): Promise<void> => {
      const { memories } = await host.alice.listMemories({ query: { limit: 1_000 } });
      assert.deepEqual(
        Object.fromEntries(memories.map(({ id, status, text }) => [id, [status, text]])),
        Object.fromEntries(
          [...model].map(([id, { status, versions }]) => [id, [status, versions.at(-1)]]),
        ),
      );
    };

    await operations[0]!();
    for (let n = 0; n < OPERATIONS; n++) {
      world.clock.advance(1);
      await (active().length < 3 ? operations[0]! : pick(operations))();
      if (n % 40 === 0) await assertAgrees();
    }
    await assertAgrees();
    const tables = withoutIndex(dumpTables(world.stateDir));
    await host.stop();
    host = await hostMemoryd(world);
    await assertAgrees();
    await host.alice.rebuildMemory({});
    assert.deepEqual({ ...withoutIndex(dumpTables(world.stateDir)), erasures: [] }, tables);
    for (const [id, { versions }] of model) {
      const found = await host.alice.memoryHistory({ params: { id } });
      assert.deepEqual(
        found.versions.map(({ text }) => text),
        versions,
      );
    }
    const body = { query: 'fact', limit: 100 };
    const { memories } = await host.alice.recall({ body });
    for (const { id, text } of memories) {
      const one = model.get(id)!;
      assert.deepEqual([one.status, one.versions.at(-1)], ['active', text]);
    }
    assert.ok(memories.length > 0);
    await host.stop();
    world.remove();
  });
