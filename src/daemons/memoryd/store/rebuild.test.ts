// The tables follow from the journal: a start completes them, a rebuild makes them again, and the
// result is equal.
import assert from 'node:assert/strict';
import { appendFileSync, copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import type { NewMemory } from '../../../wire/memoryd/records.ts';
import { hostMemoryd, type MemoryHost, type MemoryWorld, makeWorld } from '../testing/host.ts';
import { dumpTables } from '../testing/tables.ts';

let world: MemoryWorld;
let host: MemoryHost;
beforeEach(async () => {
  world = makeWorld();
  host = await hostMemoryd(world);
});
afterEach(async () => {
  await host.stop();
  world.remove();
});

const journalFile = () => join(world.stateDir, 'memory', 'journals', '2026-06-29.jsonl');
const restart = async (meanwhile: () => void = () => {}): Promise<void> => {
  await host.stop();
  meanwhile();
  host = await hostMemoryd(world);
};
const found = async (query: string) =>
  (await host.alice.recall({ body: { query } })).memories.map(({ text }) => text);
const dump = () => dumpTables(world.stateDir);

async function fill(): Promise<void> {
  const first = await host.remember('The first apple.');
  await host.remember(`A long story. ${'blah '.repeat(1_000)} banana`);
  await host.remember('The second apple.', { supersedes: [first.id] });
  const memory = (text: string): NewMemory => ({ class: 'episodic', scope: 'team', text });
  const body = { memories: [memory('One cherry.'), memory('Two cherries.')] };
  await host.alice.remember({ body }, { idempotencyKey: 'k' });
}

test('[R83] a rebuild gives equal tables, and no event twice', async () => {
  await fill();
  const before = dump();
  const { applied, problems } = await host.alice.rebuildMemory({});
  assert.deepEqual([applied, problems], [4, []]);
  assert.deepEqual(dump(), before);
  assert.deepEqual(await found('banana').then((all) => all.length), 1);
  await restart();
  const kinds = world.events.filter(({ event }) => event === 'memory.remembered');
  assert.equal(new Set(kinds.map(({ id }) => id)).size, kinds.length);
  assert.equal(kinds.length, 5);
});

test('[R418] without its database everything is made again from the journal and the objects', async () => {
  await fill();
  const before = dump();
  await restart(() => {
    for (const end of ['', '-wal', '-shm'])
      rmSync(join(world.stateDir, `memoryd.sqlite${end}`), { force: true });
  });
  assert.deepEqual(dump(), before);
  const body: NewMemory = { class: 'episodic', scope: 'team', text: 'One cherry.' };
  const again = host.alice.remember({ body }, { idempotencyKey: 'k' });
  await assert.rejects(again, { code: 'idempotency_mismatch' }, 'the keys are known again');
});

test('what a crash left out of the database is completed at the start, with its event', async () => {
  const file = join(world.stateDir, 'memoryd.sqlite');
  await host.remember('One apple.');
  await restart(() => copyFileSync(file, `${file}.copy`));
  const two = await host.remember('Two apples.');
  await restart(() => {
    copyFileSync(`${file}.copy`, file);
    world.events.length = 0;
  });
  assert.deepEqual((await found('apple')).toSorted(), ['One apple.', 'Two apples.']);
  const three = await host.remember('Three apples.');
  await restart();
  const ids = world.events.flatMap(({ event, data }) =>
    event === 'memory.remembered' ? [data?.memory_id] : [],
  );
  assert.deepEqual(ids.slice(-2), [two.id, three.id]);
  const tables = dump();
  await host.alice.rebuildMemory({});
  assert.deepEqual(dump(), tables);
});

test('a damaged line is named, and everything else is there', async () => {
  await host.remember('The first apple.');
  const lost = await host.remember('The second apple.');
  await host.remember('The third apple.');
  writeFileSync(journalFile(), readFileSync(journalFile(), 'utf8').replace('second', 'sekond'));
  const { problems } = await host.alice.rebuildMemory({});
  assert.deepEqual(problems, [{ day: '2026-06-29', line: 2 }]);
  assert.deepEqual((await found('apple')).toSorted(), ['The first apple.', 'The third apple.']);
  const gone = host.alice.getMemory({ params: { id: lost.id } });
  await assert.rejects(gone, { code: 'not_found' });
  await host.remember('The fourth apple.');
  await restart();
  assert.equal((await found('apple')).length, 3);
});

test('a line that a power loss damaged at the end is cut, because nobody was told of it', async () => {
  await host.remember('The first apple.');
  await restart(() => appendFileSync(journalFile(), '{"v":1,"n":2,"at"\0\0\0\0\n'));
  await host.remember('The second apple.');
  const { problems } = await host.alice.rebuildMemory({});
  assert.deepEqual(problems, []);
  assert.equal((await found('apple')).length, 2);
});

test('nothing is remembered while the disk is full, and later everything works', async () => {
  await host.remember('The first apple.');
  const before = readFileSync(journalFile(), 'utf8');
  world.failpoint = (name) => {
    if (name === 'memoryd.before-append')
      throw Object.assign(new Error('full'), { code: 'ENOSPC', errno: -28, syscall: 'write' });
  };
  await assert.rejects(host.remember('The second apple.'));
  assert.equal(readFileSync(journalFile(), 'utf8'), before);
  assert.deepEqual(await found('apple'), ['The first apple.']);
  world.failpoint = () => {};
  await host.remember('The third apple.');
  const tables = dump();
  await host.alice.rebuildMemory({});
  assert.deepEqual(dump(), tables);
});

test('texts that could not be removed when they were forgotten are removed at the next start', async () => {
  const { id } = await host.remember('The zebracorn sleeps.');
  world.failpoint = (name) => {
    if (name === 'memoryd.before-erase')
      throw Object.assign(new Error('full'), { code: 'ENOSPC', syscall: 'write' });
  };
  await assert.rejects(host.alice.forget({ body: { ids: [id] } }));
  assert.deepEqual(await found('zebracorn'), [], 'nobody recalls it');
  assert.match(readFileSync(journalFile(), 'utf8'), /zebracorn/);
  await restart();
  assert.match(readFileSync(journalFile(), 'utf8'), /zebracorn/, 'it starts all the same');
  world.failpoint = () => {};
  await restart();
  assert.doesNotMatch(readFileSync(journalFile(), 'utf8'), /zebracorn/);
});
