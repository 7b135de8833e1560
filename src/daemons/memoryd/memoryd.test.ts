// Remembering and recalling through memoryd's routes: what is stored, who may read it, and what is
// recorded about it.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import type { NewMemory } from '../../wire/memoryd/records.ts';
import { hostMemoryd, type MemoryHost, type MemoryWorld, makeWorld } from './testing/host.ts';

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

const restart = async (config = {}): Promise<void> => {
  await host.stop();
  host = await hostMemoryd(world, config);
};
const recall = async (query: string, more: object = {}, client = host.alice) =>
  (await client.recall({ body: { query, ...more } })).memories;
const texts = async (...args: Parameters<typeof recall>) =>
  (await recall(...args)).map(({ text }) => text);
const hasCode = (code: string) => (error: unknown) => (error as { code?: string }).code === code;

test('[R72] [R73] a memory is recalled by its words, with everything that was said about it', async () => {
  const more: Partial<NewMemory> = {
    class: 'episodic',
    occurred_at: '2026-06-01T09:00:00Z',
    speaker: 'Maria',
    ref: 'D1:3',
    thread: 'session 1',
    seq: 3,
    caption: 'a lighthouse',
    importance: 0.5,
  };
  const memory = await host.remember('The lighthouse at Portland closes in October.', more);
  await host.remember('Bread is baked on Mondays.');
  const found = await recall('When does the lighthouse close?', { scope: 'project:app' });
  assert.equal(found[0]?.id, memory.id);
  const { score, ...rest } = found[0]!;
  assert.ok(score > 0);
  assert.deepEqual(rest, {
    id: memory.id,
    class: 'episodic',
    scope: 'project:app',
    text: 'The lighthouse at Portland closes in October.',
    ref: 'D1:3',
    labels: ['person'],
    occurred_at: '2026-06-01T09:00:00Z',
    speaker: 'Maria',
    thread: 'session 1',
    seq: 3,
    caption: 'a lighthouse',
    version: 1,
    recorded_at: '2026-06-29T18:00:00.000Z',
  });
  const { memory: shown } = await host.alice.getMemory({ params: { id: memory.id } });
  assert.deepEqual(shown, memory);
  assert.deepEqual([shown.by, shown.status, shown.importance], ['person:alice', 'active', 0.5]);
});

test('a scope includes those below it, and no others', async () => {
  await host.remember('The parser of the app is slow.', { scope: 'project:app' });
  await host.remember('The parser tests are in tests/parser.', { scope: 'project:app/coder' });
  await host.remember('The parser of application two.', { scope: 'project:app2' });
  await host.remember('Our parser expert is Ann.', { scope: 'team' });
  const inScope = (scope: string) => texts('parser', { scope });
  assert.equal((await inScope('project:app')).length, 2);
  assert.deepEqual(await inScope('project:app/coder'), ['The parser tests are in tests/parser.']);
  assert.equal((await inScope('project')).length, 3);
  assert.equal((await texts('parser')).length, 4, 'without a scope, all that may be read');
  assert.equal((await texts('parser', { scopes: ['team', 'project:app2'] })).length, 2);
  assert.deepEqual(await texts('parser', { agent: 'coder', scope: 'project' }).then(sorted), [
    'The parser of the app is slow.',
    'The parser tests are in tests/parser.',
  ]);
});
const sorted = (list: string[]) => list.toSorted();

test('the memory of a person is open only to that person, with a key of their own', async () => {
  const body = { class: 'preference', scope: 'person:alice', text: 'I like green tea.' } as const;
  const { memories } = await host.alice.remember({ body });
  const params = { id: memories[0]!.id };
  assert.deepEqual(await texts('tea'), ['I like green tea.'], 'control: alice may');
  const claimsToBe = host.as({ kind: 'operator', principal: 'person:alice' });
  for (const other of [host.bob, host.operator, claimsToBe]) {
    await assert.rejects(other.remember({ body }), hasCode('denied'));
    await assert.rejects(recall('tea', { scope: 'person:alice' }, other), hasCode('denied'));
    await assert.rejects(recall('tea', { scope: 'person' }, other), hasCode('denied'));
    assert.deepEqual(await texts('tea', {}, other), []);
    const unknown = { id: `memory_${'0'.repeat(26)}` as typeof params.id };
    const refusal = (of: typeof params) =>
      other.getMemory({ params: of }).catch((error: Error) => error.message.replace(of.id, 'X'));
    assert.equal(await refusal(params), await refusal(unknown));
  }
});

test('no rule of a site opens the memory of a person to others', async () => {
  await host.remember('I like green tea.', { scope: 'person:alice' });
  world.publish('permit (principal, action, resource);');
  await restart();
  assert.deepEqual(await texts('tea', {}, host.bob), []);
  assert.deepEqual(await texts('tea'), ['I like green tea.'], 'control');
});

test('[R30] [R86] [R310] policy decides about writing and reading; a denial is recorded', async () => {
  await host.remember('The vault opens at nine.', { scope: 'project:bank' });
  const closed = 'resource in Scope::"project:bank"';
  world.publish(
    `forbid (principal == Person::"bob", action == Action::"memory.read", ${closed});
     forbid (principal == Person::"bob", action == Action::"memory.write", ${closed});`,
  );
  await restart();
  assert.deepEqual(await texts('vault', {}, host.bob), []);
  await assert.rejects(recall('vault', { scope: 'project:bank' }, host.bob), hasCode('denied'));
  const body = { class: 'semantic', scope: 'project:bank', text: 'x' } as const;
  await assert.rejects(host.bob.remember({ body }), hasCode('denied'));
  assert.deepEqual(await texts('vault'), ['The vault opens at nine.'], 'control');
  await restart();
  const denied = world.events.filter(({ event }) => event === 'policy.denied');
  assert.deepEqual(
    denied.map(({ principal, status, policy }) => [principal, status, policy]),
    [
      ['person:bob', 'memory.read', 'site:test.cedar:1'],
      ['person:bob', 'memory.write', 'site:test.cedar:2'],
    ],
  );
});

test('a write that policy would ask about is a proposal, which nobody recalls', async () => {
  world.publish(
    '@ask("shared") forbid (principal, action == Action::"memory.write", resource == Scope::"team");',
  );
  await restart();
  const proposed = await host.remember('We deploy on Fridays.', { scope: 'team' });
  assert.equal(proposed.status, 'proposed');
  assert.deepEqual(await texts('deploy'), []);
  const kinds = () => world.events.map(({ event }) => event);
  await restart();
  assert.ok(kinds().includes('memory.proposed'));
});

test('a batch is remembered together or not at all, once per key', async () => {
  const memory = (text: string, scope = 'team'): NewMemory => ({ class: 'semantic', scope, text });
  const body = { memories: [memory('One apple.'), memory('Two apples.')] };
  const key = { idempotencyKey: 'k1' };
  const first = await host.alice.remember({ body }, key);
  const again = await host.alice.remember({ body }, key);
  assert.deepEqual(again, first);
  assert.equal((await recall('apple')).length, 2);
  const other = { memories: [memory('Three apples.')] };
  await assert.rejects(host.alice.remember({ body: other }, key), hasCode('idempotency_mismatch'));
  const mixed = { memories: [memory('Four pears.'), memory('Five pears.', 'person:bob')] };
  await assert.rejects(host.alice.remember({ body: mixed }), hasCode('denied'));
  assert.deepEqual(await texts('pears'), []);
});

test('a memory that contradicts another replaces it, and both are linked', async () => {
  const old = await host.remember('The office is in Berlin.');
  world.clock.advance(1_000);
  const next = await host.remember('The office is in Hamburg.', { supersedes: [old.id] });
  assert.deepEqual(await texts('office'), ['The office is in Hamburg.']);
  assert.deepEqual(next.links, [{ kind: 'supersedes', id: old.id, version: 1 }]);
  const { memory } = await host.alice.getMemory({ params: { id: old.id } });
  assert.deepEqual([memory.status, memory.text], ['superseded', 'The office is in Berlin.']);
  assert.deepEqual(memory.used_by, [{ kind: 'supersedes', id: next.id, version: 1 }]);
  const before = { as_of: '2026-06-29T18:00:00.500Z' };
  assert.deepEqual(await texts('office', before), ['The office is in Berlin.']);
  const twice = host.remember('The office is in Rome.', { supersedes: [old.id] });
  await assert.rejects(twice, hasCode('conflict'));
});

test('a link to a memory that may not be read is not shown', async () => {
  const old = await host.remember('Lunch is at noon.');
  await host.remember('I have lunch at one.', { scope: 'person:alice', supersedes: [old.id] });
  const { memory } = await host.bob.getMemory({ params: { id: old.id } });
  assert.deepEqual(memory.used_by, []);
  const { memory: own } = await host.alice.getMemory({ params: { id: old.id } });
  assert.equal(own.used_by.length, 1, 'control');
});

test('a memory is recalled while it is valid and not expired', async () => {
  await host.remember('The canteen is closed.', {
    valid_from: '2026-07-01T00:00:00Z',
    valid_to: '2026-07-08T00:00:00Z',
  });
  await host.remember('The canteen has a coupon.', { expires_at: '2026-07-02T00:00:00Z' });
  assert.deepEqual(await texts('canteen'), ['The canteen has a coupon.']);
  world.clock.advance(5 * 86_400_000);
  assert.deepEqual(await texts('canteen'), ['The canteen is closed.']);
  world.clock.advance(5 * 86_400_000);
  assert.deepEqual(await texts('canteen'), []);
});

test('[R64] [R82] texts beyond 4 KiB are objects, and are found after a restart', async () => {
  const long = `${'Nothing to see here. '.repeat(500)}The treasure is under the oak.`;
  const memory = await host.remember(long);
  await restart();
  const found = await recall('treasure oak');
  assert.deepEqual([found[0]?.id, found[0]?.text], [memory.id, long]);
  await restart({ text_bytes_max: 5_000 });
  await assert.rejects(host.remember('x'.repeat(5_001)), hasCode('too_large'));
  await host.remember('x'.repeat(5_000));
});

test('max_tokens bounds all texts together, and equal texts are recalled once', async () => {
  for (const text of ['tea tea one', 'tea tea one', 'tea two', 'tea three'])
    await host.remember(text);
  assert.equal((await recall('tea')).length, 3);
  assert.equal((await recall('tea', { max_tokens: 5 })).length, 2);
  assert.equal((await recall('tea', { limit: 1 })).length, 1);
});

test('every write and every recall is an event with ids and without text', async () => {
  const memory = await host.remember('The secret garden.');
  await recall('garden');
  await restart();
  const own = world.events.filter(({ event }) => event.startsWith('memory.'));
  assert.deepEqual(
    own.map(({ event, principal, data }) => [event, principal, data?.memory_id ?? data?.memories]),
    [
      ['memory.remembered', 'person:alice', memory.id],
      ['memory.recalled', 'person:alice', memory.id],
    ],
  );
  assert.doesNotMatch(JSON.stringify(own), /garden/);
});

test('configuration sets how long memories of a class and scope are kept', async () => {
  await restart({
    expires_s_for: { episodic: 3_600, 'project:app': 7_200, 'episodic project:app': 60 },
  });
  const lifetime = async (more: Partial<NewMemory>) => {
    const { expires_at, created_at } = await host.remember('x', more);
    return expires_at === null ? null : (Date.parse(expires_at) - Date.parse(created_at)) / 1_000;
  };
  assert.equal(await lifetime({ class: 'episodic', scope: 'team' }), 3_600);
  assert.equal(await lifetime({ class: 'semantic', scope: 'project:app/coder' }), 7_200);
  assert.equal(await lifetime({ class: 'episodic', scope: 'project:app' }), 60);
  assert.equal(await lifetime({ class: 'semantic', scope: 'team' }), null);
});

test('texts of every script are found by their own words, also in long texts', async () => {
  const known: [query: string, text: string][] = [
    ['東京タワー', '東京タワーは赤い。'],
    ['서울에서', '회의는 서울에서 열린다.'],
    ['مرحبا', 'مرحبا بالعالم'],
    ['🦀', 'The 🦀 lives in the tide pool.'],
    ['naïve café', 'A nai\u0308ve plan at the cafe\u0301.'],
    ['Straße', 'Die Straße ist gesperrt.'],
  ];
  for (const [, text] of known) await host.remember(text);
  const needle = 'The treasure of the quokka is under the oak.';
  const long = `${'Nothing to see here, move along please. '.repeat(250_000)}${needle}`;
  assert.ok(long.length > 10_000_000);
  const { id } = await host.remember(long);
  for (const [query, text] of known) assert.ok((await texts(query)).includes(text), query);
  const odd = '\u0000\u202e\ud83d lone \ufeff\u2028 end';
  const { text } = await host.remember(odd);
  assert.equal(text, odd.toWellFormed());
  await restart();
  assert.ok(
    (await recall('oak treasure quokka')).some((found) => found.id === id),
    'at its end',
  );
});
