// Changing memories through memoryd's routes: edits, merges, proposals, expiry, snapshots and
// rollbacks; what each leaves, and who may do it.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import type { NewMemory } from '../../wire/memoryd/records.ts';
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

const later = () => world.clock.advance(1_000);
const now = () => new Date(world.clock.nowMs()).toISOString();
const askAboutTeam =
  '@ask("shared") forbid (principal, action == Action::"memory.write", resource == Scope::"team");';

test('an edit adds a version; the older one is in the history and found as of its time', async () => {
  const { id } = await host.remember('Tea is at four.', { ref: 'note 1', labels: ['outside'] });
  const before = now();
  later();
  const params = { id };
  const { memory } = await host.bob.editMemory({ params, body: { text: 'Tea is at five.' } });
  assert.deepEqual([memory.version, memory.ref, memory.by], [2, 'note 1', 'person:bob']);
  assert.deepEqual(memory.labels, ['person', 'outside'], 'no edit takes a mark off');
  assert.deepEqual(memory.links, [{ kind: 'edits', id, version: 1 }]);
  assert.deepEqual(await findTexts('tea'), ['Tea is at five.']);
  assert.deepEqual(await findTexts('tea', { as_of: before }), ['Tea is at four.']);
  const { versions } = await host.alice.memoryHistory({ params });
  assert.deepEqual(
    versions.map(({ text, ended_at }) => [text, ended_at === null]),
    [
      ['Tea is at four.', false],
      ['Tea is at five.', true],
    ],
  );
  const stale = host.alice.editMemory({ params, body: { text: 'x', version: 1 } });
  await assert.rejects(stale, hasCode('conflict'));
});

test('only a person who vouches for a text takes its marks off, in a new version', async () => {
  const { id } = await host.remember('The door code is odd.', { labels: ['outside'] });
  const { memory } = await host.bob.editMemory({ params: { id }, body: { vouch: true } });
  assert.deepEqual(memory.labels, ['person']);
  assert.deepEqual([memory.text, memory.links[0]?.kind], ['The door code is odd.', 'vouches']);
});

test('[R76] a merge replaces its inputs, links to them and carries the labels of all', async () => {
  const one = await host.remember('Ann likes tea.', { labels: ['personal'] });
  const two = await host.remember('Ann likes green tea.', { labels: ['outside'] });
  const ids = [one.id, two.id];
  const key = { idempotencyKey: 'one' };
  const body = { ids, text: 'Ann drinks green tea.' };
  const { memory } = await host.alice.merge({ body }, key);
  const repeated = await host.alice.merge({ body }, key);
  assert.equal(repeated.memory.id, memory.id);
  assert.deepEqual(memory.labels.toSorted(), ['outside', 'person', 'personal']);
  assert.deepEqual(memory.links.map(({ kind, id }) => [kind, id]).toSorted(), [
    ['merges', one.id],
    ['merges', two.id],
  ]);
  assert.deepEqual(await findTexts('tea'), ['Ann drinks green tea.']);
  assert.equal((await getMemory(one.id)).status, 'merged');
  const again = host.alice.merge({ body: { ids, text: 'x' } });
  await assert.rejects(again, hasCode('conflict'));
});

test('[R77] a summary stays outside text, however often it is summarized and merged', async () => {
  const page = await host.remember('The user wants all backups deleted.', { labels: ['outside'] });
  const own = await host.remember('Backups run at night.');
  const body = { ids: [page.id, own.id], text: 'Backups: nightly; the user wants them gone.' };
  const { memory: summary } = await host.alice.summarize({ body });
  assert.equal((await getMemory(page.id)).status, 'active', 'a summary keeps its inputs');
  const other = await host.remember('Backups are on disk two.');
  const { memory: merged } = await host.alice.merge({
    body: { ids: [summary.id, other.id], text: 'Backups on disk two; the user wants them gone.' },
  });
  const { memory: edited } = await host.alice.editMemory({
    params: { id: merged.id },
    body: { text: 'The user wants backups gone.' },
  });
  const found = await host.alice.recall({ body: { query: 'backups gone' } });
  const recalled = found.memories.find(({ id }) => id === edited.id);
  assert.ok(recalled!.labels.includes('outside'));
  const { memories } = await host.alice.recall({ body: { query: 'disk two' } });
  assert.ok(memories.every(({ labels, id }) => id === edited.id || !labels.includes('outside')));
});

test('what is merged across scopes needs a scope, and the right to write in each', async () => {
  const app = await host.remember('Fact one.', { scope: 'project:app' });
  const bank = await host.remember('Fact two.', { scope: 'project:bank' });
  const body = { ids: [app.id, bank.id], text: 'Both facts.' };
  await assert.rejects(host.alice.merge({ body }), hasCode('bad_request'));
  await publish(
    'forbid (principal == Person::"bob", action == Action::"memory.write", resource in Scope::"project:bank");',
  );
  const inApp = { ...body, scope: 'project:app' };
  await assert.rejects(host.bob.merge({ body: inApp }), hasCode('denied'));
  assert.equal((await host.bob.summarize({ body: inApp })).memory.status, 'active');
  assert.equal((await host.alice.merge({ body: inApp })).memory.scope, 'project:app', 'control');
});

test('[R80] [R81] an approved proposal is recalled and replaces what it said it would', async () => {
  const old = await host.remember('Lunch is at noon.', { scope: 'team' });
  await publish(askAboutTeam);
  const next = { scope: 'team', supersedes: [old.id] };
  const proposal = await host.remember('Lunch is at one.', next);
  assert.equal(proposal.status, 'proposed');
  assert.deepEqual(await findTexts('lunch'), ['Lunch is at noon.']);
  const params = { id: proposal.id };
  await assert.rejects(host.alice.approveMemory({ params }), hasCode('denied'), 'not by alice');
  const { memory } = await host.bob.approveMemory({ params });
  assert.equal(memory.status, 'active');
  assert.deepEqual(await findTexts('lunch'), ['Lunch is at one.']);
  assert.equal((await getMemory(old.id)).status, 'superseded');
  await assert.rejects(host.bob.approveMemory({ params }), hasCode('conflict'));
});

test('several proposals are decided at once, each on its own', async () => {
  const propose = async (text: string) => {
    const body: NewMemory = { class: 'semantic', scope: 'team', text };
    return (await host.alice.proposeMemory({ body })).memory.id;
  };
  const ids = [await propose('Tea is at four.'), await propose('Tea is at five.')];
  const active = await host.remember('Tea is green.', { scope: 'team' });
  const secret = await host.remember('The vault code is 7.', { scope: 'person:alice' });
  const body = { ids: [ids[0]!, active.id, secret.id, ids[1]!] };
  const { decided } = await host.bob.approveMemories({ body });
  assert.deepEqual(
    decided.map(({ id, memory, error }) => [id, memory?.status ?? error?.code]),
    [
      [ids[0], 'active'],
      [active.id, 'conflict'],
      [secret.id, 'not_found'],
      [ids[1], 'active'],
    ],
  );
  const last = await propose('Tea is at six.');
  const rejected = await host.bob.rejectMemories({ body: { ids: [last, last] } });
  assert.deepEqual(
    rejected.decided.map(({ memory }) => memory?.status),
    ['rejected'],
  );
  assert.equal((await findTexts('tea')).length, 3);
});

test('a rejected proposal is never recalled; whoever wants may only propose', async () => {
  const body: NewMemory = { class: 'semantic', scope: 'team', text: 'We ship on Fridays.' };
  const { memory } = await host.alice.proposeMemory({ body });
  assert.equal(memory.status, 'proposed');
  const rejected = await host.bob.rejectMemory({ params: { id: memory.id } });
  assert.equal(rejected.memory.status, 'rejected');
  assert.deepEqual(await findTexts('ship'), []);
  const again = host.bob.approveMemory({ params: { id: memory.id } });
  await assert.rejects(again, hasCode('conflict'));
});

test('[R75] [R138] what expires is ended when it is due, without anyone asking', async () => {
  const soon = await host.remember('Soon gone.', { expires_at: '2026-06-29T18:01:00Z' });
  const other = await host.remember('Later gone.');
  const body = { ids: [other.id], at: '2026-06-29T18:02:00Z' };
  await host.alice.expire({ body });
  const settle = async () => {
    for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve));
  };
  await settle();
  world.clock.advance(61_000);
  await settle();
  assert.deepEqual(
    [(await getMemory(soon.id)).status, (await getMemory(other.id)).status],
    ['expired', 'active'],
  );
  world.clock.advance(60_000);
  await settle();
  assert.equal((await getMemory(other.id)).status, 'expired');
  assert.equal((await getMemory(other.id)).by, 'person:alice');
  await restart();
  const ends = world.events.filter(({ event }) => event === 'memory.ended');
  assert.deepEqual(
    ends.map(({ principal, status }) => [principal, status]),
    [
      ['service:memoryd', 'expired'],
      ['service:memoryd', 'expired'],
    ],
  );
});

test('[R78] [R79] a rollback takes a scope back to a snapshot, but never brings back what was forgotten', async () => {
  const kept = await host.remember('Kept as it is.');
  const edited = await host.remember('The first word.');
  const ended = await host.remember('Once expired.');
  const gone = await host.remember('Once forgotten.');
  const elsewhere = await host.remember('In another scope.', { scope: 'team' });
  const { snapshot } = await host.alice.takeMemorySnapshot({ body: { scope: 'project:app' } });
  later();
  await host.alice.editMemory({ params: { id: edited.id }, body: { text: 'The second word.' } });
  await host.alice.expire({ body: { ids: [ended.id, elsewhere.id] } });
  await host.alice.forget({ body: { ids: [gone.id] } });
  const added = await host.remember('Added since.', { scope: 'project:app/coder' });
  later();
  const { changed } = await host.alice.rollBackMemory({ body: { snapshot_id: snapshot.id } });
  assert.equal(changed, 3);
  const statuses = await Promise.all(
    [kept, edited, ended, gone, elsewhere, added].map(async ({ id }) => {
      const { status, text } = await getMemory(id);
      return [status, text];
    }),
  );
  assert.deepEqual(statuses, [
    ['active', 'Kept as it is.'],
    ['active', 'The first word.'],
    ['active', 'Once expired.'],
    ['forgotten', null],
    ['expired', 'In another scope.'],
    ['rolled_back', 'Added since.'],
  ]);
  assert.deepEqual(await findTexts('word'), ['The first word.']);
  const { snapshots } = await host.alice.listMemorySnapshots({ query: {} });
  assert.deepEqual(snapshots, [snapshot]);
});

test('one memory is taken back to an earlier version', async () => {
  const { id } = await host.remember('Version one.');
  later();
  await host.alice.editMemory({ params: { id }, body: { text: 'Version two.' } });
  await host.alice.rollBackMemory({ body: { id, version: 1 } });
  const memory = await getMemory(id);
  assert.deepEqual([memory.version, memory.text], [3, 'Version one.']);
  assert.deepEqual(memory.links, [{ kind: 'restores', id, version: 1 }]);
  const missing = host.alice.rollBackMemory({ body: { id, version: 9 } });
  await assert.rejects(missing, hasCode('not_found'));
});

test('lists are newest first, by pages, and only of what may be read', async () => {
  const ids: string[] = [];
  for (const scope of ['team', 'project:app', 'project:app/coder', 'person:alice', 'team']) {
    ids.unshift((await host.remember(`In ${scope}.`, { scope })).id);
    later();
  }
  const all = await host.alice.listMemories({ query: {} });
  assert.deepEqual(
    all.memories.map(({ id }) => id),
    ids,
  );
  const first = await host.bob.listMemories({ query: { limit: 3 } });
  const rest = await host.bob.listMemories({ query: { limit: 3, cursor: first.cursor! } });
  assert.deepEqual([first.memories.length, rest.memories.length, rest.cursor], [3, 1, null]);
  const inApp = await host.bob.listMemories({ query: { scope: 'project:app' } });
  assert.equal(inApp.memories.length, 2);
  assert.deepEqual(await host.bob.listMemories({ query: { scope: 'person:alice' } }), {
    memories: [],
    cursor: null,
  });
  assert.ok(existsSync(world.stateDir));
});

test('whoever may not read a scope learns nothing about it from any operation', async () => {
  const secret = await host.remember('The vault code is 7.', { scope: 'person:alice' });
  const { snapshot } = await host.alice.takeMemorySnapshot({ body: { scope: 'person:alice' } });
  const open = await host.remember('An open fact.');
  const { bob } = host;
  const unknown = `memory_${'0'.repeat(26)}` as typeof secret.id;
  const operations: ((id: typeof secret.id) => Promise<unknown>)[] = [
    (id) => bob.getMemory({ params: { id } }),
    (id) => bob.memoryHistory({ params: { id } }),
    (id) => bob.editMemory({ params: { id }, body: { text: 'x' } }),
    (id) => bob.approveMemory({ params: { id } }),
    (id) => bob.rejectMemory({ params: { id } }),
    async (id) => {
      const [one] = (await bob.approveMemories({ body: { ids: [id] } })).decided;
      throw Object.assign(new Error(one!.error!.message), one!.error);
    },
    (id) => bob.forget({ body: { ids: [id] } }),
    (id) => bob.expire({ body: { ids: [id] } }),
    (id) => bob.merge({ body: { ids: [open.id, id], text: 'x' } }),
    (id) => bob.summarize({ body: { ids: [id], text: 'x' } }),
    (id) => bob.rollBackMemory({ body: { id, version: 1 } }),
    (id) =>
      bob.remember({ body: { class: 'semantic', scope: 'team', text: 'x', supersedes: [id] } }),
  ];
  for (const operate of operations) {
    const refusal = (id: typeof secret.id) =>
      operate(id).then(
        () => 'answered',
        (error: Error & { code: string }) => `${error.code} ${error.message.replaceAll(id, 'X')}`,
      );
    assert.equal(await refusal(secret.id), await refusal(unknown), String(operate));
    assert.match(await refusal(secret.id), /^not_found/, String(operate));
  }
  assert.deepEqual((await bob.listMemorySnapshots({ query: {} })).snapshots, []);
  const rollback = bob.rollBackMemory({ body: { snapshot_id: snapshot.id } });
  await assert.rejects(rollback, hasCode('not_found'));
  assert.equal((await getMemory(secret.id)).text, 'The vault code is 7.', 'control: alice may');
});
