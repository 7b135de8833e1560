// Vectors of memories: who gets one, who pays, what is never sent, and what recall does with them
// and without.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, test } from 'node:test';
import { fault } from '../../../wire/errors.ts';
import type { MemoryId } from '../../../wire/memoryd/records.ts';
import { MIGRATIONS } from '../store/schema.ts';
import { hostMemoryd, type MemoryHost, type MemoryWorld, makeWorld } from '../testing/host.ts';
import { dumpTables } from '../testing/tables.ts';

const CONFIG = { embedding_model: 'synonyms' };
let world: MemoryWorld;
let host: MemoryHost;
beforeEach(async () => {
  world = makeWorld();
  host = await hostMemoryd(world, CONFIG);
});
afterEach(async () => {
  await host.stop();
  world.remove();
});

const restart = async (config: object = CONFIG): Promise<void> => {
  await host.stop();
  host = await hostMemoryd(world, config);
};

function query<T>(text: string): T[] {
  const db = new DatabaseSync(join(world.stateDir, 'memoryd.sqlite'), { readOnly: true });
  try {
    return db.prepare(text).all() as T[];
  } finally {
    db.close();
  }
}
const count = (table: string): number =>
  query<{ n: number }>(`SELECT COUNT(*) AS n FROM ${table}`)[0]!.n;
const eventually = async (isTrue: () => boolean, what: string): Promise<void> => {
  for (let i = 0; i < 500; i++) {
    if (isTrue()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert.fail(`waited for ${what}`);
};
const made = (n: number) => eventually(() => count('vectors') === n, `${n} vectors`);
const recall = (text: string, more: object = {}) =>
  host.alice.recall({ body: { query: text, explain: true, ...more } });
const texts = async (...args: Parameters<typeof recall>) =>
  (await recall(...args)).memories.map(({ text }) => text);
const LABELS_REFUSED = fault('data_not_allowed', 'text labelled personal may not go to fake');

test('[R57] [R84] a memory is recalled by its meaning, without a word of the question', async () => {
  await host.remember('The windhover comes on Mondays.');
  await host.remember('The rhododendron stands in the yard.');
  await host.remember('Bread is baked at six.');
  await made(3);
  const found = await recall('kestrel', { scope: 'project:app' });
  assert.deepEqual(
    found.memories.map(({ text }) => text),
    ['The windhover comes on Mondays.'],
  );
  assert.ok(found.memories[0]!.reasons!.meaning! > 0);
  assert.equal(found.words_only, undefined);
  await restart({});
  assert.deepEqual(await texts('kestrel'), [], 'control: words alone do not find it');
});

test('words and meaning count together', async () => {
  await host.remember('The kestrel comes on Mondays.');
  await host.remember('A windhover called.');
  await host.remember('Mondays are long.');
  await made(3);
  assert.deepEqual((await texts('kestrel Mondays')).slice(0, 2), [
    'The kestrel comes on Mondays.',
    'A windhover called.',
  ]);
});

test('who wrote a memory pays for its vector, and whoever asks for that of the question', async () => {
  const { id } = await host.remember('The azalea is red.', { speaker: 'Ann', caption: 'a photo' });
  await made(1);
  await recall('rhododendron');
  const [ofMemory, ofQuestion] = world.model.orders;
  assert.deepEqual(ofMemory, {
    model: 'synonyms',
    input: [{ text: 'Ann: The azalea is red.\na photo', memory: { id, version: 1 } }],
    labels: ['person'],
    principal: 'person:alice',
  });
  assert.deepEqual(ofQuestion, {
    model: 'synonyms',
    input: [{ text: 'rhododendron' }],
    labels: ['person'],
    principal: 'person:alice',
  });
});

test('texts of one author with one set of labels go together, with these labels', async () => {
  let answer = (): void => {};
  world.model.answers = new Promise((resolve) => (answer = resolve));
  await host.remember('The first azalea.');
  await eventually(() => world.model.orders.length === 1, 'the first order');
  await host.remember('Another azalea.');
  await host.remember('A third azalea.', { labels: ['outside'] });
  await host.remember('A fourth azalea.');
  answer();
  await made(4);
  assert.deepEqual(
    world.model.orders.map(({ input, labels }) => [input.length, labels]),
    [
      [1, ['person']],
      [2, ['person']],
      [1, ['person', 'outside']],
    ],
  );
});

test('what its labels keep from the model is remembered, and recalled by words', async () => {
  world.model.refuse = ({ labels }) => (labels.includes('personal') ? LABELS_REFUSED : undefined);
  await host.remember('The kestrel is at +49 30 901820.');
  await host.remember('The kestrel is in.');
  await made(1);
  await eventually(
    () => query('SELECT number FROM vectors_due WHERE refused IS NOT NULL').length === 1,
    'the refusal',
  );
  assert.deepEqual((await texts('kestrel')).length, 2);
  assert.deepEqual(await texts('windhover'), ['The kestrel is in.']);
  world.model.refuse = () => undefined;
  await restart();
  await made(2);
  assert.deepEqual((await texts('windhover')).length, 2, 'a restart tries again');
});

test('without the model recall goes by words and says so; no write waits for it', async () => {
  world.model.answers = new Promise(() => {});
  await host.remember('The kestrel is in.');
  const found = await recall('kestrel');
  assert.equal(found.memories.length, 1);
  assert.match(found.words_only!, /./);
  assert.equal(count('vectors_due'), 1);
  world.model.answers = Promise.resolve();
  await restart();
  await made(1);
  assert.deepEqual([await texts('windhover'), count('vectors_due')], [['The kestrel is in.'], 0]);
});

test('one text that the model refuses does not keep the others from it', async () => {
  let answer = (): void => {};
  world.model.answers = new Promise((resolve) => (answer = resolve));
  world.model.refuse = ({ input }) =>
    input.some(({ text }) => text.includes('bad'))
      ? fault('context_too_long', 'too long')
      : undefined;
  for (const text of ['The azalea.', 'A bad azalea.', 'No azalea.']) await host.remember(text);
  answer();
  await made(2);
});

test('what a budget refuses is tried again when it renews', async () => {
  const renewsAt = new Date(world.clock.nowMs() + 3_600_000).toISOString();
  world.model.refuse = () => fault('budget', 'spent', { details: { renews_at: renewsAt } });
  await host.remember('The kestrel is in.');
  await eventually(
    () => query('SELECT 1 FROM vectors_due WHERE due_ms > 0').length === 1,
    'refusal',
  );
  world.model.refuse = () => undefined;
  world.clock.advance(3_600_000);
  await made(1);
});

test('forgetting removes the vector, also one that is being made', async () => {
  const first = await host.remember('The kestrel is in.');
  await made(1);
  await host.alice.forget({ body: { ids: [first.id] } });
  assert.deepEqual([count('vectors'), count('vectors_due')], [0, 0]);
  let answer = (): void => {};
  world.model.answers = new Promise((resolve) => (answer = resolve));
  const second = await host.remember('The azalea is here.');
  await eventually(() => world.model.orders.length === 2, 'the order');
  await host.alice.forget({ body: { ids: [second.id] } });
  answer();
  await host.remember('An rhododendron.');
  await made(1);
  assert.deepEqual(await texts('azalea'), ['An rhododendron.']);
});

test('every version has its vector: an earlier one is found as of its time', async () => {
  const { id } = await host.remember('She is a windhover.');
  await made(1);
  const before = new Date(world.clock.nowMs()).toISOString();
  world.clock.advance(1_000);
  await host.alice.editMemory({ params: { id }, body: { text: 'She has a azalea.' } });
  await made(2);
  assert.deepEqual(await texts('kestrel'), []);
  assert.deepEqual(await texts('kestrel', { as_of: before }), ['She is a windhover.']);
});

test('a proposal is sent to the model once it is approved', async () => {
  const memory = { class: 'semantic', scope: 'team', text: 'The kestrel is in.' } as const;
  const { memory: proposed } = await host.alice.proposeMemory({ body: memory });
  await host.remember('The azalea.');
  await made(1);
  assert.equal(world.model.orders.length, 1);
  await host.bob.approveMemory({ params: { id: proposed.id as MemoryId } });
  await made(2);
});

test('a rebuild keeps the vectors, and the result is equal', async () => {
  for (const text of ['The azalea.', 'The kestrel.', 'Rain.']) await host.remember(text);
  await made(3);
  const before = dumpTables(world.stateDir);
  await host.alice.rebuildMemory({});
  assert.deepEqual(dumpTables(world.stateDir), before);
  assert.equal(world.model.orders.flatMap(({ input }) => input).length, 3);
  assert.deepEqual(await texts('windhover'), ['The kestrel.']);
});

test('memories of before get vectors when a model is configured, and others when it changes', async () => {
  await restart({});
  await host.remember('The azalea.');
  await host.remember('The kestrel.');
  assert.deepEqual([count('vectors_due'), world.model.orders.length], [0, 0]);
  await restart();
  await made(2);
  await restart({});
  await host.remember('Rain.');
  await restart();
  await made(3);
  assert.equal(world.model.orders.flatMap(({ input }) => input).length, 3, 'each was sent once');
  world.model.name = 'synonyms-2';
  await host.remember('Drizzle.');
  await eventually(
    () => query("SELECT 1 FROM vectors WHERE model = 'synonyms-2'").length === 4,
    'the vectors of the other model',
  );
  await restart({ embedding_model: 'others' });
  await eventually(() => world.model.orders.at(-1)!.model === 'others', 'the other name');
});

test('vectors of the version before, one row each, are made again', async () => {
  for (const text of ['The azalea.', 'The kestrel.']) await host.remember(text);
  await made(2);
  await host.stop();
  const before = MIGRATIONS.findIndex((text) => text.includes('CREATE TABLE vector_blocks'));
  const db = new DatabaseSync(join(world.stateDir, 'memoryd.sqlite'));
  db.exec(`DROP TABLE vectors; DROP TABLE vector_blocks;
    CREATE TABLE vectors (number INTEGER PRIMARY KEY, scope TEXT NOT NULL, model TEXT NOT NULL,
      vector BLOB NOT NULL);
    CREATE INDEX vectors_by_scope ON vectors (scope, model, number);
    INSERT INTO vectors SELECT number, 'project:app', 'synonyms-1', x'00' FROM memory_index_records;
    PRAGMA user_version = ${before};`);
  db.close();
  host = await hostMemoryd(world, CONFIG);
  await made(2);
  assert.deepEqual(await texts('windhover'), ['The kestrel.']);
});
