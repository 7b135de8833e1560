// Forgetting through memoryd's routes: what is gone, from where, and who may do it.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { findFiles } from '../../../test/support/find-files.ts';
import type { MemoryView } from '../../wire/memoryd/records.ts';
import {
  findTexts,
  getMemory,
  hasCode,
  host,
  publish,
  restart,
  setUpEachTest,
  world,
} from './testing/each-test.ts';

setUpEachTest();

test('[R74] [R137] what is forgotten is gone from every file, and stays so after a rebuild', async () => {
  const long = `zebracorn ${'and so on '.repeat(600)}`;
  const one = await host.remember('The zebracorn sleeps.', { caption: 'a zebracorn' });
  const two = await host.remember(long);
  const kept = await host.remember('The horse is awake.');
  world.clock.advance(1_000);
  await host.alice.editMemory({ params: { id: one.id }, body: { text: 'A zebracorn runs.' } });
  assert.ok(findFiles(world.stateDir, 'zebracorn').length > 0, 'control');
  const { memories } = await host.alice.forget({ body: { ids: [one.id, two.id] } });
  assert.deepEqual(
    memories.map(({ status, text, caption }) => [status, text, caption]),
    [
      ['forgotten', null, null],
      ['forgotten', null, null],
    ],
  );
  assert.deepEqual(findFiles(world.stateDir, 'zebracorn'), []);
  assert.deepEqual(await findTexts('zebracorn'), []);
  const { versions } = await host.alice.memoryHistory({ params: { id: one.id } });
  assert.deepEqual(
    versions.map(({ text }) => text),
    [null, null],
  );
  await host.alice.rebuildMemory({});
  assert.equal((await getMemory(one.id)).status, 'forgotten');
  assert.deepEqual(await findTexts('horse'), [(await getMemory(kept.id)).text]);
  await host.alice.forget({ body: { ids: [one.id] } });
  await restart();
  const events = world.events.filter(({ event }) => event === 'memory.forgotten');
  assert.equal(events.length, 2);
});

test('merges and forgets at the same time: each is done or refused, and no forgotten text is left', async () => {
  const texts = Array.from({ length: 12 }, (_, n) => `Curlew number ${n} has a secret nest.`);
  const made = await Promise.all(texts.map((text) => host.remember(text)));
  const pairs = made.flatMap(({ id }, i) => (i % 2 === 0 ? [[id, made[i + 1]!.id]] : []));
  const work = pairs.flatMap((ids, i) => [
    host.alice.merge({ body: { ids, text: `Pair ${i} of curlews.` } }),
    host.alice.forget({ body: { ids: [ids[0]!] } }),
  ]);
  const done = await Promise.allSettled(work);
  for (const [i, one] of done.entries())
    if (one.status === 'rejected') {
      assert.equal(i % 2, 0, 'a forget is never refused');
      assert.match(one.reason.message, /is forgotten|has changed/);
    }
  const status = async (id: MemoryView['id']) =>
    (await host.alice.getMemory({ params: { id }, query: {} })).memory.status;
  for (const [i, [first, second]] of pairs.entries()) {
    assert.equal(await status(first!), 'forgotten');
    const isMerged = done[2 * i]!.status === 'fulfilled';
    assert.equal(await status(second!), isMerged ? 'merged' : 'active');
  }
  const forgotten = made.filter((_, i) => i % 2 === 0).map((_, i) => `number ${2 * i} has`);
  const journal = readFileSync(
    join(world.stateDir, 'memory', 'journals', '2026-06-29.jsonl'),
    'utf8',
  );
  for (const words of forgotten) assert.ok(!journal.includes(words), words);
  const { problems } = await host.alice.rebuildMemory({});
  assert.deepEqual(problems, []);
});

test('the texts are kept until agentd has them, and then nowhere', async () => {
  const one = await host.remember('The quagga sleeps in the barn.', { caption: 'a picture of it' });
  world.isAgentdAway = true;
  const { memories } = await host.alice.forget({ body: { ids: [one.id] } });
  assert.equal(memories[0]!.erasure?.status, 'waiting');
  assert.ok(findFiles(world.stateDir, 'quagga').length > 0, 'control');
  await host.alice.rebuildMemory({});
  world.isAgentdAway = false;
  await restart();
  while ((await getMemory(one.id)).erasure?.status !== 'running')
    await new Promise((resolve) => setTimeout(resolve, 10));
  assert.equal((await getMemory(one.id)).text, null);
  const order = world.erasures.find(({ memory_id }) => memory_id === one.id);
  assert.deepEqual(
    order?.texts.map(({ text }) => text),
    ['The quagga sleeps in the barn.', 'a picture of it'],
  );
  assert.deepEqual(findFiles(world.stateDir, 'quagga'), []);
});

test('what agents wrote with it, and what was made of it, is forgotten with it', async () => {
  const text = 'The addax drinks from the north trough.';
  const one = await host.remember(text);
  const body = { ids: [one.id], text: `Summary. ${text}` };
  const { memory: summary } = await host.alice.summarize({ body });
  const { memory: merged } = await host.alice.merge({
    body: { ids: [summary.id], text: `Merged. ${text}` },
  });
  const other = await host.remember(`Bob says: ${text}`);
  const agentd = host.as({ kind: 'daemon', principal: 'service:agentd', daemon: 'agentd' });
  await host.alice.forget({ body: { ids: [one.id] } });
  const forgotten = [world.erasures.find(({ memory_id }) => memory_id === one.id)!];
  const { found, cursor } = await agentd.eraseCopies({ body: { forgotten } });
  assert.deepEqual([found, cursor], [2, null]);
  const states = await Promise.all([summary, merged, other].map(({ id }) => getMemory(id)));
  assert.deepEqual(
    states.map(({ status }) => status),
    ['forgotten', 'forgotten', 'active'],
    'what a person wrote on their own stays',
  );
  assert.equal((await agentd.eraseCopies({ body: { forgotten } })).found, 0);
});

test('a text that another memory has too stays on the disk until both are forgotten', async () => {
  const long = 'the same long text '.repeat(400);
  const one = await host.remember(long);
  const two = await host.remember(long, { scope: 'team' });
  const objects = () =>
    readdirSync(join(world.stateDir, 'memory', 'objects', 'sha256'), {
      recursive: true,
      encoding: 'utf8',
    }).filter((name) => /[0-9a-f]{64}$/.test(name));
  await host.alice.forget({ body: { ids: [one.id] } });
  assert.equal(objects().length, 1);
  assert.equal((await getMemory(two.id)).text, long);
  await host.alice.forget({ body: { ids: [two.id] } });
  assert.equal(objects().length, 0);
});

test('forgetting needs data.delete, and a rule that asks is not enough', async () => {
  const { id } = await host.remember('Keep this.');
  const body = { ids: [id] };
  const who = 'principal == Person::"bob", action == Action::"data.delete"';
  for (const rule of ['forbid', '@ask("gone for good") forbid']) {
    await publish(`${rule} (${who}, resource in Scope::"project:app");`);
    await assert.rejects(host.bob.forget({ body }), hasCode('denied'));
    await assert.rejects(host.bob.expire({ body }), hasCode('denied'));
  }
  assert.equal((await getMemory(id)).status, 'active');
  await host.alice.forget({ body });
  assert.equal((await getMemory(id)).status, 'forgotten', 'control');
});
