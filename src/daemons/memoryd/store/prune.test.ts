// Episodes are pruned: rows, index, objects and lines of the journal go, a rebuild is equal, and
// what a person has changed stays. However many tasks end, what is kept is bounded.
import assert from 'node:assert/strict';
import { existsSync, globSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { deriveId } from '../../../platform/ids.ts';
import type { MemoryId } from '../../../wire/memoryd/records.ts';
import type { RunId, TaskId } from '../../../wire/primitives.ts';
import {
  hostMemoryd,
  type MemoryClient,
  type MemoryHost,
  type MemoryWorld,
  makeWorld,
} from '../testing/host.ts';
import { dumpTables, withoutIndex } from '../testing/tables.ts';

const DAY_MS = 86_400_000;
const SCOPE = 'agent:coder';
const why = { by: 'service:agentd', cause: 'they are old' } as const;

let world: MemoryWorld;
let host: MemoryHost;
let agentd: MemoryClient;
beforeEach(() => open(makeWorld()));
afterEach(async () => {
  await host.stop();
  world.remove();
});

async function open(next: MemoryWorld): Promise<void> {
  world = next;
  host = await hostMemoryd(world);
  agentd = host.as({ kind: 'daemon', principal: 'service:agentd', daemon: 'agentd' });
}

let ended = 0;
async function endTask(words = 'It counted herons.'): Promise<MemoryId[]> {
  const taskId = deriveId<TaskId>('task', 'prune', ended++);
  const { ids } = await agentd.keepEpisode({
    body: {
      agent: 'coder',
      run_id: deriveId<RunId>('run', taskId),
      task_id: taskId,
      root_task_id: taskId,
      labels: [],
      owner: null,
      scopes: [SCOPE],
      occurred_at: new Date(world.clock.nowMs()).toISOString(),
      structure: `Episode of ${taskId}: completed; 1.0 s`,
      words,
    },
  });
  return ids;
}

const listOld = async (olderThanMs: number) => {
  const recorded_before = new Date(world.clock.nowMs() - olderThanMs).toISOString();
  return (await agentd.listEpisodes({ query: { recorded_before, limit: 100 } })).episodes;
};
async function compactAll(): Promise<void> {
  while ((await agentd.compactMemory({})).compacted);
}
const count = (name: string): number => dumpTables(world.stateDir)[name]!.length;
const journals = () => join(world.stateDir, 'memory', 'journals');
const journalBytes = () =>
  readdirSync(journals()).reduce((sum, name) => sum + statSync(join(journals(), name)).size, 0);
const objects = () =>
  globSync('sha256/*/*/*', { cwd: join(world.stateDir, 'memory', 'objects') }).length;

test('over 120 days, what is kept for 5 is bounded in rows and files', async () => {
  const sizes: Record<
    'memories' | 'versions' | 'records' | 'pruned' | 'files' | 'bytes' | 'objects',
    number
  >[] = [];
  for (let day = 0; day < 120; day++) {
    world.clock.advance(DAY_MS);
    for (let n = 0; n < 4; n++) await endTask(n === 0 ? 'Long. '.repeat(1_000) : undefined);
    for (let page = await listOld(5 * DAY_MS); page.length > 0; page = await listOld(5 * DAY_MS))
      await agentd.pruneEpisodes({ body: { ids: page.map(({ id }) => id), ...why } });
    await compactAll();
    if (day % 40 === 39)
      sizes.push({
        memories: count('memories'),
        versions: count('versions'),
        records: count('memory_index_records'),
        pruned: count('pruned'),
        files: readdirSync(journals()).length,
        bytes: Math.round(journalBytes() / 10_000),
        objects: objects(),
      });
  }
  const [, second, third] = sizes;
  assert.deepEqual(third, second, 'it does not grow');
  const { memories, files, objects: left } = third!;
  assert.ok(memories <= 48, `${memories} memories`);
  // Answers to requests are kept for 30 days, without the texts.
  assert.ok(files <= 37, `${files} files`);
  assert.equal(left, 1, 'the texts are equal, and used');
});

test('what is pruned is nowhere, and a rebuild is equal', async () => {
  const [structure, words] = await endTask('Kestrels nest on the crane.');
  const [, long] = await endTask(`Cormorants. ${'x'.repeat(5_000)}`);
  const fact = await host.remember('Herons stand still.');
  assert.equal(objects(), 1);
  world.clock.advance(DAY_MS);
  await host.remember('A line of the day after.');
  const ids = [structure!, words!, long!];
  const { pruned, bytes } = await agentd.pruneEpisodes({ body: { ids, ...why } });
  assert.ok(pruned === 3 && bytes > 5_000);
  assert.deepEqual((await agentd.pruneEpisodes({ body: { ids, ...why } })).pruned, 0, 'once');
  const text = () => readFileSync(join(journals(), '2026-06-29.jsonl'), 'utf8');
  assert.match(text(), /Kestrels/, 'until its day is compacted');
  await compactAll();
  assert.doesNotMatch(text(), /Kestrels/);
  assert.match(text(), /Herons/);
  assert.equal(objects(), 0);
  await assert.rejects(host.operator.getMemory({ params: { id: words! }, query: {} }), {
    code: 'not_found',
  });
  const { memories } = await host.alice.recall({ body: { query: 'kestrels cormorants' } });
  assert.deepEqual(memories, []);
  const tables = withoutIndex(dumpTables(world.stateDir));
  assert.deepEqual((await host.alice.rebuildMemory({})).problems, []);
  assert.deepEqual(withoutIndex(dumpTables(world.stateDir)), tables);
  const { memory } = await host.alice.getMemory({ params: { id: fact.id }, query: {} });
  assert.equal(memory.text, 'Herons stand still.');
  world.clock.advance(1_000);
  const events = world.events.filter(({ event }) => event === 'memory.pruned');
  assert.deepEqual(
    events.map(({ data, principal }) => [data?.memory_id, data?.cause, principal]),
    ids.map((id) => [id, why.cause, why.by]),
  );
});

test('an episode that a person has edited or that is a summary stays', async () => {
  const [structure, words] = await endTask();
  await host.operator.editMemory({ params: { id: words! }, body: { text: 'It counted terns.' } });
  const body = { ids: [structure!, words!], text: 'Terns were counted.', scope: SCOPE };
  const { memory } = await host.operator.summarize({ body });
  world.clock.advance(DAY_MS);
  const old = await listOld(0);
  assert.deepEqual(
    old.map(({ id }) => id),
    [structure],
  );
  const ids = [structure!, words!, memory.id];
  assert.equal((await agentd.pruneEpisodes({ body: { ids, ...why } })).pruned, 1);
  const view = (await host.operator.getMemory({ params: { id: memory.id }, query: {} })).memory;
  assert.deepEqual(
    view.links.map(({ id }) => id),
    [words],
    'no link leads to what is gone',
  );
});

test('scopes with too many are found, with the newest that is too many', async () => {
  const ids: MemoryId[] = [];
  for (let n = 0; n < 5; n++) {
    world.clock.advance(10);
    ids.push(...(await endTask()));
  }
  const full = async (episodes_max: number) =>
    (await agentd.listFullScopes({ query: { episodes_max } })).scopes;
  assert.deepEqual(await full(10), []);
  assert.deepEqual(await full(7), [{ scope: SCOPE, until: ids.toSorted()[2] }]);
  const { scopes } = await agentd.memorySizes({});
  assert.equal(scopes.find(({ scope }) => scope === SCOPE)!.episodes, 10);
});

test('a repeated episode is answered as before, also when it was pruned and compacted', async () => {
  const ids = await endTask();
  world.clock.advance(DAY_MS);
  await host.remember('A line of the day after.');
  await agentd.pruneEpisodes({ body: { ids, ...why } });
  await compactAll();
  ended--;
  assert.deepEqual(await endTask(), ids);
  const file = join(journals(), '2026-06-29.jsonl');
  assert.ok(existsSync(file));
  world.clock.advance(32 * DAY_MS);
  await host.remember('A month later.');
  await compactAll();
  assert.equal(existsSync(file), false, 'nothing refers to that day');
  assert.equal(count('compactions'), 0);
});

test('a crash between the journal and the tables is made good', async () => {
  const ids = await endTask();
  await host.remember('Of the same day.');
  world.clock.advance(DAY_MS);
  await agentd.pruneEpisodes({ body: { ids, ...why } });
  world.clock.advance(DAY_MS);
  await host.remember('Of the day after.');
  world.failpoint = (name) => {
    if (name === 'memoryd.after-compact') throw new Error('killed');
  };
  await assert.rejects(agentd.compactMemory({}));
  world.failpoint = () => {};
  await host.stop();
  await open(world);
  await compactAll();
  assert.equal(count('pruned'), 0);
  const tables = withoutIndex(dumpTables(world.stateDir));
  await host.alice.rebuildMemory({});
  assert.deepEqual(withoutIndex(dumpTables(world.stateDir)), tables);
});
